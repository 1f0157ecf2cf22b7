"""A markdown document with frontmatter, as it was read, and the problems that the reader can report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from prowess.errors import Problem
from prowess.lazy_dataclass import dataclass

ReadMethod = Literal["yaml", "repaired", "scanned", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a markdown file.

    `raw` is the frontmatter verbatim, the text between the markers, or None without markers. `fields` is its content: text exactly
    as written (`1.10` stays `1.10`, `yes` stays `yes`), lists, mappings, and None for an empty value. `lines` has the line of each
    top-level key in the file, counted from 1. `how` says how the fields were read. `problems` has one entry for each
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
    "bad-escape": "A double-quoted value contains an invalid backslash escape.",
    "bad-indent": "Lines are indented by the wrong amount, which changes their meaning in YAML.",
    "blank-before-frontmatter": "There are blank lines before the frontmatter.",
    "bom": "The file starts with a byte order mark.",
    "broken-flow": "Brackets or braces in a value are not a valid list or mapping.",
    "comment-before-frontmatter": "There is an HTML comment before the frontmatter.",
    "crlf": "The file has Windows line endings (CRLF).",
    "empty-frontmatter": "The frontmatter is empty.",
    "fenced-frontmatter": "The frontmatter is wrapped in a code fence.",
    "frontmatter-not-a-mapping": "The text between the --- markers has no keys.",
    "frontmatter-not-closed": "The closing --- line of the frontmatter is missing.",
    "frontmatter-not-opened": "The opening --- line of the frontmatter is missing.",
    "frontmatter-too-large": "The frontmatter is over the size limit; only the first part was read, line by line.",
    "leading-sign": "An unquoted value starts with a character that is reserved in YAML.",
    "line-without-key": "A line in the frontmatter does not belong to any key.",
    "list-on-key-line": "A list starts on the same line as its key.",
    "marker-form": "A frontmatter marker is not exactly ---.",
    "merge-conflict": "The frontmatter contains merge conflict markers.",
    "no-frontmatter": "The file has no frontmatter.",
    "not-utf8": "The file is not UTF-8 text.",
    "nul-character": "The file contains NUL characters.",
    "second-frontmatter": "The body starts with another frontmatter block.",
    "star-list": "List items start with * or • instead of a hyphen.",
    "tab-indent": "Lines are indented with tabs, which YAML does not allow.",
    "text-after-block-sign": "Text follows > or | on the same line.",
    "text-after-list": "Text follows a list on the same line.",
    "text-after-marker": "Text follows the closing --- on the same line.",
    "text-after-quote": "Text follows a closing quote.",
    "text-before-frontmatter": "There is text before the frontmatter.",
    "too-many-faults": "The frontmatter has too many errors to list.",
    "unclosed-bracket": "A bracket or brace in a value is never closed.",
    "unclosed-quote": "A quote is never closed.",
    "unescaped-quote": "A quoted value contains an unescaped quote.",
    "unquoted-colon": "An unquoted value contains a colon.",
    "utf-16": "The file is UTF-16 or UTF-32 text.",
    "yaml-alias": "YAML anchors and aliases are not allowed.",
    "yaml-character": "The frontmatter contains a character that YAML does not allow.",
    "yaml-depth": "The YAML is nested too deeply.",
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
    "frontmatter-too-large": "Move long content into the body or into separate files.",
    "yaml-alias": "Write the value in full, or quote it if it starts with & or *.",
    "yaml-character": "Remove this character.",
    "yaml-depth": "Flatten the structure, or move it to a separate file.",
    "yaml-documents": "Keep only one document.",
    "yaml-duplicate-key": "Remove one of the two.",
    "yaml-key": "Quote the value, or use plain text for the key.",
    "yaml-merge-key": "Write the merged keys in full.",
    "yaml-syntax": "Quote the value, or write `key: >-` and put the text on the next line, indented by two spaces.",
    "yaml-tag": "Remove the tag, or quote the value if it starts with !.",
}


def make_problem(code: str, message: str, hint: str, *, line: int | None = None, field: str | None = None) -> Problem:
    """Return a reader's problem: a warning for something irregular but usable, an info otherwise."""
    severity = "info" if code in _INFO_CODES else "warning"
    return Problem(code=code, severity=severity, message=message, hint=hint, line=line, field=field)
