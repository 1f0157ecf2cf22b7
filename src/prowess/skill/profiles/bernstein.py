"""Bernstein packs: a strict manifest of eight keys, whose listed files must exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from prowess.errors import Problem
from prowess.skill.filenames import STANDARD_FOLDERS, find_skill_md
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.skill.profiles import checks
from prowess.skill.profiles.profile import Profile
from prowess.skill.profiles.strict_yaml import iter_scalars, read_strictly

NAME = re.compile(r"[a-z][a-z0-9-]*")
SHORTEST, LONGEST = 20, 500
TEXTS = ("name", "description", "version", "author")
KEYS = ("name", "description", "trigger_keywords", *STANDARD_FOLDERS, "version", "author")

_STYLE = frozenset({"strict-flow", "strict-indentation", "strict-duplicate", "strict-anchor"})
"""Problems that only the reference validator of the open standard has."""


def check(reading: Reading, limits: Limits) -> Iterator[Problem]:
    """Check the manifest field by field, and the files that it lists."""
    file = find_skill_md(reading.package)
    yield from checks.check_file(file)
    if file is None:
        return
    strict = read_strictly(file.content, limits)
    yield from (problem for problem in strict.refusals if problem.code not in _STYLE)
    fields, lines = strict.fields, strict.lines
    if fields is None:
        return
    yield from checks.check_keys(fields, lines, KEYS, "a Bernstein manifest")
    yield from _check_name(fields, lines, reading.package.name)
    yield from _check_description(fields, lines)
    yield from _check_texts(strict.raw)
    for key in ("trigger_keywords", *STANDARD_FOLDERS):
        yield from _check_list(fields, lines, key)
    for bucket in STANDARD_FOLDERS:
        yield from _check_files(fields, lines, bucket, reading.package)


def _check_name(fields: checks.Fields, lines: checks.Lines, folder: str) -> Iterator[Problem]:
    if "name" not in fields:
        yield checks.error("name-missing", "The manifest has no name.", f"Add a line `name: {folder}`.", "name")
    elif not isinstance(fields["name"], str) or not NAME.fullmatch(fields["name"]):
        message = f"The name {str(fields['name'])[:80]!r} must be a letter followed by letters, digits and hyphens."
        yield checks.error(
            "name-pattern",
            message,
            "Use lowercase a-z, 0-9 and hyphens, starting with a letter.",
            "name",
            lines.get("name"),
        )
    elif fields["name"] != folder:
        message = f"The name {fields['name'][:80]!r} differs from its folder {folder[:80]!r}."
        hint = "Use the same name for both; roles are found by folder."
        yield replace(
            checks.error("name-differs-from-folder", message, hint, "name", lines.get("name")), severity="warning"
        )


def _check_description(fields: checks.Fields, lines: checks.Lines) -> Iterator[Problem]:
    yield from checks.check_description(fields, lines, LONGEST)
    value = fields.get("description")
    if isinstance(value, str) and value.strip() and len(value) < SHORTEST:
        message = f"The description has {len(value)} characters; a Bernstein manifest requires at least {SHORTEST}."
        hint = "Add when to use the skill."
        yield checks.error("description-short", message, hint, "description", lines.get("description"))


def _check_texts(raw: str) -> Iterator[Problem]:
    """Yield strings that YAML reads as numbers, dates or flags; a strict manifest rejects them."""
    for scalar in iter_scalars(raw):
        # The author is optional, so an empty value is accepted there.
        nothing = scalar.type == "null" and scalar.key == "author"
        if scalar.depth == 1 and not scalar.is_key and scalar.key in TEXTS and scalar.type != "str" and not nothing:
            message = f"YAML reads the {scalar.key} {scalar.text[:80]!r} as {scalar.type}, not as text."
            yield checks.error("value-type", message, "Quote it.", scalar.key, scalar.line)


def _check_list(fields: checks.Fields, lines: checks.Lines, key: str) -> Iterator[Problem]:
    items = checks.as_items(fields.get(key, []))
    if items is None or not checks.are_texts(items):
        hint = "Write one item per line, each after a hyphen."
        yield checks.error("value-type", f"{key} must be a list of strings.", hint, key, lines.get(key))


def _check_files(fields: checks.Fields, lines: checks.Lines, bucket: str, package: Package) -> Iterator[Problem]:
    for name in checks.as_items(fields.get(bucket)) or ():
        if isinstance(name, str) and package.get(f"{bucket}/{name}") is None:
            message = f"The manifest lists {name[:80]!r}, which is not under {bucket}/."
            yield checks.error(
                "missing-file", message, "Add the file, or remove it from the list.", bucket, lines.get(bucket)
            )


BERNSTEIN = Profile(
    name="bernstein",
    summary="Bernstein packs: exactly eight keys, a description of 20 to 500 characters, listed files must exist.",
    check=check,
    refusal="The manifest cannot be read.",
    superseded=checks.NAME_AND_DESCRIPTION | checks.FIELDS | {"missing-file"},
)
