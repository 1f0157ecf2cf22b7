"""The Claude platform: the open standard with stricter names and no markup."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem
from prowess.skill.filenames import find_skill_md
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.profiles import agentskills, checks
from prowess.skill.profiles.profile import Profile
from prowess.skill.profiles.strict_yaml import read_strictly

RESERVED = ("anthropic", "claude")


def check(reading: Reading, limits: Limits) -> Iterator[Problem]:
    """Apply the rules of the standard, then those of the upload API."""
    yield from agentskills.check(reading, limits)
    file = find_skill_md(reading.package)
    if file is None:
        return
    strict = read_strictly(file.content, limits)
    fields, lines = strict.fields, strict.lines
    if fields is None:
        document = reading.document
        # The upload's own rules are checked on what the tolerant reader found, so that all problems are listed in one
        # go.
        fields, lines = (dict(document.fields), dict(document.lines)) if document else ({}, {})
    name, description = fields.get("name"), fields.get("description")
    if isinstance(name, str):
        yield from _check_name(name.strip(), lines.get("name"))
    for key, value in (("name", name), ("description", description)):
        if isinstance(value, str) and ("<" in value or ">" in value):
            message = f"The {key} contains angle brackets, which the upload rejects."
            yield checks.error("markup", message, "Remove < and >.", key, lines.get(key))


def _check_name(name: str, line: int | None) -> Iterator[Problem]:
    if name and not name.isascii() and name.lower() == name:
        message = f"The name {name[:80]!r} has letters outside a-z."
        yield checks.error("name-ascii", message, "Use the letters a to z, digits and hyphens.", "name", line)
    reserved = [word for word in RESERVED if word in name.lower()]
    if reserved:
        message = f"The name {name[:80]!r} contains the reserved {' and '.join(repr(word) for word in reserved)}."
        yield checks.error("name-reserved", message, "Choose a name without it.", "name", line)


CLAUDE_API = Profile(
    name="claude-api",
    summary="Skills uploaded to the Claude platform: the open standard, ASCII names, no reserved words, no markup.",
    check=check,
    refusal=agentskills.REFUSAL,
    superseded=agentskills.AGENTSKILLS.superseded,
)
