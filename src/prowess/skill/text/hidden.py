"""Find text that a model reads but a person does not see.

Unicode has some 4,000 invisible characters (its property Default_Ignorable_Code_Point), and others that are blank in most
fonts. Scripts and emoji need a few of them in certain places, where they are accepted. Anywhere else they can carry a
message past a reviewer, so each one is found.

Two things are not found: the choice among visible spaces, and one bit at a place where a script may or may not have a joiner
or a zero-width space (Persian, Thai). Both need a long visible text to carry a short hidden one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import Literal

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.text.unicode_tables import (
    DEFAULT_IGNORABLE,
    EMOJI_JOINS,
    EMOJI_VARIATION,
    JOINING,
    STANDARD_VARIATION,
    UNIFIED_IDEOGRAPH,
)

CharClass = Literal[
    "tag", "variation-selector", "zero-width", "bidi-control", "control", "private-use", "blank", "invisible"
]

# Tab, LF, FF, CR and NEL are white space and stay out.
_CONTROL = "\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f"
_PRIVATE_USE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
# Characters with a shape that is empty, and format controls that Unicode does not count as ignorable: the blank of Braille,
# the controls and blanks of hieroglyphs, the filler of Khitan, the null notehead of music.
_BLANK = "\u2800\U00013430-\U00013442\U00016fe4\U0001d159"
# Annotations and the object replacement (U+FFF9 to U+FFFC), lone surrogates, and code points that are never characters.
_NO_TEXT = "\ufff9-\ufffc\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)
)


class _CharSet:
    """Characters in ranges, written as in a character class. Compiling large classes as patterns would take milliseconds."""

    def __init__(self, *classes: str) -> None:
        self._classes = classes

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last code of each range, in order. Computed at first use: most texts need none of them."""
        return sorted(
            (ord(char_range[0]), ord(char_range[-1]))
            for part in self._classes
            for char_range in re.findall("(?s).-.|.", part)
        )

    @cached_property
    def _starts(self) -> list[int]:
        return [first for first, _ in self.ranges]

    def __contains__(self, char: str) -> bool:
        at = bisect_right(self._starts, ord(char)) - 1 if char else -1
        return at >= 0 and ord(char) <= self.ranges[at][1]


_SUSPECTS = _CharSet(_CONTROL, _PRIVATE_USE, _BLANK, _NO_TEXT, DEFAULT_IGNORABLE)
"""The characters that may be hidden. Whether one is, depends on its neighbours."""


def _suspect_pattern() -> str:
    """Return a character class that leaves out the ranges of all other characters."""
    starts = [0, *(last + 1 for _, last in _SUSPECTS.ranges)]
    ends = [*(first - 1 for first, _ in _SUSPECTS.ranges), 0x10FFFF]
    pairs = zip(starts, ends, strict=True)
    ordinary = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in pairs if first <= last)
    return f"[^{ordinary}]"


_SUSPECT = lazy_pattern(_suspect_pattern)
"""Defined by exclusion: ordinary characters are dismissed in one step, and most text has nothing else."""
_CONTROLS = lazy_pattern(f"[{_CONTROL}]")
_ASCII_CONTROLS = _CharSet(_CONTROL)
_PLAIN = bytes(code for code in range(128) if chr(code) not in _ASCII_CONTROLS)
"""The ASCII characters that are not suspect: in ASCII, only control characters are."""

_CLASSES: tuple[tuple[CharClass, _CharSet], ...] = (
    ("zero-width", _CharSet("\u200b-\u200d\u2060-\u2064\ufeff\u180e")),
    ("variation-selector", _CharSet("\ufe00-\ufe0f\u180b-\u180d\u180f\U000e0100-\U000e01ef")),
    ("bidi-control", _CharSet("\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069")),
    ("tag", _CharSet("\U000e0000-\U000e007f")),
    ("control", _CharSet(_CONTROL)),
    ("private-use", _CharSet(_PRIVATE_USE)),
    ("blank", _CharSet(_BLANK)),
)

