"""Split texts into the words and clauses by which messages and skills are compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from prowess.patterns import lazy_pattern

_GRAMMAR = """
a about after again all also am an and any are as at be because been before being below between both but by can could
did do does doing done down during each either else etc ever every few for from further had has have having he her here
hers him his how however i if in into is it its itself just let me might more most must my no nor not now of off on
once only or other our ours out over own per rather same shall she should since so some such than that the their theirs
them themselves then there these they this those though through thus to too toward towards under unless until up upon us
very was we were what whatever when whenever where whether which while who whom whose why will with within without would
yet you your yours yourself
"""

# Words of a request that say nothing about its subject. Removing stop words gained 5 to 11 points of NDCG@10 on
# sentences.
_REQUESTS = """
able assist available dont get give given gives got help helps hello hey hi kindly like
make makes need needed needs ok okay please sure thank thanks use used uses using via want wanted wants
"""

_CONTRACTIONS = "ll ve re isn aren wasn weren doesn didn don hasn haven hadn won wouldn couldn shouldn mustn cannot"
"""The parts of contractions that remain without the apostrophe."""

_CJK_PAIRS = """
我们 你们 他们 帮助 我的 你的 什么 怎么 么样 怎样 如何 一个 一些 一下 可以 能够 这个 那个 这些 那些 帮我 请帮 给我 我想 想要 需要 是否 请问 谢谢
です ます した して する ください こと もの から まで どう です ですか ため この その あの
니다 습니 어요 아요 해주 해줘 주세 세요 하는 에서 으로 그리 리고
"""
"""Grammatical character pairs of Chinese, Japanese and Korean."""

STOP_WORDS = frozenset(f"{_GRAMMAR} {_REQUESTS} {_CONTRACTIONS} {_CJK_PAIRS}".split())


LONGEST_TEXT = 100_000
LONGEST_WORD = 64
_MAX_ACCENTS = 20_000
_MAX_TOKENS = 50_000

_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
CJK_RUN = lazy_pattern(f"[{_CJK}]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# With the signs at the end, for C++ and C#.
_WORD = lazy_pattern(rf"[^\W_{_CJK}]+(?:[+#]+(?!\w))?")
_SIGNED_WORD = re.compile(r"[a-zA-Z0-9][+#]")
UNUSUAL_TOKEN = re.compile(r"'|[a-zA-Z0-9][+#A-Z]")
"""In an ASCII text without it, the words are the stretches of letters and digits, in lower case."""
_ASCII_TABLE = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_WIDE = lazy_pattern("[\uff01-\uff5e]")
_FROM_WIDE = 0xFF01 - ord("!")
_KEPT_SIGNS = "’+#_"
_INNER_CAPITAL = re.compile(r"(?<=.)[A-Z]")
_CONTRACTION = re.compile(r"['’](?:s|t|d|m|ll|re|ve)\b", re.IGNORECASE)


def extract_words(text: str) -> list[str]:
    """Return the words without stop words, then the CJK pairs; all words if every one is a stop word."""
    every = split_words(text)
    telling = [word for word in every if word not in STOP_WORDS]
    return telling or every


def split_words(text: str) -> list[str]:
    """Return all words of a text in order, then the pairs of Chinese, Japanese and Korean characters."""
    text = text[:LONGEST_TEXT]
    if text.isascii():
        return _latin(text)
    text = normalize(text)
    bare = strip_accents(text)
    return _latin(bare) if bare.isascii() else _latin(bare) + cjk_pairs(text)


def normalize(text: str) -> str:
    """Return a text in its usual form."""
    # NFKC takes ten times as long where anything changes. In Chinese, that is mostly full-width punctuation alone.
    return unicodedata.normalize("NFKC", _WIDE.sub(_narrow, text))


def strip_accents(text: str) -> str:
    """Return a normalized text without accents and symbols."""
    return _NOT_ASCII.sub(_strip_run, text)


def cjk_pairs(text: str) -> list[str]:
    """Return the pairs of adjacent Chinese, Japanese and Korean characters; a single one stands for itself."""
    # Chinese and Japanese have no spaces between words. On Chinese messages, pairs raised NDCG@10 from 4.0 to 22.5.
    runs: list[str] = CJK_RUN.findall(text)
    return [run[place : place + 2] for run in runs for place in range(max(1, len(run) - 1))]


def slug_words(slug: str) -> str:
    """Return a slug as words with spaces between them."""
    return slug.replace(".", " ").replace("-", " ")


def is_cjk_pair(word: str) -> bool:
    """Return True for a CJK pair."""
    return not word.isascii() and CJK_RUN.fullmatch(word) is not None


def stem_words(words: Sequence[str]) -> list[str]:
    """Return the English stem of each word, so that `testing` and `tests` are the same."""
    return _stemmer()(list(words))


def _latin(text: str) -> list[str]:
    if "'" in text or "’" in text:
        text = _CONTRACTION.sub(" ", text)
    words: list[str] = []
    known = _TOKEN_CACHE.get
    for token in _tokens(text):
        words += known(token) or split_token(token)
    return words


def _tokens(text: str) -> list[str]:
    """Return what `_WORD` matches; for plain ASCII text a byte translation is three times as fast."""
    may_be_signed = "+" in text or "#" in text
    if not text.isascii() or (may_be_signed and _SIGNED_WORD.search(text)):
        return _WORD.findall(text)
    return split_ascii(text)


def split_ascii(text: str) -> list[str]:
    """Return the stretches of letters and digits in an ASCII text."""
    return text.encode().translate(_ASCII_TABLE).decode().split()


def split_token(token: str) -> tuple[str, ...]:
    """Return the words of a token: several if it is written in camel case."""
    words = (token,) if token.islower() and len(token) <= LONGEST_WORD else split_new_tokens([token])[0]
    if len(token) <= LONGEST_WORD:
        if len(_TOKEN_CACHE) >= _MAX_TOKENS:
            _TOKEN_CACHE.clear()
        _TOKEN_CACHE[token] = words
    return words


def split_new_tokens(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the words of each token, without remembering them."""
    found: list[tuple[str, ...]] = []
    camel: dict[int, tuple[str, ...]] = {}
    for token in tokens:
        word = token.lower() if len(token) <= LONGEST_WORD else token[:LONGEST_WORD].lower()
        # Most have no capital, or the first letter alone is one.
        if word != token and word[1:] != token[1:] and _INNER_CAPITAL.search(token):
            parts = [part.lower() for part in _CAMEL.split(token[:LONGEST_WORD])]
            if len(parts) > 1:
                camel[len(found)] = (*parts, word)
        found.append((word,))
    if camel:
        is_one_word = _know([word for *_, word in camel.values()])
        for (place, words), is_one in zip(camel.items(), is_one_word, strict=True):
            # The parts of a camel-case word and the whole, or the whole alone if the model knows it as one word (GitHub).
            found[place] = found[place] if is_one else words
    return found


