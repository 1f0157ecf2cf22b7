"""Find text that a model reads and a person does not see.

Some characters have no visible shape: tags, variation selectors, zero-width characters, direction controls. Scripts and emoji
need a few of them in certain places, where they are accepted. Anywhere else they can carry a message past a reviewer, so each
one is found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

CharClass = Literal["tag", "variation-selector", "zero-width", "bidi-control", "control", "invisible"]

# Besides the classes below: fillers of Hangul (U+115F, U+3164, U+FFA0) and vowels of Khmer (U+17B4) that have no shape,
# musical formatting (U+1D173), lone surrogates, and code points that are never characters (U+FDD0, U+FFFE and their
# like in each plane). Tab, LF, FF, CR and NEL are white space and stay out.
_SUSPECTS = (
    (0x00, 0x08), (0x0B, 0x0B), (0x0E, 0x1F), (0x7F, 0x84), (0x86, 0x9F),
    (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E),
    (0x2060, 0x206F), (0x3164, 0x3164), (0xD800, 0xDFFF), (0xFDD0, 0xFDEF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF), (0x1D173, 0x1D17A),
    *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0x10000, 0xE0000, 0x10000)),
    (0xE0000, 0xE0FFF), (0xEFFFE, 0xEFFFF), (0xFFFFE, 0xFFFFF), (0x10FFFE, 0x10FFFF),
)  # fmt: skip
"""The characters that may be hidden, as sorted ranges."""


def _ordinary_ranges() -> str:
    """Return all other characters, as the ranges of a character class."""
    starts = [0, *(last + 1 for _, last in _SUSPECTS)]
    ends = [*(first - 1 for first, _ in _SUSPECTS), 0x10FFFF]
    pairs = zip(starts, ends, strict=True)
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in pairs if first <= last)


_SUSPECT = re.compile(f"[^{_ordinary_ranges()}]")
"""Defined by what it is not: ordinary characters are dismissed in one step, and most text has nothing else."""
_PLAIN = bytes(code for code in range(128) if not _SUSPECT.match(chr(code)))

# The flag of England is a black flag, its region in tag characters (`gbeng`) and a closing tag. A region has 3 to 6
# characters, so that no message fits between the two.
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
_JOINING = re.compile(
    "[\u0600-\u06ff\u0700-\u074f\u0750-\u077f\u0780-\u07bf\u07c0-\u07ff\u0840-\u085f\u0860-\u08ff"
    "\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\u1900-\u1aff\u1b00-\u1bff\u0e00-\u0fff\ua840-\ua87f"
    "\ua880-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010aff\U00010d00-\U00010d3f\U00011000-\U00011fff"
    "\U0001e900-\U0001e95f]"
)
"""Letters and marks of the scripts in which joiners change how neighbours are drawn."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf]"
)
"""Letters of the scripts that are written without spaces, where a zero-width space separates words."""

_MAX_SHOWN = 80
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_KEYCAPS = frozenset("0123456789#*")
# What may stand between an emoji and the joiner after it: the emoji selector, a skin tone, a keycap.
_EMOJI_TAIL = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff\u20e3]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenText:
    """A run of hidden characters of one class: where it starts, its first character, and its length."""

    line: int
    column: int
    char_class: CharClass
    code_point: int
    count: int


def find_hidden(text: str) -> list[HiddenText]:
    """Return every run of hidden characters, in order; [] for ordinary text of any script.

    A byte order mark at the very start is accepted.
    """
    found: list[HiddenText] = []
    line_start, line = 0, 1
    for position, char_class, count in _runs(text):
        line += text.count("\n", line_start, position)
        line_start = max(line_start, text.rfind("\n", line_start, position) + 1)
        column = position - line_start + 1
        code = ord(text[position])
        found.append(HiddenText(line=line, column=column, char_class=char_class, code_point=code, count=count))
    return found


def _runs(text: str) -> Iterator[tuple[int, CharClass, int]]:
    """Yield the start, class and length of each run of one class."""
    start, length = -1, 0
    current: CharClass = "invisible"
    for position in _hidden_positions(text):
        char_class = _classify(text[position])
        if length and position == start + length and char_class == current:
            length += 1
            continue
        if length:
            yield start, current, length
        start, current, length = position, char_class, 1
    if length:
        yield start, current, length


def show_hidden(text: str) -> str:
    r"""Return the text with every hidden character written out, such as `\u{E0041}`."""
    parts: list[str] = []
    start = 0
    for position in _hidden_positions(text):
        parts += [text[start:position], f"\\u{{{ord(text[position]):04X}}}"]
        start = position + 1
    return "".join([*parts, text[start:]])


def quote_source(source: str) -> str:
    """Return the start of an author's text, such as a pattern or a piece of a template, quoted for a message."""
    return f"`{show_hidden(source[:_MAX_SHOWN])}{'…' * (len(source) > _MAX_SHOWN)}`"


