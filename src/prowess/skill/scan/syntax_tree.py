"""Parse code of strangers with tree-sitter, in parts.

For some texts its parsers take time, and for some memory as well, with the square of the length: 20 KB of `a|a|a|…` took 10
seconds and 925 MB, and they cannot be stopped. So a long text is parsed in parts, until the time of its file is over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import thread_time
from typing import Any

from prowess.skill.scan.finding import Report

PART_BYTES = 10_000
"""The longest part. The worst text that we know takes a second."""
MAX_PIPES = 1_000
"""The most pipes in a part of a shell script: their number is what takes memory."""
_STATEMENT = re.compile(rb"\n(?!\s|[})\]]|(?:fi|done|esac|else|elif|then|do|EOF)\b)")
"""The end of a line before one that most probably begins a statement."""


def parse(report: Report, text: str, language: Any, *, max_pipes: int | None = None) -> list[Any]:
    """Return the roots of the syntax trees of a text: one, or if it is long one for each part, in order.

    Text with errors has a tree too, with error nodes in it. Positions are those in the whole text. What takes too long is
    left out, with a finding.
    """
    import tree_sitter

    source = text.encode("utf-8", "replace")
    roots: list[Any] = []
    row = 0
    for start, end in _split(source):
        first, row = row, row + source.count(b"\n", start, end)
        if report.budget.parse_seconds <= 0 or (max_pipes is not None and source.count(b"|", start, end) > max_pipes):
            report.add("warning", "not-scanned", None, "The code takes too long to parse; not all of it was scanned.")
            continue
        began = thread_time()
        parser = tree_sitter.Parser(language)
        if end - start < len(source):
            points = (first, _column(source, start)), (row, _column(source, end))
            parser.included_ranges = [tree_sitter.Range(*points, start, end)]
        roots.append(parser.parse(source).root_node)
        report.budget.parse_seconds -= thread_time() - began
        if end < len(source) and source[end - 1 : end] != b"\n":
            report.add("warning", "not-scanned", None, "A line is too long to parse; its parts were scanned alone.")
    return roots


def _split(source: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each part: between statements if possible."""
    start = 0
    while len(source) - start > PART_BYTES:
        end = start + PART_BYTES
        found = [match.end() for match in _STATEMENT.finditer(source, start + PART_BYTES // 2, end)]
        # Within a statement the parser copes with the end of a line, where no name or string is cut.
        end = found[-1] if found else source.rfind(b"\n", start, end) + 1 or end
        while source[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        yield start, end
        start = end
    yield start, len(source)


def _column(source: bytes, offset: int) -> int:
    return offset - (source.rfind(b"\n", 0, offset) + 1)