def _know(words: Sequence[str]) -> list[bool]:
    # Imported here, because that module imports this one.
    from prowess.match.vectors.encoder import default_encoder

    return default_encoder().pieces.know(words).tolist()


def _narrow(found: re.Match[str]) -> str:
    return chr(ord(found[0]) - _FROM_WIDE)


def _strip_run(found: re.Match[str]) -> str:
    characters = found[0]
    # Mostly a dash, a quotation mark or a letter with an accent.
    return _ACCENTS[ord(characters)] if len(characters) == 1 else characters.translate(_ACCENTS)


class _AccentTable(dict[int, str]):
    """A translation table that removes accents: Korean syllables stay whole, `ß` becomes `ss`, symbols become spaces."""

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
        if len(self) < _MAX_ACCENTS:
            self[code] = bare
        return bare


_ACCENTS = _AccentTable()
_TOKEN_CACHE: dict[str, tuple[str, ...]] = {}


@cache
def _stemmer() -> Callable[[list[str]], list[str]]:
    import Stemmer

    library: Any = Stemmer
    # 0: without the library's own cache, because callers cache stems themselves.
    return library.Stemmer("english", 0).stemWords


_CLAUSE_START = r"(?:(?<=^)|(?<=[\n.;:!?()\[\]—–-])|(?<=, )|(?<=\bbut )|(?<=\band ))\s{0,99}+(?:\*\*|__)?"
_SUBJECT = r"(?:please |you |(?:(?:this|the)(?: skill)?|it) )?"
_USE = r"(?:use|trigger|apply|invoke|activate|cover)"
_EXCLUDES = (
    r"(?:is )?not (?:(?:suitable|intended|meant|designed|suited|recommended|ideal|useful|needed|used) )?for",
    r"isn['’]t (?:(?:suitable|intended|meant|designed|suited|recommended) )?for",
    r"(?:is )?not to be used",
    r"(?:is )?not applicable",
    rf"do(?:es)? not {_USE}",
    rf"do(?:es)?n['’]?t {_USE}",
    r"(?:should|must) not (?:be used|use)",
    r"(?:when )?not to use",
    r"never use",
    r"avoid (?:using|for|when)",
    r"skip (?:this|if|when|for)",
    r"unsuitable for",
    r"not when",
)
_CLAUSE_REST = r"(?:\b(?:e\.g|i\.e)\.|[^.;!?\n]|\.(?=(?-i:[a-z0-9])))*(?:[.;!?\n]+|$)"
"""A dot inside a name or a number (`.docx`, `2.0`) does not end a clause."""

_EXCLUSION = lazy_pattern(rf"{_CLAUSE_START}{_SUBJECT}(?:{'|'.join(_EXCLUDES)})\b{_CLAUSE_REST}", re.IGNORECASE)
_EXCLUSION_WORDS = ("not ", "n't ", "n’t ", "dont ", "doesnt ", "never ", "avoid ", "skip ", "unsuitable ")
"""Every exclusion contains one of these: a fast test before the slow pattern."""

_CLAUSE_BREAK = re.compile(r"[\s,:](?:(?<=[.;!?]\s)\s*|(?<=\n)\n*|(?<=,)\s+|(?<=\s)[—–-]\s|(?<=:)\s+)")
"""Begins with the characters that can separate clauses, so the engine skips all others quickly."""
_SHORTEST_CLAUSE = 9
MAX_CLAUSES = 24


def remove_exclusions(text: str) -> str:
    """Return the text without its "not for …" clauses."""
    lower = text.lower()
    for word in _EXCLUSION_WORDS:
        if word in lower:
            return _EXCLUSION.sub(" ", text)
    return text


def split_clauses(text: str) -> list[str]:
    """Split a text into sentences and list items, each something a user may ask for.

    No text is lost: a clause too short to stand alone joins the one before it, as does everything after `MAX_CLAUSES`.
    """
    found: list[str] = []
    for part in _CLAUSE_BREAK.split(text):
        if found and (len(part) < _SHORTEST_CLAUSE or len(found) == MAX_CLAUSES):
            found[-1] += f" {part}"
        elif part.strip():
            found.append(part)
    return found
