"""Text from others cannot open or close one of our prompt blocks, and can be kept on one line.

A tag is what a reader could take for one: `<`, perhaps slashes, a name of ours and no more name after it, in any case,
with any spacing before the name, with characters in between that are not seen, and with look-alikes for every sign.
`<skillful>`, `<skill_x>` and `<skill-index>` have other names; `&lt;skill>` is no tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from prowess.session.folding import OPENERS, fold, is_mark

OUR_TAGS = ("available_skills", "graph_context", "memory", "policies", "skill", "skills")
"""The names of all blocks that are put into a prompt."""

ESCAPED = "&lt;"


class Tag(NamedTuple):
    """Where something that reads as a tag of ours begins, which one it is, and whether it has a slash before the name."""

    start: int
    name: str
    closing: bool


def neutralised(text: str) -> str:
    """The text with the opening sign of every tag of ours written as `&lt;`; all else is the same, character for character.

    Neutralising again changes nothing. The work grows with the length of the text alone.
    """
    parts: list[str] = []
    end = 0
    for tag in find_tags(text):
        parts += (text[end : tag.start], ESCAPED)
        end = tag.start + 1
    return "".join([*parts, text[end:]]) if parts else text


def one_line(text: str) -> str:
    """The text without line ends and controls: each run of them is one space, and none is left at the ends."""
    if text.isprintable():
        return text.strip()
    return " ".join(_CONTROLS.sub(" ", text).split())


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def find_tags(text: str) -> list[Tag]:
    """Every tag of ours in the text, in order."""
    if "<" not in text and text.isascii():
        return []
    found = {tag.start: tag for tag in _tags(text)}
    if not text.isascii() and _TAG_CHARACTER.search(text):
        found.update((tag.start, tag) for tag in _tags(text.translate(_SPELLED_OUT)))
    return [found[start] for start in sorted(found)]


_TAG_CHARACTER = re.compile("[\U000e0020-\U000e007e]")
_SPELLED_OUT = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
"""Tag characters are unseen, and each stands for one of ASCII: some models read what they spell."""


def _folded(name: str) -> str:
    return "".join(fold(char) for char in name).replace("rn", "m")


_NAMES = {_folded(name): name for name in OUR_TAGS}
_LONGEST = max(map(len, OUR_TAGS)) + 2
_ODD = r"[^\x20-\x7e]"


def _beginning(name: str, depth: int) -> str:
    """A pattern for the first letters of a name in plain characters; past an odd one, anything may follow."""
    if not depth:
        return ""
    alike = "".join(re.escape(chr(code)) for code in range(0x20, 0x7F) if fold(chr(code)) == fold(name[0]))
    rest = _beginning(name[1:], depth - 1)
    pair = f"|[rR](?:[nN]{rest}|{_ODD})" if name[0] == "m" else ""
    return f"(?:[{alike}]{rest}{pair}|{_ODD})"


_BEGINNINGS = "|".join(sorted({_beginning(name, 3) for name in OUR_TAGS}))
_CANDIDATE = re.compile(rf"[{OPENERS}][\x00-\x20\x7f/\\]*+(?={_BEGINNINGS})")
"""Dismisses nearly every `<` of real text in one step."""


def _tags(text: str) -> Iterator[Tag]:
    """Each candidate is read up to the next opening sign at most, so that no character is read twice."""
    for candidate in _CANDIDATE.finditer(text):
        start = candidate.start()
        name, slash = _read_name(text, candidate.end())
        if name:
            yield Tag(start, name, slash or "/" in candidate[0] or "\\" in candidate[0])


def _read_name(text: str, position: int) -> tuple[str, bool]:
    """The tag of ours that is named here, or nothing; and whether a slash comes before its name."""
    position, slash = _skip_gap(text, position)
    name, joined = "", False
    while position < len(text) and len(name) <= _LONGEST:
        char = text[position]
        part = fold(char)
        position += 1
        if part in _JOINTS:
            joined = True
        elif part[:1] in _ENDS:
            break
        elif part or not is_mark(char):
            whole = "" if _continues_name(char) else _named(name)
            if whole or (part and joined):
                return whole, slash
            name += part
    return _named(name), slash


_JOINTS = frozenset("-.:")
"""What is part of an XML name if more of the name follows; no name of ours has one."""
_ENDS = frozenset(" /<")
_GAPS = frozenset({"", " ", "/"})


def _skip_gap(text: str, position: int) -> tuple[int, bool]:
    slash = False
    while position < len(text) and (part := fold(text[position])) in _GAPS:
        slash = slash or part == "/"
        position += 1
    return position, slash


def _continues_name(char: str) -> bool:
    return char == "_" or char.isalnum()


def _named(name: str) -> str:
    return _NAMES.get(name.replace("rn", "m"), "")
