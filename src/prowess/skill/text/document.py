"""A markdown document with frontmatter, as it was read, and the problems that the reader can report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prowess.errors import Problem

ReadMethod = Literal["yaml", "repaired", "scanned", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a markdown file.

    `raw` is the frontmatter verbatim, the text between the markers, or None without markers. `fields` is its content: text exactly
    as written (`1.10` stays `1.10`, `yes` stays `yes`), lists, mappings, and None for an empty value. `lines` has the line of each
    top-level key in the file, counted from 1. `how` says what it took to read the fields. `problems` has one entry for each
    irregularity, with a stable code.
    """

    raw: str | None
    fields: Mapping[str, Any]
    lines: Mapping[str, int]
    body: str
    body_line: int
    how: ReadMethod
    problems: tuple[Problem, ...]


TEXT_CODES: dict[str, str] = {
    "bad-escape": "A double-quoted value has a backslash that YAML does not know.",
    "bad-indent": "Lines are set in by the wrong amount, so YAML reads them as something else.",
    "blank-before-frontmatter": "Blank lines stand before the frontmatter.",
    "bom": "The file starts with a byte order mark.",
    "broken-flow": "Brackets or braces in a value do not form a list or a mapping.",
    "comment-before-frontmatter": "An HTML comment stands before the frontmatter.",
    "crlf": "Lines end in carriage returns.",
    "empty-frontmatter": "The frontmatter has nothing in it.",
    "fenced-frontmatter": "The frontmatter is wrapped in a code fence.",
    "frontmatter-not-a-mapping": "What stands between the markers has no keys.",
    "frontmatter-not-closed": "The line --- after the frontmatter is missing.",
    "frontmatter-not-opened": "The line --- before the frontmatter is missing.",
    "frontmatter-too-large": "The frontmatter is over the size limit; only its beginning was read, line by line.",
    "leading-sign": "An unquoted value starts with a character that YAML reserves.",
    "line-without-key": "A line in the frontmatter belongs to no key.",
    "list-on-key-line": "A list starts on the same line as its key.",
    "marker-form": "A line that marks the frontmatter is not exactly ---.",
    "merge-conflict": "The frontmatter has the markers of an unresolved merge in it.",
    "no-frontmatter": "The file has no frontmatter.",
    "not-utf8": "The file is not UTF-8 text.",
    "nul-character": "The file has NUL characters in it.",
    "second-frontmatter": "The body starts with another frontmatter block.",
    "star-list": "List items start with * or • instead of a hyphen.",
    "tab-indent": "Lines are set in with tabs, which YAML does not allow.",
    "text-after-block-sign": "Text follows > or | on the same line.",
    "text-after-list": "Text follows a list on the same line.",
    "text-after-marker": "Text follows the closing --- on the same line.",
    "text-after-quote": "Text follows a closed quotation.",
    "text-before-frontmatter": "Text stands before the frontmatter.",
    "too-many-faults": "The frontmatter has more faults than are worth listing.",
    "unclosed-bracket": "A bracket or brace in a value is never closed.",
    "unclosed-quote": "A quotation is never closed.",
    "unescaped-quote": "A quoted value has the same kind of quote inside.",
    "unquoted-colon": "An unquoted value has a colon in it.",
    "utf-16": "The file is UTF-16 or UTF-32 text.",
    "yaml-alias": "YAML anchors and aliases are not allowed.",
    "yaml-character": "A character stands in the frontmatter that YAML does not allow.",
    "yaml-depth": "The YAML nests too deep.",
    "yaml-documents": "There is more than one YAML document.",
    "yaml-duplicate-key": "A key appears twice.",
    "yaml-key": "A key is a list or a mapping.",
    "yaml-merge-key": "YAML merge keys are not allowed.",
    "yaml-syntax": "The frontmatter is not valid YAML.",
    "yaml-tag": "YAML tags are not allowed.",
}
"""The meaning of each code, in one line."""

_INFO_CODES = frozenset({"bom", "crlf"})

YAML_HINTS: dict[str, str] = {
    "yaml-alias": "Write the value out; put it in quotes if it starts with & or *.",
    "yaml-character": "Remove that character.",
    "yaml-depth": "Flatten it, or move the structure into a file of its own.",
    "yaml-documents": "Keep one document.",
    "yaml-duplicate-key": "Keep one of them.",
    "yaml-key": "Put the value in quotes, or use plain text for the key.",
    "yaml-merge-key": "Write the merged keys out.",
    "yaml-syntax": "Put the value in quotes, or write `key: >-` and the text on the next line, set in by two spaces.",
    "yaml-tag": "Remove the tag, or put the value in quotes if it starts with !.",
}


def make_problem(code: str, message: str, hint: str, *, line: int | None = None, field: str | None = None) -> Problem:
    """Return a problem of the reader: a warning for something irregular but usable, an info for a mere fact."""
    severity = "info" if code in _INFO_CODES else "warning"
    return Problem(code=code, severity=severity, message=message, hint=hint, line=line, field=field)
