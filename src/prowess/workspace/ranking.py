"""Finding pages by words: titles, tags and types count more than text, rare words more than common ones."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from prowess.workspace.page import Page

_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"(?<=[^\W_]{2}[^\W_s])s(?![^\W_])")
_ENOUGH, _LENGTH = 1.2, 0.75
"""How soon more of the same word adds nothing, and how much a long page is held against it."""
_WEIGHTS = {"title": 6, "slug": 3, "tags": 3, "type": 3}
"""What a word counts for there; one in the text counts for 1."""
_ASKED, _MOST_WORDS = 2_000, 64
"""So many characters of a query are looked at, and so many words of them."""
_SNIPPET = 160
_LOOKED_AT = 100_000
"""So many characters of a page are searched for a line to show."""


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """A page, how often it has each word, and how many words that are, by their weight."""

    page: Page
    words: Counter[str]
    length: int


class PageIndex:
    """The words of some pages; those in `before`, the pages of an earlier index, are not read again."""

    def __init__(self, pages: Sequence[Page], before: Sequence[IndexedPage] = ()) -> None:
        known = {id(one.page): one for one in before}
        self.pages: list[IndexedPage] = [known.get(id(page)) or _indexed(page) for page in pages]
        self._mean = sum(one.length for one in self.pages) / len(self.pages) if self.pages else 1.0

    def search(self, query: str, limit: int) -> list[tuple[Page, float]]:
        """The pages that have any of the words, best first; those whose type the query names come before all others."""
        wanted = list(dict.fromkeys(words_of(query[:_ASKED])))[:_MOST_WORDS]
        scores: dict[int, float] = {}
        for word in wanted:
            holding = [place for place, one in enumerate(self.pages) if word in one.words]
            rarity = math.log(1 + (len(self.pages) - len(holding) + 0.5) / (len(holding) + 0.5))
            for place in holding:
                scores[place] = scores.get(place, 0.0) + rarity * self._strength(place, word)
        found = [(self.pages[place].page, score) for place, score in scores.items()]
        found.sort(key=lambda one: (not is_of_type(one[0], query), -one[1], one[0].path))
        return found[:limit]

    def _strength(self, place: int, word: str) -> float:
        one = self.pages[place]
        times = one.words[word]
        drag = _ENOUGH * (1 - _LENGTH + _LENGTH * one.length / (self._mean or 1.0))
        return times * (_ENOUGH + 1) / (times + drag)


def is_of_type(page: Page, name: str) -> bool:
    """Whether a page is of the type of that name; `Characters` names the type `character`."""
    return bool(page.type) and words_of(page.type) == words_of(name[:_ASKED])


def snippet(page: Page, query: str) -> str:
    """A line of the page around the first of the words, on one line."""
    wanted = set(words_of(query[:_ASKED]))
    text = " ".join(page.content[:_LOOKED_AT].split())
    begin = next((found.start() for found in _WORD.finditer(text) if wanted.intersection(words_of(found[0]))), 0)
    start = max(0, text.rfind(" ", 0, max(begin - _SNIPPET // 3, 0)) + 1)
    cut = text[start : start + _SNIPPET]
    return f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"


def words_of(text: str) -> list[str]:
    """The words of a text, without case, accents and the plural's s."""
    return _WORD.findall(_PLURAL.sub("", _folded(text)))


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    flat = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in flat if not unicodedata.combining(sign))


def _indexed(page: Page) -> IndexedPage:
    words = Counter(words_of(page.content))
    named = {
        "title": (page.title, *page.aliases),
        "slug": (page.slug,),
        "tags": page.tags,
        "type": (page.type,),
    }
    for name, texts in named.items():
        for word in words_of(" ".join(texts)):
            words[word] += _WEIGHTS[name]
    return IndexedPage(page, words, words.total())
