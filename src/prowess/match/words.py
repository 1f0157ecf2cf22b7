"""Text as words: what a message and a skill are compared by.

Words come in lower case and without accents; `camelCase` and `kebab-case` are split. Chinese, Japanese and Korean,
which do not part their words, give pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from prowess.match.stopwords import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_TEXT = 100_000
LONGEST_WORD = 64
_MOST_BARE = 20_000
_MOST_READ = 50_000

_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
CJK_RUN = re.compile(f"[{_CJK}]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(rf"[^\W_{_CJK}]+(?:[+#]+(?!\w))?")
_SIGNED = re.compile(r"[a-zA-Z0-9][+#]")
_PLAIN = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_KEPT_SIGNS = "’+#_"
_INSIDE = re.compile(r"(?<=.)[A-Z]")
_SHORTENED = re.compile(r"['’](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)


def words_of(text: str) -> list[str]:
    """The words that carry meaning, in order, then pairs of characters; all words if none of them carries any."""
    every = split(text)
    telling = [word for word in every if word not in STOP_WORDS]
    return telling or every


def split(text: str) -> list[str]:
    """Every word of a text, in order, and after them the pairs of Chinese, Japanese and Korean characters."""
    text = text[:LONGEST_TEXT]
    if text.isascii():
        return _latin(text)
    text = unicodedata.normalize("NFKC", text)
    bare = _NOT_ASCII.sub(_bare, text)
    return _latin(bare) if bare.isascii() else _latin(bare) + pairs_of(text)


def pairs_of(text: str) -> list[str]:
    """The pairs of neighbouring Chinese, Japanese and Korean characters; one that stands alone by itself."""
    runs: list[str] = CJK_RUN.findall(text)
    return [run[place : place + 2] for run in runs for place in range(max(1, len(run) - 1))]


def spelled_out(slug: str) -> str:
    """A slug as people would say it: its words with spaces between them."""
    return slug.replace(".", " ").replace("-", " ")


def is_unspaced(word: str) -> bool:
    """Whether a word is a pair of characters of a language that does not part its words."""
    return not word.isascii() and CJK_RUN.fullmatch(word) is not None


def stems_of(words: Sequence[str]) -> list[str]:
    """Each word without its English ending, so that `testing` and `tests` are one."""
    return _stemmer()(list(words))


def _latin(text: str) -> list[str]:
    if "'" in text or "’" in text:
        text = _SHORTENED.sub(" ", text)
    words: list[str] = []
    known = _READ.get
    for token in _tokens(text):
        words += known(token) or _read(token)
    return words


def _tokens(text: str) -> list[str]:
    """What `_WORD` finds, in a third of the time where the text is plain."""
    may_be_signed = "+" in text or "#" in text
    if not text.isascii() or (may_be_signed and _SIGNED.search(text)):
        return _WORD.findall(text)
    return text.encode().translate(_PLAIN).decode().split()


def _read(token: str) -> tuple[str, ...]:
    """The words of a token, remembered for the next time."""
    if token.islower() or not _INSIDE.search(token):
        words = (token[:LONGEST_WORD].lower(),)
    else:
        words = tuple(_humps(token[:LONGEST_WORD]))
    if len(token) <= LONGEST_WORD:
        if len(_READ) >= _MOST_READ:
            _READ.clear()
        _READ[token] = words
    return words


def _humps(word: str) -> list[str]:
    """The parts of a word with capitals inside, and the whole; the whole alone where it is known as one, as GitHub is."""
    parts = [part.lower() for part in _CAMEL.split(word)]
    whole = "".join(parts)
    return [whole] if len(parts) == 1 or _is_one_word()(whole) else [*parts, whole]


@cache
def _is_one_word() -> Callable[[str], bool]:
    from prowess.match.lexicon import static

    return static().knows


def _bare(found: re.Match[str]) -> str:
    return found[0].translate(_BARE)


class _Bare(dict[int, str]):
    """Letters without their accents. Korean syllables stay whole; `ß` is `ss`, as people type it; signs are space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        bare = character
        if code >= 0x80 and not 0xAC00 <= code <= 0xD7AF:
            parts = unicodedata.normalize("NFD", character)
            bare = (
                "".join(part for part in parts if not unicodedata.combining(part)).replace("ß", "ss").replace("ẞ", "SS")
            )
        if bare and bare not in _KEPT_SIGNS and not any(map(str.isalnum, bare)):
            bare = " "
        if len(self) < _MOST_BARE:
            self[code] = bare
        return bare


_BARE = _Bare()
_READ: dict[str, tuple[str, ...]] = {}


@cache
def _stemmer() -> Callable[[list[str]], list[str]]:
    import Stemmer

    library: Any = Stemmer
    # Without its memory: whoever asks remembers, and has each word stemmed once.
    return library.Stemmer("english", 0).stemWords