# A flag is a black flag, a region in tag characters and a closing tag. Only the three that Unicode lists are drawn as flags;
# any other region is a black flag with a message after it.
_FLAG = lazy_pattern(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
# Blocks of the scripts of India, Sri Lanka and South-East Asia, in which joiners choose the form of a cluster.
_BRAHMIC = _CharSet(
    "\u0900-\u0dff\u0f00-\u109f\u1700-\u17ff\u1900-\u1aaf\u1b00-\u1bff\ua880-\ua8df\ua980-\ua9df\uaa00-\uaadf",
    "\uaae0-\uaaff\uabc0-\uabff\U00011000-\U00011fff",
)
_CURSIVE = _CharSet(JOINING, "\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc")
_UNSPACED = _CharSet(
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
)
"""Letters of the scripts that are written without spaces, where a zero-width space separates words."""

MAX_HIDDEN = 10_000
"""How many hidden characters of one text are found, because each takes about 10 µs. A text with so many is refused."""

_MAX_SHOWN = 80
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_KEYCAPS = frozenset("0123456789#*")
_EMOJI_TAIL = frozenset("\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
"""Characters allowed between an emoji and the joiner after it: the emoji selector or a skin tone."""
_MAX_EMOJI_JOINERS = 3
"""The joiners of the longest sequences: a family of four, or a kiss."""
_JOINS = {first: frozenset(seconds) for firsts, seconds in EMOJI_JOINS for first in firsts}
_EMOJI_BASE = _CharSet(EMOJI_VARIATION)
_STANDARD_BASE = _CharSet(STANDARD_VARIATION)
_IDEOGRAPH = _CharSet(UNIFIED_IDEOGRAPH)
_IDEOGRAPH_SELECTOR = lazy_pattern("[\U000e0100-\U000e01ef\ufe00-\ufe02]")
# Old forms of ideographs occur in names, a few in a text. Any one of 240 selectors may follow an ideograph, so more of them
# could write a byte behind each visible character.
_MAX_IDEOGRAPH_SELECTORS = 16


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

    A byte order mark at the very start is accepted. After `MAX_HIDDEN` characters, the rest of the text is not searched.
    """
    found: list[HiddenText] = []
    if is_plain(text):
        return found
    line_start, line, seen = 0, 1, 0
    for position, char_class, count in _runs(text):
        # From the run before, not from the start of the line: a line may have a million runs.
        line += text.count("\n", seen, position)
        line_start = max(line_start, text.rfind("\n", seen, position) + 1)
        seen = position
        column = position - line_start + 1
        code = ord(text[position])
        found.append(HiddenText(line=line, column=column, char_class=char_class, code_point=code, count=count))
    return found


def _runs(text: str) -> Iterator[tuple[int, CharClass, int]]:
    """Yield the start, class and length of each run of one class; of control characters, those of ASCII are apart."""
    start, length, is_ascii = -1, 0, False
    current: CharClass = "invisible"
    for position in islice(_hidden_positions(text), MAX_HIDDEN):
        char = text[position]
        char_class = _classify(char)
        if length and position == start + length and char_class == current and char.isascii() == is_ascii:
            length += 1
            continue
        if length:
            yield start, current, length
        start, current, length, is_ascii = position, char_class, 1, char.isascii()
    if length:
        yield start, current, length


def show_hidden(text: str) -> str:
    r"""Return the text with every hidden character written out, such as `\u{E0041}`."""
    return replace_hidden(text, _write_out)


def show_controls(text: str) -> str:
    r"""Return the text with control characters, such as ESC, written out. All other characters stay, hidden or not."""
    return text if is_plain(text) else _CONTROLS.sub(lambda found: _write_out(found[0]), text)


def replace_hidden(text: str, write: Callable[[str], str]) -> str:
    """Return the text with each hidden character replaced by the result of `write`."""
    if is_plain(text):
        return text
    parts: list[str] = []
    start = 0
    for position in _hidden_positions(text):
        parts += [text[start:position], write(text[position])]
        start = position + 1
    return "".join([*parts, text[start:]]) if parts else text


def _write_out(char: str) -> str:
    return f"\\u{{{ord(char):04X}}}"


def quote_source(source: str) -> str:
    """Return the start of an author's text, such as a pattern or a piece of a template, quoted for a message."""
    return f"`{show_hidden(source[:_MAX_SHOWN])}{'…' * (len(source) > _MAX_SHOWN)}`"


def is_plain(text: str) -> bool:
    """Return True for ASCII without control characters, apart from white space: nothing in it can be hidden."""
    # Deleting all plain bytes leaves nothing, and no regular expression has to run.
    return text.isascii() and not text.encode().translate(None, _PLAIN)


def _hidden_positions(text: str) -> Iterator[int]:
    # Most texts that are not plain have a few dashes, quotes or accents. Compiling the pattern takes milliseconds, so they do without it.
    if not any(char in _SUSPECTS for char in set(text) if not " " <= char <= "~"):
        return
    flag_end = 0
    crowded: bool | None = None
    for found in _SUSPECT.finditer(text):
        position, char = found.start(), found[0]
        if position < flag_end:
            continue
        # A flag is accepted as a whole and skipped. On their own, tag characters are always refused.
        if "\U000e0000" <= char <= "\U000e007f":
            flag = _FLAG.match(text, position - 1) if position else None
            if flag:
                flag_end = flag.end()
                continue
        if crowded is None and _IDEOGRAPH_SELECTOR.match(char):
            crowded = len(_IDEOGRAPH_SELECTOR.findall(text)) > _MAX_IDEOGRAPH_SELECTORS
        if crowded and _IDEOGRAPH_SELECTOR.match(char):
            yield position
            continue
        accepted = _ACCEPTED.get(_classify(char))
        if not (accepted and accepted(text, position)):
            yield position


def _classify(char: str) -> CharClass:
    for char_class, chars in _CLASSES:
        if char in chars:
            return char_class
    return "invisible"


def _around(text: str, position: int) -> tuple[str, str]:
    return text[position - 1 : position] if position else "", text[position + 1 : position + 2]


def _zero_width_accepted(text: str, position: int) -> bool:
    char = text[position]
    before, after = _around(text, position)
    # A byte order mark is one only at the start; anywhere else it is an invisible space.
    if char == "\ufeff":
        return position == 0
    if char == "\u200d" and _joins_emoji(text, position):
        return True
    if before in _SUSPECTS or after in _SUSPECTS:
        return False
    if char == "\u200b":
        return before in _UNSPACED and after in _UNSPACED
    if char == "\u180e":
        return _is_mongolian(before) and _is_mongolian(after)
    if char not in "\u200c\u200d":
        return False
    # Two joiners with one letter between them do nothing in any script, and a row of them is a row of bits.
    if position > 1 and text[position - 2] in "\u200c\u200d":
        return False
    return _non_joiner_accepted(before, after) if char == "\u200c" else _joiner_accepted(before, after)


def _non_joiner_accepted(before: str, after: str) -> bool:
    # Persian, for example, writes it inside words and at their end, before a space or punctuation.
    base = _script_of(before)
    return base is not None and (_ends_word(after) or after in base or unicodedata.combining(after) > 0)


def _joiner_accepted(before: str, after: str) -> bool:
    # In Indic scripts a joiner stands next to the sign that removes a vowel (class 9); Khmer has one before its shifters.
    if before in _BRAHMIC and (_is_virama(before) or _is_virama(after) or "\u1780" <= before <= "\u17ff"):
        return _ends_word(after) or after in _BRAHMIC
    # Arabic letters join by themselves: a joiner shows the joined form of a letter that stands alone.
    joined = (_is_cursive(before), _is_cursive(after))
    return joined in ((True, False), (False, True)) and _ends_word(after if joined[0] else before)


def _joins_emoji(text: str, position: int) -> bool:
    """Return True for a joiner inside an emoji sequence that Unicode recommends, such as a family or a profession."""
    end, right = position, text[position + 1 : position + 2]
    # Back through the whole sequence: every pair must be one that Unicode joins.
    for _ in range(_MAX_EMOJI_JOINERS):
        start = end - 1
        tail = text[start:end]
        if tail in _EMOJI_TAIL:
            start -= 1
        before = text[start : start + 1] if start >= 0 else ""
        if tail == "\ufe0f" and before not in _EMOJI_BASE:
            return False
        if right not in _JOINS.get(before, ()):
            return False
        if start < 1 or text[start - 1] != "\u200d":
            return True
        end, right = start - 1, before
    return False


def _variation_accepted(text: str, position: int) -> bool:
    char = text[position]
    before, after = _around(text, position)
    # One selector changes a character; two in a row change nothing and can encode a byte each.
    if after and _classify(after) == "variation-selector":
        return False
    if char >= "\U000e0100":
        return before in _IDEOGRAPH
    if char <= "\u180f":
        return _is_mongolian(before)
    if char >= "\ufe0e":
        # A digit takes a selector as the start of a keycap only: elsewhere it looks the same without. An emoji that was damaged
        # when its text was converted has left its selector behind the sign for what is lost.
        if before == "\ufffd":
            return char == "\ufe0f"
        return before in _EMOJI_BASE and (before not in _KEYCAPS or after == "\u20e3")
    return before > "\x7f" and bool(before in _STANDARD_BASE or (char <= "\ufe02" and before in _IDEOGRAPH))


def _direction_mark_accepted(text: str, position: int) -> bool:
    """Accept a direction mark next to a letter of a right-to-left script, or to its punctuation."""
    # Marks only nudge the direction of their neighbours. Embeddings, overrides and isolates reorder whole stretches, so
    # that a reviewer reads another text than the model: they are never accepted. Nor are two marks in a row.
    if text[position] not in "\u200e\u200f\u061c":
        return False
    before, after = text[max(0, position - 3) : position][::-1], text[position + 1 : position + 4]
    if before[:1] in _SUSPECTS or after[:1] in _SUSPECTS:
        return False
    return any(_starts_right_to_left(side) for side in (before, after))


def _starts_right_to_left(side: str) -> bool:
    """Return True if a right-to-left letter is among these few characters, before anything that may be hidden."""
    suspect = _SUSPECT.search(side)
    return any(
        unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in side[: suspect.start() if suspect else None]
    )


_ACCEPTED: dict[CharClass, Callable[[str, int], bool]] = {
    "zero-width": _zero_width_accepted,
    "variation-selector": _variation_accepted,
    "bidi-control": _direction_mark_accepted,
}


def _script_of(char: str) -> _CharSet | None:
    """Return the letters of the script in which a joiner may follow this character, or None."""
    if char in _BRAHMIC:
        return _BRAHMIC
    return _CURSIVE if _is_cursive(char) else None


def _is_cursive(char: str) -> bool:
    # Vowel signs of Arabic and its like stand between letters and do not join.
    return char in _CURSIVE or "\u064b" <= char <= "\u065f"


def _is_virama(char: str) -> bool:
    return bool(char) and unicodedata.combining(char) == 9


def _ends_word(char: str) -> bool:
    return not char or char.isspace() or unicodedata.category(char)[0] in "PS"


def _is_mongolian(char: str) -> bool:
    return "\u1820" <= char <= "\u18aa"
