"""Frontmatter as rows of text: which rows belong to which top-level key, whatever YAML makes of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from prowess.errors import Problem
from prowess.skill.text.codes import YAML_HINTS, problem
from prowess.skill.text.diagnose import folded, is_block_sign
from prowess.skill.text.document import How
from prowess.skill.text.split import KEY

MOST_FAULTS = 50
"""So many are told of one file."""

_UNREADABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_CONFLICT = re.compile(r"(?:<{7}|={7}|>{7})(?:\s|\Z)")


@dataclass(slots=True)
class Mended:
    """What was read, gathered while reading. Lines are those of the file."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[Problem] = field(default_factory=list[Problem])
    how: How = "repaired"


@dataclass(slots=True)
class Entry:
    """A top-level key with the lines that belong to it."""

    key: str
    line: int
    rows: list[str]

    @property
    def prefix(self) -> str:
        """The key with its colon, as written."""
        found = KEY.match(self.rows[0])
        return found[0] if found else ""

    @property
    def value(self) -> str:
        """What stands behind the colon."""
        return self.rows[0][len(self.prefix) :].strip()

    @property
    def below(self) -> list[str]:
        """The rows that follow, without comments."""
        return [row for row in self.rows[1:] if not row.startswith("#")]


def scan(raw: str, first_line: int) -> Mended:
    """Read frontmatter as lines of `key: text`, without YAML."""
    result = Mended(how="scanned")
    for entry in entries_of(clean(raw, first_line, Mended()), first_line, Mended()):
        result.fields[entry.key] = as_written(entry)
        result.lines[entry.key] = entry.line
    return result


def clean(raw: str, first_line: int, result: Mended) -> list[str]:
    """The lines, without characters that YAML has no place for, and set out so that the keys start in column 0."""
    text = raw.replace("\r\n", "\n").replace("\r", "\n")
    bad = _UNREADABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + first_line
        message = f"The character U+{ord(bad[0]):04X} is not allowed in YAML."
        result.problems.append(problem("yaml-character", message, "Remove that character.", line=line))
        text = _UNREADABLE.sub("", text)
    rows = text.split("\n")
    marked = {index for index, row in enumerate(rows) if _CONFLICT.match(row)}
    if marked:
        message = "The frontmatter has the markers of an unresolved merge in it."
        hint = "Resolve the merge: keep one side, and remove the lines <<<<<<<, ======= and >>>>>>>."
        result.problems.append(problem("merge-conflict", message, hint, line=min(marked) + first_line))
        rows = ["" if index in marked else row for index, row in enumerate(rows)]
    first = next((row for row in rows if row.strip() and not row.lstrip().startswith("#")), "")
    return _set_out(rows, len(first) - len(first.lstrip(" "))) if KEY.match(first.lstrip(" ")) else rows


def _set_out(rows: list[str], indent: int) -> list[str]:
    return [row[min(indent, len(row) - len(row.lstrip(" "))) :] for row in rows] if indent else rows


def entries_of(rows: list[str], first_line: int, result: Mended) -> list[Entry]:
    """The top-level keys, each once, with the rows that follow them."""
    entries: dict[str, Entry] = {}
    current: Entry | None = None
    for line, row in enumerate(rows, start=first_line):
        found = KEY.match(row)
        if found and not (found[1] and current and current.value.startswith("{")):
            current = Entry(found[2], line, [row])
            if entries.setdefault(current.key, current) is not current:
                tell_repeated(current.key, line, current.key, result)
        elif current:
            current.rows.append(row)
        elif row.strip() and not row.startswith("#"):
            hint = "Put `key: ` before it, or move it below the closing ---."
            message = "A line in the frontmatter belongs to no key."
            tell_once(result, problem("line-without-key", message, hint, line=line))
    return list(entries.values())


def tell_once(result: Mended, found: Problem) -> None:
    """Report the first fault of its kind only."""
    if not any(other.code == found.code for other in result.problems):
        result.problems.append(found)


def tell_repeated(key: str, line: int, field: str, result: Mended) -> None:
    """Report a key that is passed over because it is there already."""
    if len(result.problems) < MOST_FAULTS:
        message = f"The key {key[:80]!r} appears twice; the first one counts."
        hint = YAML_HINTS["yaml-duplicate-key"]
        result.problems.append(problem("yaml-duplicate-key", message, hint, line=line, field=field))


def as_written(entry: Entry) -> str:
    """The value of a key as text, the way it stands there."""
    text = folded(["" if is_block_sign(entry.value) else entry.value, *entry.below])
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
