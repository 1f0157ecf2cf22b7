"""Codex: frontmatter between plain markers, a description, and its own file `agents/openai.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from prowess.errors import Problem
from prowess.skill.filenames import CODEX_FILE, find_skill_md
from prowess.skill.forms.data import parse_yaml
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.skill.profiles import checks
from prowess.skill.profiles.profile import Profile

SHORT, LONG = 64, 1024
INTERFACE = ("display_name", "short_description", "icon_small", "icon_large", "brand_color", "default_prompt")
TOOL = ("type", "value", "description", "transport", "command", "url")


def check(reading: Reading, limits: Limits) -> Iterator[Problem]:
    """Check the markers, the name if given, the description, and `agents/openai.yaml` if present."""
    file = find_skill_md(reading.package)
    document = reading.document
    if file is None or document is None:
        yield checks.missing_file()
        return
    yield from check_sidecar(reading.package, limits)
    if not _has_markers(file.content.decode("utf-8", "replace")):
        hint = "Start the file with a --- line, and end the frontmatter with another."
        yield checks.error("strict-frontmatter", "SKILL.md has no frontmatter between two --- lines.", hint, None, 1)
        return
    # Codex allows small repairs (docs/profiles.md), so a repaired document counts as readable.
    if document.how not in ("yaml", "repaired"):
        hint = "Fix the YAML; quote values with special characters."
        yield checks.error("strict-yaml", "The frontmatter is not valid YAML, even after small repairs.", hint, None, 1)
    yield from _check_name(document.fields, document.lines)
    yield from checks.check_description(document.fields, document.lines)


def _has_markers(text: str) -> bool:
    lines = text.splitlines()
    return bool(lines) and lines[0].strip() == "---" and any(line.strip() == "---" for line in lines[1:])


def _check_name(fields: checks.Fields, lines: checks.Lines) -> Iterator[Problem]:
    name = " ".join(str(fields.get("name") or "").split())
    if len(name) > checks.NAME_LIMIT:
        message = f"The name has {len(name)} characters; the limit is {checks.NAME_LIMIT}."
        yield checks.error("name-long", message, "Shorten it.", "name", lines.get("name"))


def check_sidecar(package: Package, limits: Limits) -> Iterator[Problem]:
    """Yield the parts of `agents/openai.yaml` that Codex ignores. It never rejects a skill because of that file."""
    file = package.get(CODEX_FILE)
    if file is None:
        return
    parsed = parse_yaml(CODEX_FILE, file.content, limits)
    if parsed.problems:
        yield from (_soft(problem.message, problem.line) for problem in parsed.problems)
        return
    sections = {"interface": _interface, "policy": _policy, "dependencies": _dependencies}
    content = parsed.object
    if content is None:
        yield _soft(f"{CODEX_FILE} must be a mapping.")
        return
    for section, faults in sections.items():
        if content.get(section) is None:
            continue
        part = checks.as_mapping(content[section])
        found = faults(part) if part is not None else iter(["must be a mapping"])
        yield from (_soft(f"{section} in {CODEX_FILE} {fault}.") for fault in found)


def _interface(part: dict[str, Any]) -> Iterator[str]:
    for key, value in part.items():
        if key in INTERFACE:
            yield from _text_faults(key, value)


def _policy(part: dict[str, Any]) -> Iterator[str]:
    if not isinstance(part.get("allow_implicit_invocation", True), bool):
        yield "has an allow_implicit_invocation that is not true or false"
    if not isinstance(part.get("products", []), list):
        yield "has products that are not a list"


def _dependencies(part: dict[str, Any]) -> Iterator[str]:
    tools = checks.as_items(part.get("tools", []))
    if tools is None or not all(isinstance(tool, dict) for tool in tools):
        yield "has tools that are not a list of mappings"
        return
    for tool in tools:
        for key, value in (checks.as_mapping(tool) or {}).items():
            if key in TOOL:
                yield from _text_faults(key, value)


def _text_faults(key: str, value: Any) -> Iterator[str]:
    limit = SHORT if key in ("type", "transport") else LONG
    if not isinstance(value, str):
        yield f"has a {key} that is not a string"
    elif len(value) > limit:
        yield f"has a {key} of {len(value):,} characters; the limit is {limit:,}"


def _soft(message: str, line: int | None = None) -> Problem:
    problem = checks.error("openai-yaml", message, "Codex ignores this part; fix or remove it.", CODEX_FILE, line)
    return replace(problem, severity="warning")


CODEX = Profile(
    name="codex",
    summary="Codex: frontmatter with a description of at most 1,024 characters; the name is optional.",
    check=check,
    refusal="Codex does not load it.",
    superseded=checks.NAME_AND_DESCRIPTION | checks.FIELDS,
    severities={"skill-md-spelling": "error"},
)
