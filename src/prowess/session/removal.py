"""Taking our blocks out of a prompt again, and nothing else.

A block is ours if it begins with our tag and our comment line, each a whole line, and ends with the end of that tag on a
line of its own, with no tag of ours in between; what is in between is the block's, whatever it says. Whatever else mentions our tags is
left alone: prose, and blocks of the same name that others wrote.

A prompt that was shortened may hold pieces. The rule for them is that text whose origin is not certain stays:

- A beginning without an end: the tag and the comment line go. Of what follows, the lines go that are known to be the
  block's, since the same block is about to be put in; the rest may be somebody else's and stays.
- A beginning that is itself cut off, at the very end of the prompt, goes.
- An end without a beginning, on a line of its own, that closes nothing anywhere before it: that line goes, and the
  lines before it as far as they are known to be the block's.

What stays of a piece opens and closes nothing: it was neutralised when it was put in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from prowess.session.neutral import OUR_TAGS, Tag, find_tags

MARK = "prowess"
"""What the comment line of a block says that is no skill's."""

BETWEEN = "\n\n"

_LINE_END = r"\r?\n"
_OTHERS = "|".join(name for name in OUR_TAGS if name != "skill")
_BEGINNING = re.compile(
    rf'<skill name="[^"<>\n]*">{_LINE_END}<!-- [^<>\n]*sha256:[0-9a-f]{{12}} -->{_LINE_END}'
    rf"|<(?:{_OTHERS})>{_LINE_END}<!-- {MARK} -->{_LINE_END}"
)
_CUT_BEGINNING = re.compile(
    rf'<skill name="[^"<>\n]*(?:">?(?:{_LINE_END}(?:<!?-?|<!--[^<>\n]*-?-?>?)?)?)?\Z'
    rf"|<(?:{_OTHERS})>{_LINE_END}<!-- {MARK}[^<>\n]*>?\Z"
)
_END = re.compile(rf"</(?:{'|'.join(OUR_TAGS)})>(?=\r?\n|\Z)")

Span = tuple[int, int]


def without_blocks(text: str, known: Sequence[str] = ()) -> str:
    """The prompt without our blocks and their pieces; of `known` blocks, pieces go as far as they can be told."""
    while spans := list(_spans(text, known)):
        kept: list[str] = []
        end = 0
        for start, stop in spans:
            kept.append(text[end : _before(text, end, start, stop)])
            end = stop
        text = "".join([*kept, text[end:]])
    return text


def _before(text: str, low: int, start: int, stop: int) -> int:
    """Where the empty line begins that parts a block from what is before it, unless what follows would be joined on."""
    if stop < len(text) and text[stop] not in "\r\n":
        return start
    gap = text[max(low, start - len(BETWEEN)) : start]
    return start - len(gap) + len(gap.rstrip("\n"))


def _spans(text: str, known: Sequence[str]) -> Iterator[Span]:
    """From where to where our blocks and pieces stand, in order."""
    tags = find_tags(text)
    open_elsewhere: set[str] = set()
    done = 0
    for tag, following in zip_longest(tags, tags[1:]):
        if tag.start < done:
            continue
        span = _from_beginning(text, tag, following, known)
        if span is None and not tag.closing:
            open_elsewhere.add(tag.name)
        elif span is None and tag.name in open_elsewhere:
            open_elsewhere.remove(tag.name)
        elif span is None:
            span = _from_end(text, tag, known)
        if span is not None:
            done = span[1]
            yield span


def _from_beginning(text: str, tag: Tag, following: Tag | None, known: Sequence[str]) -> Span | None:
    """A whole block if its end is the next tag, or the piece that is certain; nothing if none of ours begins here."""
    beginning = _at_line_start(_BEGINNING, text, tag)
    if beginning is None:
        return (tag.start, len(text)) if _is_cut_off(text, tag, known) else None
    if following and following.name == tag.name and (end := _at_line_start(_END, text, following)):
        return tag.start, end.end()
    return tag.start, _end_of_piece(text, tag.start, beginning.end(), known)


def _is_cut_off(text: str, tag: Tag, known: Sequence[str]) -> bool:
    """Whether the prompt ends within the beginning of a block of ours."""
    if _at_line_start(_CUT_BEGINNING, text, tag):
        return True
    return _is_at_line_start(text, tag) and any(block.startswith(text[tag.start :]) for block in known)


def _from_end(text: str, tag: Tag, known: Sequence[str]) -> Span | None:
    end = _at_line_start(_END, text, tag)
    return (_start_of_piece(text, tag.start, end.end(), known), end.end()) if end else None


def _at_line_start(pattern: re.Pattern[str], text: str, tag: Tag) -> re.Match[str] | None:
    return pattern.match(text, tag.start) if _is_at_line_start(text, tag) else None


def _is_at_line_start(text: str, tag: Tag) -> bool:
    return tag.start == 0 or text[tag.start - 1] == "\n"


def _end_of_piece(text: str, start: int, least: int, known: Sequence[str]) -> int:
    """Up to where a block that begins here is known: whole lines, or all there is."""
    best = least
    for block in known:
        common = _shared(text[start : start + len(block)], block)
        if start + common == len(text):
            return len(text)
        lines = block[: block.rfind("\n", 0, common) + 1]
        best = max(best, start + len(lines.rstrip()))
    return best


def _start_of_piece(text: str, most: int, end: int, known: Sequence[str]) -> int:
    """From where a block that ends here is known: whole lines, or all there is."""
    best = most
    for block in known:
        common = _shared(text[max(0, end - len(block)) : end][::-1], block[::-1])
        if common == end:
            return 0
        piece = text[end - common : end]
        lines = piece[piece.find("\n") + 1 :].lstrip()
        best = min(best, end - len(lines))
    return best


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (first, second) in pairs if first != second), min(len(one), len(other)))