def _hidden_positions(text: str) -> Iterator[int]:
    # Most texts are plain ASCII: deleting all plain bytes leaves nothing, and no regular expression has to run.
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return
    flag_end = 0
    for found in _SUSPECT.finditer(text):
        position = found.start()
        if position < flag_end:
            continue
        # A flag is accepted as a whole and skipped. On their own, tag characters are always refused.
        if found[0] >= "\U000e0000":
            flag = _FLAG.match(text, position - 1) if position else None
            if flag:
                flag_end = flag.end()
                continue
        accepted = _ACCEPTED.get(_classify(found[0]))
        if not (accepted and accepted(text, position)):
            yield position


def _classify(char: str) -> CharClass:
    for char_class, pattern in _CLASSES:
        if pattern.match(char):
            return char_class
    return "invisible"


_CLASSES: tuple[tuple[CharClass, re.Pattern[str]], ...] = (
    ("zero-width", re.compile("[\u200b-\u200d\u2060-\u2064\ufeff\u180e]")),
    ("variation-selector", re.compile("[\ufe00-\ufe0f\u180b-\u180d\u180f\U000e0100-\U000e01ef]")),
    ("bidi-control", re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")),
    ("tag", re.compile("[\U000e0000-\U000e007f]")),
    ("control", re.compile("[\x00-\x1f\x7f-\x9f]")),
)


def _around(text: str, position: int) -> tuple[str, str]:
    return text[position - 1 : position] if position else "", text[position + 1 : position + 2]


def _zero_width_accepted(text: str, position: int) -> bool:
    char = text[position]
    before, after = _around(text, position)
    # A byte order mark is one only at the start; anywhere else it is an invisible space.
    if char == "\ufeff":
        return position == 0
    if char == "\u200b":
        return bool(_UNSPACED.match(before) and _UNSPACED.match(after))
    # Persian, for example, writes the non-joiner inside words and at their end, before a space or punctuation.
    if char in "\u200c\u200d" and _JOINING.match(before):
        return not after or bool(_JOINING.match(after)) or after.isspace() or unicodedata.category(after)[0] == "P"
    if char == "\u200d":
        return (_is_emoji(before) or bool(_EMOJI_TAIL.match(before))) and _is_emoji(after)
    return char == "\u180e" and _is_mongolian(before)


def _variation_accepted(text: str, position: int) -> bool:
    char = text[position]
    before, after = _around(text, position)
    # One selector changes a character; two in a row change nothing and can encode a byte each.
    if after and _classify(after) == "variation-selector" and _SUSPECT.match(after):
        return False
    if char >= "\U000e0100":
        return _is_ideograph(before)
    if char <= "\u180f":
        return _is_mongolian(before)
    return bool(before) and (
        before in _KEYCAPS or _is_symbol(before) or _is_ideograph(before) or _takes_selector(before)
    )


def _direction_mark_accepted(text: str, position: int) -> bool:
    """Accept a direction mark next to a letter of a right-to-left script, or to its punctuation."""
    # Marks only nudge the direction of their neighbours. Embeddings, overrides and isolates reorder whole stretches, so
    # that a reviewer reads another text than the model: they are never accepted.
    if text[position] not in "\u200e\u200f\u061c":
        return False
    return any(
        unicodedata.bidirectional(char) in _RIGHT_TO_LEFT
        for char in text[max(0, position - 3) : position + 4]
        if char not in "\u200e\u200f\u061c"
    )


_ACCEPTED: dict[CharClass, Callable[[str, int], bool]] = {
    "zero-width": _zero_width_accepted,
    "variation-selector": _variation_accepted,
    "bidi-control": _direction_mark_accepted,
}


def _is_symbol(char: str) -> bool:
    """Return True for a character that has a text and an emoji shape, or a variant: symbols, arrows, some punctuation."""
    return unicodedata.category(char) in ("So", "Sm", "Sk", "Po", "Ps", "Pe") and char >= "\xa0"


def _takes_selector(char: str) -> bool:
    return (
        _is_emoji(char)
        or "\u1000" <= char <= "\u109f"
        or "\ua840" <= char <= "\ua87f"
        or char in "\u3030\u303d\u2139\u24c2"
    )


def _is_emoji(char: str) -> bool:
    if not char:
        return False
    return "\U0001f000" <= char <= "\U0001faff" or (
        "\u2190" <= char <= "\u2bff" and unicodedata.category(char)[0] == "S"
    )


def _is_ideograph(char: str) -> bool:
    return bool(char) and (
        "\u3400" <= char <= "\u9fff"
        or "\uf900" <= char <= "\ufaff"
        or "\U00020000" <= char <= "\U0003ffff"
        or char in "\u3007\u3001\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f"
    )


def _is_mongolian(char: str) -> bool:
    return "\u1800" <= char <= "\u18af"
