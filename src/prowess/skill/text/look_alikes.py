"""Find words that look like other words: letters of two scripts in one word, and words of letters that all look Latin.

`pg-triаge` with a Cyrillic `а` is a different name from `pg-triage`, but looks the same.
"""

from __future__ import annotations

import re
import unicodedata

# Lowercase letters, by the Latin letter that they look like: the entries of Unicode's confusables.txt (UTS #39) that a slug
# can contain. The Turkish dotless i is left out: it is a letter of its own in everyday words.
_LOOK_LIKE = {
    "a": "ɑαа",
    "b": "ᑲᖯ",
    "c": "ᴄⲥсꮯ𐐽",
    "d": "ԁᑯꓒ",
    "e": "ꬲеҽ",
    "f": "ꬵꞙẝք",
    "g": "ɡᶃƍց",
    "h": "һհ",
    "i": "ɪɩιіꙇӏꭵ𑣃",
    "j": "ϳј",
    "l": "𐌠ǀⵏᛁꓲ𖼨𐊊𐌉",
    "n": "ոռ",
    "o": "ᴏᴑꬽοσⲟоჿօഠဝ𐓪𑣈𐐬",
    "p": "ρⲣр",
    "q": "ԛգզ",
    "r": "ꭇꭈᴦⲅгꮁ",
    "s": "ꜱƽѕꮪ𑣁𐑈",
    "u": "ꞟᴜꭎꭒʋυս𐓶",
    "v": "ᴠνѵ𑜆ꮩ𑣀",
    "w": "ɯᴡѡԝա𑜊𑜎𑜏ꮃ",
    "x": "хᕁᕽ",
    "y": "ɣᶌʏỿꭚγуүყ",
    "z": "ᴢꮓ𑣄",
}
_LATIN_TWIN = str.maketrans({char: latin for latin, chars in _LOOK_LIKE.items() for char in chars})
_WORD = re.compile(r"[^\W_]+")
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
"""Scripts that are written together, also with Latin letters (the highly restrictive level of UTS #39)."""


def find_mixed_words(text: str) -> list[str]:
    """Return the words that mix letters of scripts that are never written in one word, such as Latin and Cyrillic."""
    return [] if text.isascii() else [word for word in _WORD.findall(text) if _mixes_scripts(word)]


def find_latin_twins(text: str) -> list[tuple[str, str]]:
    """Return the words of other letters that all look Latin, each with the Latin word that it looks like."""
    if text.isascii():
        return []
    twins = [(word, word.translate(_LATIN_TWIN)) for word in _WORD.findall(text) if not word.isascii()]
    return [(word, twin) for word, twin in twins if twin.isascii()]


def _mixes_scripts(word: str) -> bool:
    scripts = {_script_of(char) for char in word if char.isalpha()} - {""}
    return len(scripts) > 1


def _script_of(char: str) -> str:
    """Return the script of a letter by the first word of its name; '' for a letter shared by all scripts."""
    first = unicodedata.name(char, "").partition(" ")[0]
    # Latin is part of everyday East Asian writing, so within one word the two count as one.
    if first in _EAST_ASIAN:
        return "LATIN"
    # Signs that stand beside letters of any script: modifier letters, the micro sign, ordinals.
    return "" if first in ("MODIFIER", "MICRO", "FEMININE", "MASCULINE", "DOUBLE-STRUCK", "SCRIPT") else first
