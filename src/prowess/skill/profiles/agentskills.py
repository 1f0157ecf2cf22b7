"""The open standard, with the verdict of its reference validator (`skills-ref`).

The verdict is the same for every file, except where the reference itself violates the specification. Those cases are
listed in docs/profiles.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prowess.errors import Problem
from prowess.skill.filenames import STANDARD_KEYS, find_skill_md
from prowess.skill.forms.form import Reading, warning
from prowess.skill.limits import Limits
from prowess.skill.profiles import checks
from prowess.skill.profiles.profile import Profile
from prowess.skill.profiles.strict_yaml import read_strictly

REFUSAL = "The reference validator rejects it."


def check(reading: Reading, limits: Limits) -> Iterator[Problem]:
    """Yield every problem under the standard. If the file cannot be read strictly, check the readable part."""
    file = find_skill_md(reading.package)
    yield from checks.check_file(file)
    if file is None:
        return
    strict = read_strictly(file.content, limits)
    yield from strict.refusals
    fields, lines = strict.fields, strict.lines
    if fields is None:
        if reading.document is None or reading.document.raw is None:
            return
        fields, lines = dict(reading.document.fields), dict(reading.document.lines)
    yield from checks.check_keys(fields, lines, STANDARD_KEYS, "the open standard")
    yield from checks.check_name(fields, lines, reading.package.name)
    yield from checks.check_description(fields, lines)
    yield from checks.check_compatibility(fields, lines)
    yield from _check_types(fields, lines)


def _check_types(fields: dict[str, Any], lines: dict[str, int]) -> Iterator[Problem]:
    """Yield values that the reference accepts although the specification requires another type."""
    for key, fits, expected in (
        ("license", isinstance(fields.get("license"), str), "a string"),
        ("allowed-tools", isinstance(fields.get("allowed-tools"), str), "a string with spaces between the tools"),
        ("metadata", _is_flat(fields.get("metadata")), "a mapping of strings to strings"),
    ):
        if key in fields and not fits:
            message = f"The specification requires {key} to be {expected}; other clients may ignore it."
            yield warning("value-type", message, f"Write {key} as {expected}.", field=key, line=lines.get(key))


def _is_flat(value: Any) -> bool:
    mapping = checks.as_mapping(value)
    return mapping is not None and checks.are_texts(mapping.values())


AGENTSKILLS = Profile(
    name="agentskills",
    summary="The open standard, with the same verdict as its reference validator.",
    check=check,
    refusal=REFUSAL,
    superseded=checks.NAME_AND_DESCRIPTION | checks.FIELDS,
)
