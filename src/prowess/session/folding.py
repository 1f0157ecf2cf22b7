r"""What a character looks like to a reader who does not look closely: its fold.

A fold is made of plain characters: small letters and digits, `_`, and these signs:

- `<` and `/` for whatever can be taken for them, the backslash included;
- a space for anything that leaves a gap;
- nothing for what is not seen: combining marks, and all that is a control, a format character, or no character at all.

Letters that are drawn alike share one fold: `i`, `l`, `1` and `|` are all `l`, and `0` is `o`. Compatibility forms
(fullwidth, mathematical, circled, Roman numerals) and letters with strokes, hooks and accents need no table; the
table has what only looks alike, for the letters that occur in the names of our tags.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

OPENERS = "<\u226e\uff1c\ufe64\u02c2\u1438\u16b2\u2039\u276e\u276c\u2770\u27e8\u2329\u3008\u2991\u29fc\u22d6\U0001d236"
"""All that can be taken for the sign that opens a tag: less-than signs and single angle brackets.

Double brackets and quotes are left out: they are everyday punctuation in French, Russian and Chinese.
"""

_SLASHES = "/\\\u1735\u2041\u2044\u2215\u2216\u2571\u27cb\u29f8\u29f5\u2cc6\u3033\u30ce\u31d3\u4e3f\U0001d23a"
_BLANKS = "\u2800"
_UNSEEN = "\u115f\u1160\u3164\uffa0"

_ALIKE = {
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
    "": _UNSEEN,
}
_FOLDS = {char: fold for fold, chars in _ALIKE.items() for char in chars}
_LETTER_NAME = re.compile(
    r"(?:LATIN|REGIONAL INDICATOR)\b.*\b(?:LETTER|CAPITAL) (?:DOTLESS |SCRIPT )?([A-Z])(?: WITH |$)"
)


@lru_cache(maxsize=8192)
def fold(char: str) -> str:
    """The fold of one character; a letter that resembles none of ours is its own, in small letters."""
    if char in _FOLDS:
        return _FOLDS[char]
    if char.isspace():
        return " "
    if is_mark(char) or unicodedata.category(char)[0] == "C":
        return ""
    return "".join(_plain(part) for part in unicodedata.normalize("NFKD", char) if not is_mark(part))


def is_mark(char: str) -> bool:
    """Whether a character is drawn onto the one before it."""
    return unicodedata.category(char)[0] == "M"


def _plain(char: str) -> str:
    """The fold of a character that has no simpler form: by its own shape, its small letter's, its value, or its name."""
    if char in _FOLDS:
        return _FOLDS[char]
    small = char.casefold()
    if small.isascii() or small in _FOLDS:
        return "".join(_FOLDS.get(part, part) for part in small)
    named = _LETTER_NAME.search(unicodedata.name(char, ""))
    letter = named[1].lower() if named else str(unicodedata.digit(char, small))
    return _FOLDS.get(letter, letter)
