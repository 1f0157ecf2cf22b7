"""Parse code of strangers with tree-sitter, in parts.

For some texts its parsers take time, and for some memory as well, with the square of the length: 20 KB of `a|a|a|…` took 10
seconds and 925 MB, and they cannot be stopped. So a long text is parsed in parts, until the time of its file is over.
"""

from __future__ import annotations

from time import thread_time
from typing import Any

from prowess.scan.finding import Report

PART_BYTES = 10_000
"""The longest part. The worst text that we know takes a second."""
MAX_PIPES = 1_000
"""The most pipes in a part of a shell script: their number is what takes memory."""


def parse(report: Report, text: str, language: Any, *, max_pipes: int | None = None) -> list[Any]:
    """Return the roots of the syntax trees of a text: one, or if it is long one for each part, in order.

    Text with errors has a tree too, with error nodes in it. Positions are those in the whole text. What takes too long is
    left out, and what is cut is parsed alone, both with a finding.
    """
    source = text.encode("utf-8", "replace")
    roots: list[Any] = []
    start = 0
    while True:
        end = _end_of_part(source, start)
        if report.budget.parse_seconds <= 0 or (max_pipes is not None and source.count(b"|", start, end) > max_pipes):
            report.add("warning", "not-scanned", None, "The code takes too long to parse; not all of it was scanned.")
            cut = end
        else:
            began = thread_time()
            root = _parse_part(source, start, end, language)
            cut = end if end == len(source) else _find_cut(root, start)
            if cut <= start:
                report.add("warning", "not-scanned", None, "A statement of more than 10 KB was scanned in parts.")
                cut = end
            roots.append(root if cut == end else _parse_part(source, start, cut, language))
            report.budget.parse_seconds -= thread_time() - began
        if cut == len(source):
            return roots
        start = cut


def _end_of_part(source: bytes, start: int) -> int:
    end = start + PART_BYTES
    if end >= len(source):
        return len(source)
    # At the end of a line no name or string is cut.
    end = source.rfind(b"\n", start, end) + 1 or end
    while source[end] & 0xC0 == 0x80:  # within a character
        end -= 1
    return end


def _find_cut(root: Any, start: int) -> int:
    """Return where the next part begins: with the last statement, or the first one with an error, whose end may be missing.

    So an attacker cannot choose the place of the cut: code that belongs together is parsed together, or there is a finding.
    """
    if root.is_error:
        return start
    last = start
    for child in root.children:
        last = child.start_byte
        if child.has_error:
            break
    return last


def _parse_part(source: bytes, start: int, end: int, language: Any) -> Any:
    import tree_sitter

    parser = tree_sitter.Parser(language)
    if end - start < len(source):
        points = _point(source, start), _point(source, end)
        parser.included_ranges = [tree_sitter.Range(*points, start, end)]
    return parser.parse(source).root_node


def _point(source: bytes, offset: int) -> tuple[int, int]:
    return source.count(b"\n", 0, offset), offset - (source.rfind(b"\n", 0, offset) + 1)
