"""The MCP skills extension: a skill is served as resources, and its frontmatter as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem
from prowess.skill.filenames import find_skill_md
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.mcp_extension import BYTES_LIMIT, FILES_LIMIT
from prowess.skill.package import Package
from prowess.skill.profiles import checks
from prowess.skill.profiles.profile import Profile
from prowess.skill.profiles.strict_yaml import Scalar, iter_scalars, read_strictly

RESERVED = "io.modelcontextprotocol/"

_STYLE = frozenset({"strict-flow", "strict-indentation"})
"""Problems that only the reference validator has: the extension sends frontmatter as JSON, whatever its style."""


def check(reading: Reading, limits: Limits) -> Iterator[Problem]:
    """Check name and description by the standard, JSON-compatible frontmatter, and the limits of the extension."""
    yield from _check_size(reading.package)
    file = find_skill_md(reading.package)
    if file is None:
        yield checks.missing_file()
        return
    strict = read_strictly(file.content, limits)
    yield from (problem for problem in strict.refusals if problem.code not in _STYLE)
    fields, lines = strict.fields, strict.lines
    if fields is None:
        return
    yield from checks.check_name(fields, lines, reading.package.name)
    yield from checks.check_description(fields, lines)
    yield from (problem for scalar in iter_scalars(strict.raw) for problem in _check_json(scalar))
    for key in checks.as_mapping(fields.get("metadata")) or ():
        if key.startswith(RESERVED):
            message = f"The metadata key {key[:80]!r} is reserved by the protocol."
            yield checks.error("mcp-reserved", message, "Use another prefix.", "metadata", lines.get("metadata"))


def _check_size(package: Package) -> Iterator[Problem]:
    total = sum(len(file.content) for file in package.files)
    if len(package.files) > FILES_LIMIT:
        message = f"The skill has {len(package.files):,} files; the extension allows {FILES_LIMIT}."
        yield checks.error("mcp-files", message, "Remove files that the skill does not need.")
    if total > BYTES_LIMIT:
        message = f"The skill is {total:,} bytes; the extension allows {BYTES_LIMIT:,}."
        yield checks.error("mcp-bytes", message, "Remove the largest files.")


def _check_json(scalar: Scalar) -> Iterator[Problem]:
    if scalar.is_key and scalar.type != "str":
        message = f"The key {scalar.text[:80]!r} is read as {_TYPES.get(scalar.type, scalar.type)}, not as text."
        yield checks.error("not-json", message, "Quote the key.", scalar.key, scalar.line)
    # The extension sends frontmatter as JSON, which has neither dates nor infinite numbers.
    elif scalar.type == "timestamp" or scalar.text.lower().lstrip("+-") in (".inf", ".nan"):
        what = "a date" if scalar.type == "timestamp" else "an infinite number"
        if scalar.type in ("timestamp", "float"):
            message = f"YAML readers take {scalar.text[:80]!r} for {what}, which JSON cannot represent."
            yield checks.error("not-json", message, "Quote the value.", scalar.key, scalar.line)


_TYPES = {"int": "a number", "float": "a number", "bool": "a flag", "null": "nothing", "timestamp": "a date"}

MCP = Profile(
    name="mcp",
    summary="The MCP skills extension: name and description by the standard, JSON frontmatter, 512 files, 16 MiB.",
    check=check,
    refusal="Hosts reject it.",
    superseded=checks.NAME_AND_DESCRIPTION | checks.FIELDS,
    severities={"skill-md-spelling": "error"},
)
