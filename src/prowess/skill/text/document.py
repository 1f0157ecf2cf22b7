"""A markdown document with frontmatter, as it was read: nothing thrown away, everything odd reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prowess.errors import Problem

How = Literal["yaml", "repaired", "scanned", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What stands in a markdown file.

    `raw` is the frontmatter verbatim, the text between the markers, or None where there is none. `fields` is its
    content: text exactly as written (`1.10` stays `1.10`, `yes` stays `yes`), lists, mappings, and None for an empty
    value. `lines` gives the line of each top-level key in the file, counted from 1. `how` says what it took to
    read the fields. `problems` holds one entry for every irregularity, with a stable code.
    """

    raw: str | None
    fields: Mapping[str, Any]
    lines: Mapping[str, int]
    body: str
    body_line: int
    how: How
    problems: tuple[Problem, ...]
