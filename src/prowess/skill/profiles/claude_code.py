"""Claude Code: all keys of the standard are optional, there are more keys, and their types are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from prowess.errors import Problem
from prowess.skill.filenames import find_skill_md
from prowess.skill.forms.form import Reading, warning
from prowess.skill.limits import Limits
from prowess.skill.profiles import checks
from prowess.skill.profiles.profile import Profile
from prowess.skill.text.fields import as_flag

LISTING_LIMIT = 1536

FLAGS = ("disable-model-invocation", "user-invocable", "background")
TEXTS = (
    "name", "description", "when_to_use", "model", "effort", "context", "agent", "shell", "license",
)  # fmt: skip
LISTS = ("argument-hint", "arguments", "allowed-tools", "disallowed-tools", "paths")
WORDS: Mapping[str, tuple[str, ...]] = {
    "effort": ("low", "medium", "high", "xhigh", "max"),
    "context": ("fork",),
    "shell": ("bash", "powershell"),
}
KEYS = (*TEXTS, *FLAGS, *LISTS, "hooks", "compatibility", "metadata")


def check(reading: Reading, _limits: Limits) -> Iterator[Problem]:
    """Check the types of the known keys, and the texts that the skill listing needs or truncates."""
    document = reading.document
    if find_skill_md(reading.package) is None or document is None:
        yield checks.missing_file()
        return
    fields, lines = document.fields, document.lines
    yield from _check_name(fields, lines)
    yield from _check_listing(fields, lines)
    for key, value in fields.items():
        problem = check_value(key, value, lines.get(key))
        if problem:
            yield problem
    for problem in checks.check_keys(fields, lines, KEYS, "Claude Code"):
        yield replace(problem, severity="info", hint="Claude Code ignores it; no action is needed.")


def _check_name(fields: checks.Fields, lines: checks.Lines) -> Iterator[Problem]:
    name = fields.get("name")
    if isinstance(name, str) and name.strip():
        for problem in checks.check_name_text(name.strip(), lines.get("name")):
            yield replace(problem, severity="warning")


def _check_listing(fields: checks.Fields, lines: checks.Lines) -> Iterator[Problem]:
    description, when = fields.get("description"), fields.get("when_to_use")
    if not isinstance(description, str) or not description.strip():
        message = "There is no description; Claude Code shows the first paragraph of the text instead."
        hint = "Describe in one or two sentences what the skill does and when to use it."
        yield warning("description-missing", message, hint, field="description", line=lines.get("description"))
        return
    length = len(description) + (len(when) if isinstance(when, str) else 0)
    if length > LISTING_LIMIT:
        message = f"Description and when_to_use have {length:,} characters; the listing is cut at {LISTING_LIMIT:,}."
        hint = "Put the most important part first, and move details into the body."
        yield warning("listing-cut", message, hint, field="description", line=lines.get("description"))


def check_value(key: str, value: Any, line: int | None) -> Problem | None:
    """Return the problem with the value of a key, as far as Claude Code documents it, or None."""
    expected = _wanted(key, value)
    if expected:
        hint = f"Write {key} as {expected}."
        return checks.error("value-type", f"{key} must be {expected}.", hint, key, line)
    if key in WORDS and value is not None and value not in WORDS[key]:
        message = f"Unknown value {str(value)[:80]!r} for {key}."
        hint = f"Known values: {', '.join(WORDS[key])}."
        return warning("value-unknown", message, hint, field=key, line=line)
    return None


def _wanted(key: str, value: Any) -> str:
    """Return the type that the key must have, or '' if the value has it. An empty value counts as absent."""
    if value is None:
        return ""
    if key in FLAGS and as_flag(value) is None:
        return "true or false"
    if key in TEXTS and not isinstance(value, str):
        return "a string"
    if key in LISTS and not _is_texts(value):
        return "a string or a list of strings"
    if key == "hooks" and not isinstance(value, dict):
        return "a mapping of events to hooks"
    return ""


def _is_texts(value: Any) -> bool:
    items = checks.as_items(value)
    return isinstance(value, str) or (items is not None and checks.are_texts(items))


CLAUDE_CODE = Profile(
    name="claude-code",
    summary="Claude Code: name and description are optional, known keys are checked by type, unknown keys are ignored.",
    check=check,
    superseded=checks.NAME_AND_DESCRIPTION | checks.FIELDS,
    severities={"skill-md-spelling": "error"},
)
