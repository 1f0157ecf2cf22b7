"""Hidden text in any part of a skill: its files, their names, and what they say once escapes are resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.filenames import is_skill_md
from prowess.skill.forms.form import Reading
from prowess.skill.model import Skill
from prowess.skill.package import File
from prowess.skill.text.hidden import HiddenText, find_hidden, show_hidden

_MANY = 20
_SHOWN = 30
_HINT = "Delete these characters; if something is meant by them, write it visibly."
_NAMES: dict[str, str] = {
    "bidi-control": "direction control",
    "control": "control",
    "invisible": "invisible",
    "tag": "tag",
    "variation-selector": "variation selector",
    "zero-width": "zero-width",
}


def hidden_text(reading: Reading) -> Iterator[Problem]:
    """Each hidden run where it stands in a file, or in the field that an escape brings it into."""
    seen: set[str] = set()
    for file in reading.package.files:
        yield from _in_path(file.path)
        text = _text_of(file)
        for found in find_hidden(text)[:_MANY]:
            run = _run(text, found)
            seen.add(run)
            yield _problem(found, run, file.path, found.line)
    if not _has_escapes(reading):
        return
    lines: Mapping[str, int] = reading.document.lines if reading.document else {}
    for field, text in _said(reading):
        for found in find_hidden(text):
            run = _run(text, found)
            if run not in seen:
                seen.add(run)
                yield _problem(found, run, field, lines.get(field))


def _has_escapes(reading: Reading) -> bool:
    """Whether the fields can hold characters that the files do not show; plain markdown without a backslash cannot."""
    raw = reading.document.raw if reading.document else None
    return reading.form not in _PLAIN_FORMS or "\\" in (raw or "")


_PLAIN_FORMS = ("agentskills", "agentcy", "bernstein")


def _in_path(path: str) -> Iterator[Problem]:
    for found in find_hidden(path):
        yield _problem(found, _run(path, found), show_hidden(path), None)


def _text_of(file: File) -> str:
    """The text of a file; nothing for one that is not text."""
    try:
        text = file.content.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return text if "\x00" not in text or is_skill_md(file.path) else ""


def _run(text: str, found: HiddenText) -> str:
    """The hidden characters themselves."""
    line = text.split("\n")[found.line - 1] if found.line > 1 or "\n" in text else text
    return line[found.column - 1 : found.column - 1 + found.count]


def _said(reading: Reading) -> Iterator[tuple[str, str]]:
    """Every text that was read from the files, with the field it stands in."""
    if reading.document is not None:
        yield from _texts(dict(reading.document.fields))
    if reading.skill is not None:
        yield from _of_skill(reading.skill)


def _of_skill(skill: Skill) -> Iterator[tuple[str, str]]:
    values = skill.model_dump(exclude={"artifacts", "frontmatter", "manifest", "provenance"}, exclude_defaults=True)
    yield from _texts(values)
    for artifact in skill.artifacts:
        for _, text in _texts(artifact.model_dump(exclude_defaults=True)):
            yield artifact.name, text


def _texts(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """All texts in a value, each with the top-level key it stands under."""
    pending: list[tuple[str, Any]] = [(str(key), value) for key, value in values.items()]
    pending += [(str(key), str(key)) for key in values]
    while pending:
        key, value = pending.pop()
        if isinstance(value, str):
            if not value.isascii():
                yield key, value
        elif isinstance(value, dict):
            pending += [(key, part) for pair in cast("dict[str, Any]", value).items() for part in pair]
        elif isinstance(value, (list, tuple)):
            pending += [(key, part) for part in cast("list[Any]", value)]


def _problem(found: HiddenText, run: str, field: str, line: int | None) -> Problem:
    escaped = "".join(f"\\u{{{ord(char):04X}}}" for char in run[:_SHOWN]) + ("…" if len(run) > _SHOWN else "")
    name = _NAMES[found.char_class]
    count = f"{found.count} hidden {name} characters" if found.count > 1 else f"a hidden {name} character"
    message = f"There is {count} in column {found.column}: {escaped}"
    if found.count > 1:
        message = message.replace("There is", "There are", 1)
    if found.char_class == "control":
        # Mostly text that was decoded wrongly once; it smuggles nothing, and terminals never see it.
        return Problem(
            code="control-characters", severity="warning", message=message, hint=_HINT, field=field, line=line
        )
    return Problem(code="hidden-text", severity="error", message=message, hint=_HINT, field=field, line=line)
