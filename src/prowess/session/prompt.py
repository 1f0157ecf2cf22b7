"""Render skills as prompt blocks, and take our blocks out of a prompt again.

A block is one of our tags, a comment line that identifies it, the text, and the closing tag, each on its own line:

    <skill name="PostgreSQL Health Triage">
    <!-- postgres.health-triage · org · sha256:0f3a9c51e2b7 -->
    # PostgreSQL Health Triage
    …
    </skill>

The text is inserted as it is, except that our tags in it are neutralized. A block therefore never contains another
opening or closing tag of ours, and can be recognized and removed later.

Removal takes whole blocks only: our tag and comment as whole lines, up to the closing tag on its own line. Other text
that mentions our tags stays: prose, and blocks of the same name that others wrote. A shortened prompt may hold pieces of
a block; text whose origin is not certain stays:

- A beginning without an end: the tag and the comment line are removed. Of what follows, only lines known to belong to
  the block are removed, because the same block is about to be inserted.
- A beginning that is cut off at the very end of the prompt is removed.
- An end without a beginning, on its own line, that closes nothing before it: that line is removed, and the lines before
  it that are known to belong to the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from prowess.patterns import lazy_pattern
from prowess.session.index import IndexPlan
from prowess.skill.prompt_block import BLOCK_MARK, render_block
from prowess.skill.text.prompt_tags import OUR_TAGS, Tag, find_tags

BLOCK_SEPARATOR = "\n\n"

_LINE_END = r"\r?\n"
_OTHER_TAGS = "|".join(name for name in OUR_TAGS if name != "skill")
_OPENING = lazy_pattern(
    rf'<skill name="[^"<>\n]*">{_LINE_END}<!-- [^<>\n]*sha256:[0-9a-f]{{12}} -->{_LINE_END}'
    rf"|<(?:{_OTHER_TAGS})>{_LINE_END}<!-- {BLOCK_MARK} -->{_LINE_END}"
)
_CUT_OPENING = lazy_pattern(
    rf'<skill name="[^"<>\n]*(?:">?(?:{_LINE_END}(?:<!?-?|<!--[^<>\n]*-?-?>?)?)?)?\Z'
    rf"|<(?:{_OTHER_TAGS})>{_LINE_END}<!-- {BLOCK_MARK}[^<>\n]*>?\Z"
)
_CLOSING = lazy_pattern(rf"</(?:{'|'.join(OUR_TAGS)})>(?=\r?\n|\Z)")

Span = tuple[int, int]


def remove_blocks(text: str, known: Sequence[str] = ()) -> str:
    """Remove our blocks and pieces of them. Pieces of `known` blocks are removed as far as they match."""
    # Removing a piece can join its neighbours to another block, so this is repeated until nothing is found.
    while spans := list(_find_spans(text, known)):
        parts: list[str] = []
        end = 0
        for start, stop in spans:
            parts.append(text[end : _separator_start(text, end, start, stop)])
            end = stop
        text = "".join([*parts, text[end:]])
    return text


def _separator_start(text: str, low: int, start: int, stop: int) -> int:
    """Return where the blank line before a block starts, unless removing it would join other text."""
    if stop < len(text) and text[stop] not in "\r\n":
        return start
    gap = text[max(low, start - len(BLOCK_SEPARATOR)) : start]
    return start - len(gap) + len(gap.rstrip("\n"))


def _find_spans(text: str, known: Sequence[str]) -> Iterator[Span]:
    """Yield the spans of our blocks and pieces, in order."""
    tags = find_tags(text)
    # Blocks of the same name that others wrote: their closing tags must stay with them.
    open_elsewhere: set[str] = set()
    end = 0
    for tag, following in zip_longest(tags, tags[1:]):
        if tag.start < end:
            continue
        span = _span_from_opening(text, tag, following, known)
        if span is None and not tag.closing:
            open_elsewhere.add(tag.name)
        elif span is None and tag.name in open_elsewhere:
            open_elsewhere.remove(tag.name)
        elif span is None:
            span = _span_from_closing(text, tag, known)
        if span is not None:
            end = span[1]
            yield span


def _span_from_opening(text: str, tag: Tag, following: Tag | None, known: Sequence[str]) -> Span | None:
    """Return the span of a whole block, or of the piece that is certainly ours; None if no block starts here."""
    beginning = _at_line_start(_OPENING, text, tag)
    if beginning is None:
        return (tag.start, len(text)) if _is_cut_off(text, tag, known) else None
    if following and following.name == tag.name and (end := _at_line_start(_CLOSING, text, following)):
        return tag.start, end.end()
    return tag.start, _piece_end(text, tag.start, beginning.end(), known)


def _is_cut_off(text: str, tag: Tag, known: Sequence[str]) -> bool:
    """Return True if the prompt ends within the beginning of one of our blocks."""
    if _at_line_start(_CUT_OPENING, text, tag):
        return True
    return _is_at_line_start(text, tag) and any(block.startswith(text[tag.start :]) for block in known)


def _span_from_closing(text: str, tag: Tag, known: Sequence[str]) -> Span | None:
    end = _at_line_start(_CLOSING, text, tag)
    return (_piece_start(text, tag.start, end.end(), known), end.end()) if end else None


def _at_line_start(pattern: re.Pattern[str], text: str, tag: Tag) -> re.Match[str] | None:
    return pattern.match(text, tag.start) if _is_at_line_start(text, tag) else None


def _is_at_line_start(text: str, tag: Tag) -> bool:
    return tag.start == 0 or text[tag.start - 1] == "\n"


def _piece_end(text: str, start: int, minimum: int, known: Sequence[str]) -> int:
    """Return the end of a known block that starts here: at a line end, or at the end of the text."""
    best = minimum
    for block in known:
        common = _common_prefix(text[start : start + len(block)], block)
        # The prompt was cut inside the block, so everything up to its end belongs to the block.
        if start + common == len(text):
            return len(text)
        lines = block[: block.rfind("\n", 0, common) + 1]
        best = max(best, start + len(lines.rstrip()))
    return best


def _piece_start(text: str, maximum: int, end: int, known: Sequence[str]) -> int:
    """Return the start of a known block that ends here: at a line start, or at the start of the text."""
    best = maximum
    for block in known:
        common = _common_prefix(text[max(0, end - len(block)) : end][::-1], block[::-1])
        if common == end:
            return 0
        piece = text[end - common : end]
        lines = piece[piece.find("\n") + 1 :].lstrip()
        best = min(best, end - len(lines))
    return best


def _common_prefix(first: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(first, other, strict=False))
    return next((length for length, (left, right) in pairs if left != right), min(len(first), len(other)))


def policies_block(text: str) -> str:
    """Render the organization's instructions for every agent."""
    return render_block("policies", text)


