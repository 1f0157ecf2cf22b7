"""Find and neutralize text that reads like one of our prompt tags.

A tag is anything that a reader could take for one: `<`, perhaps slashes, one of our names and nothing more after it, in
any case, with any spacing, invisible characters or look-alike characters. `<skillful>`, `<skill_x>` and `<skill-index>`
are other names; `&lt;skill>` is not a tag.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from prowess.patterns import lazy_pattern
from prowess.skill.text.hidden import is_plain, show_hidden

OPENERS = "<\u226e\uff1c\ufe64\u02c2\u1438\u16b2\u2039\u276e\u276c\u2770\u27e8\u2329\u3008\u2991\u29fc\u22d6\U0001d236"
"""Everything that looks like the opening of a tag: less-than signs and single angle brackets.

Double brackets and quotes are left out: they are everyday punctuation in French, Russian and Chinese.
"""

_SLASHES = "/\\\u1735\u2041\u2044\u2215\u2216\u2571\u27cb\u29f8\u29f5\u2cc6\u3033\u30ce\u31d3\u4e3f\U0001d23a"
_BLANKS = "\u2800"
_INVISIBLE = "\u115f\u1160\u3164\uffa0"

_LOOKALIKES = {
    "a": "ɑΑαАаᎪᗅ⍺ꓮ𐊠𖽀",
    "b": "ƄΒβВвЬьᏏᏴᑲᖯᗷꓐꞴ𐊂𐊡𐌁",
    "c": "ϲϹСсᏟⲤⲥꓚꮯ𐊢𐌂𐐕𐐽𐔜𑣩𑣲🝌",
    "e": "ΕεЕеҽєᎬ℮⋿ⴹꓰꬲ𐊆𑢦𑢮",
    "g": "ƍԌցᏀᏳꓖɡ",
    "h": "ΗНнһհᎻᏂᕼⲎꓧ𐋏",
    "k": "ΚκКкᏦᛕⲔꓗ𐔘",
    "l": "il1|ıɩƖǀΙιІіӀӏᎥᏞᒪᛁ∣⏽⍳ⲒⳐⵏꓡꓲꙇꭵ￨𐊊𐌉𐌠𐐛𐔦𑢣𑢲𑣃𖼖𖼨𝈪\u05c0\u05d5\u05df\u0627\u0661\u06f1\u07ca",
    "m": "ΜϺМмᎷᗰᛖⲘꓟ𐊰𐌑",
    "n": "ΝηПпոռⲚꓠ𐔓",
    "o": "0ΟοσОоՕօ〇ჿዐᴑⲞⲟⵔꓳꬽ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑢵𑣈𑣗\u05e1\u0647\u0665\u06f5",
    "p": "ΡρϱРрᏢᑭ⍴Ⲣⲣꓑ𐊕",
    "r": "ƦгᎡᏒᖇᴦⲅꓣꭇꭈꮁ𐒴𖼵𝈖",
    "s": "ƽЅѕՏᏕᏚꓢꮪ𐊖𐐠𐑈𑣁𖼺",
    "t": "ΤτТтᎢ⊤⟙Ⲧꓔ𐊗𐊱𐌕𑢼𖼊🝨",
    "v": "νυѴѵᏙᐯ∨⋁ⴸꓦꛟꮩ𐔝𑜆𑢠𑣀𖼈𝈍\u05d8\u0667\u06f7",
    "x": "×ΧχХхᕁᕽ᙭᙮ᚷ╳⤫⤬⨯ⲬⵝꓫꞳ𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "ɣΥγϒУуҮүყᎩᎽⲨꓬ𐊲𑢤𑣜𖽃",
    "_": "ߺ",
    "/": _SLASHES,
    "<": OPENERS,
    " ": _BLANKS,
    "": _INVISIBLE,
}
_FOLDS = {char: fold for fold, chars in _LOOKALIKES.items() for char in chars}
_LETTER_NAME = lazy_pattern(
    r"(?:LATIN|REGIONAL INDICATOR)\b.*\b(?:LETTER|CAPITAL) (?:DOTLESS |SCRIPT )?([A-Z])(?: WITH |$)"
)


@lru_cache(maxsize=8192)
def fold_char(char: str) -> str:
    """Return the fold of one character. A letter that resembles none of ours is its own lowercase form."""
    if char in _FOLDS:
        return _FOLDS[char]
    if char.isspace():
        return " "
    # Combining marks, zero-width and other invisible characters do not change what a reader sees.
    if is_mark(char) or unicodedata.category(char)[0] == "C":
        return ""
    return "".join(_fold_letter(part) for part in unicodedata.normalize("NFKD", char) if not is_mark(part))


def is_mark(char: str) -> bool:
    """Return True if a character is drawn onto the one before it."""
    return unicodedata.category(char)[0] == "M"


def _fold_letter(char: str) -> str:
    """Return the fold of a character without a simpler form: by its shape, lowercase letter, value or name."""
    if char in _FOLDS:
        return _FOLDS[char]
    small = char.casefold()
    if small.isascii() or small in _FOLDS:
        return "".join(_FOLDS.get(part, part) for part in small)
    named = _LETTER_NAME.search(unicodedata.name(char, ""))
    letter = named[1].lower() if named else str(unicodedata.digit(char, small))
    return _FOLDS.get(letter, letter)


OUR_TAGS = ("available_skills", "graph_context", "memory", "policies", "skill", "skills")
"""The names of all blocks that are put into a prompt."""

ESCAPED = "&lt;"


class Tag(NamedTuple):
    """The position and name of something that reads like one of our tags, and whether it is a closing tag."""

    start: int
    name: str
    closing: bool


def neutralize(text: str) -> str:
    """Replace the opening sign of each of our tags by `&lt;`. Everything else stays the same.

    Doing this twice changes nothing more. The time is linear in the length of the text.
    """
    parts: list[str] = []
    end = 0
    for tag in find_tags(text):
        parts += (text[end : tag.start], ESCAPED)
        end = tag.start + 1
    return "".join([*parts, text[end:]]) if parts else text


def to_prompt_text(text: str) -> str:
    """Return text as it goes into a prompt: our tags neutralized, and hidden characters written out.

    Skills with hidden text are not kept. This is for control characters, and for texts of other origin, such as templates of
    roles and what an application passes in. Doing this twice changes nothing more.
    """
    # Nearly all texts end here: without `<`, look-alikes of it and hidden characters there is nothing to replace.
    if "<" not in text and is_plain(text):
        return text
    # Tags come first: one with a hidden character in it would not be found any more.
    return show_hidden(neutralize(text))


def to_one_line(text: str) -> str:
    """Replace each run of line ends and control characters by one space, and strip the ends."""
    if text.isprintable():
        return text.strip()
    return " ".join(_CONTROLS.sub(" ", text).split())


_CONTROLS = lazy_pattern("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def find_tags(text: str) -> list[Tag]:
    """Return all of our tags in the text, in order."""
    # Nearly all texts end here: without `<` and without look-alikes there is no tag.
    if "<" not in text and text.isascii():
        return []
    found = {tag.start: tag for tag in _scan_tags(text)}
    if not text.isascii() and _TAG_CHARACTER.search(text):
        # Translating keeps the length, so the positions are those of the original text.
        found.update((tag.start, tag) for tag in _scan_tags(text.translate(_TAG_TO_ASCII)))
    return [found[start] for start in sorted(found)]


_TAG_CHARACTER = lazy_pattern("[\U000e0020-\U000e007e]")
_TAG_TO_ASCII = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
"""Tag characters are invisible, and each stands for an ASCII character: some models read what they spell."""


def _fold_name(name: str) -> str:
    # `rn` looks like `m` in many fonts.
    return "".join(fold_char(char) for char in name).replace("rn", "m")


_NAMES = {_fold_name(name): name for name in OUR_TAGS}
_LONGEST_NAME = max(map(len, OUR_TAGS)) + 2
_NON_ASCII = r"[^\x20-\x7e]"


def _name_prefix_pattern(name: str, depth: int) -> str:
    """Return a pattern for the first letters of a name in ASCII; after a non-ASCII character anything may follow."""
    if not depth:
        return ""
    alike = "".join(re.escape(chr(code)) for code in range(0x20, 0x7F) if fold_char(chr(code)) == fold_char(name[0]))
    rest = _name_prefix_pattern(name[1:], depth - 1)
    pair = f"|[rR](?:[nN]{rest}|{_NON_ASCII})" if name[0] == "m" else ""
    return f"(?:[{alike}]{rest}{pair}|{_NON_ASCII})"


def _candidate_pattern() -> str:
    prefixes = "|".join(sorted({_name_prefix_pattern(name, 3) for name in OUR_TAGS}))
    return rf"[{OPENERS}][\x00-\x20\x7f/\\]*+(?={prefixes})"


_CANDIDATE = lazy_pattern(_candidate_pattern)
"""Rejects nearly every `<` of real text in one step."""


def _scan_tags(text: str) -> Iterator[Tag]:
    """Yield tags. Each candidate is read at most up to the next opening sign, so no character is read twice."""
    for candidate in _CANDIDATE.finditer(text):
        start = candidate.start()
        name, slash = _read_name(text, candidate.end())
        if name:
            yield Tag(start, name, slash or "/" in candidate[0] or "\\" in candidate[0])


def _read_name(text: str, position: int) -> tuple[str, bool]:
    """Return the name of our tag at this position, or "", and whether a slash precedes the name."""
    position, slash = _skip_gap(text, position)
    name, joined = "", False
    while position < len(text) and len(name) <= _LONGEST_NAME:
        char = text[position]
        part = fold_char(char)
        position += 1
        if part in _NAME_JOINERS:
            joined = True
        elif part[:1] in _NAME_ENDS:
            break
        # Marks are drawn onto the letter before them, so they neither end the name nor belong to it.
        elif part or not is_mark(char):
            whole = "" if _continues_name(char) else _tag_name(name)
            if whole or (part and joined):
                return whole, slash
            name += part
    return _tag_name(name), slash


_NAME_JOINERS = frozenset("-.:")
"""Part of an XML name if more of the name follows. None of our names has one."""
_NAME_ENDS = frozenset(" /<")
_GAPS = frozenset({"", " ", "/"})


def _skip_gap(text: str, position: int) -> tuple[int, bool]:
    slash = False
    while position < len(text) and (part := fold_char(text[position])) in _GAPS:
        slash = slash or part == "/"
        position += 1
    return position, slash


def _continues_name(char: str) -> bool:
    return char == "_" or char.isalnum()


def _tag_name(name: str) -> str:
    return _NAMES.get(name.replace("rn", "m"), "")