def memory_block(text: str) -> str:
    """Render what is remembered about the conversation and its people."""
    return render_block("memory", text)


def graph_block(text: str) -> str:
    """Render context from a knowledge graph."""
    return render_block("graph_context", text)


def index_block(plan: IndexPlan) -> str:
    """Render the index of skills; '' if it is empty. Its budget counts the text inside the block."""
    return render_block("available_skills", plan.text) if plan.text else ""


def assemble_blocks(
    *, policies: str = "", memory: str = "", graph_context: str = "", skills: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the system blocks of a turn in order: policies, memory, graph context, then skills; without empty ones."""
    parts = ((policies_block, policies), (memory_block, memory), (graph_block, graph_context))
    return (*(block(text) for block, text in parts if text.strip()), *(block for block in skills if block))


def join_blocks(blocks: Iterable[str]) -> str:
    """Join blocks with a blank line in between."""
    return BLOCK_SEPARATOR.join(blocks)


def replace_blocks(text: str, blocks: Sequence[str]) -> str:
    """Put exactly these blocks at the end of a prompt, each once, and remove older ones.

    Doing this twice is the same as once, and `remove_blocks` restores the text.
    """
    fresh = tuple(dict.fromkeys(block for block in blocks if block))
    rest = remove_blocks(text, known=fresh)
    return join_blocks([rest, *fresh] if rest else fresh)
