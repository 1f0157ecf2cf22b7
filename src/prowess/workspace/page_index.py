"""Find pages by name and by words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from prowess.workspace.pages import Page

_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"(?<=[^\W_]{2}[^\W_s])s(?![^\W_])")
_SATURATION, _LENGTH_PENALTY = 1.2, 0.75
"""How soon more of the same word adds nothing, and how much a long page is held against it."""
_FIELD_WEIGHTS = {"title": 6, "slug": 3, "tags": 3, "type": 3}
"""What a word counts for there; one in the text counts for 1."""
_MAX_QUERY, _MAX_QUERY_WORDS = 2_000, 64
"""So many characters of a query are looked at, and so many words of them."""
_SNIPPET = 160
_SNIPPET_SEARCH = 100_000
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
        self.pages: list[IndexedPage] = [known.get(id(page)) or _index_page(page) for page in pages]
        self._mean = sum(one.length for one in self.pages) / len(self.pages) if self.pages else 1.0

    def search(self, query: str, limit: int) -> list[tuple[Page, float]]:
        """The pages that have any of the words, best first; those whose type the query names come before all others."""
        wanted = list(dict.fromkeys(page_words(query[:_MAX_QUERY])))[:_MAX_QUERY_WORDS]
        scores: dict[int, float] = {}
        for word in wanted:
            holding = [place for place, one in enumerate(self.pages) if word in one.words]
            rarity = math.log(1 + (len(self.pages) - len(holding) + 0.5) / (len(holding) + 0.5))
            for place in holding:
                scores[place] = scores.get(place, 0.0) + rarity * self._strength(place, word)
        found = [(self.pages[place].page, score) for place, score in scores.items()]
        found.sort(key=lambda one: (not has_type(one[0], query), -one[1], one[0].path))
        return found[:limit]

    def _strength(self, place: int, word: str) -> float:
        one = self.pages[place]
        times = one.words[word]
        drag = _SATURATION * (1 - _LENGTH_PENALTY + _LENGTH_PENALTY * one.length / (self._mean or 1.0))
        return times * (_SATURATION + 1) / (times + drag)


def has_type(page: Page, name: str) -> bool:
    """Whether a page is of the type of that name; `Characters` names the type `character`."""
    return bool(page.type) and page_words(page.type) == page_words(name[:_MAX_QUERY])


def make_snippet(page: Page, query: str) -> str:
    """A line of the page around the first of the words, on one line."""
    wanted = set(page_words(query[:_MAX_QUERY]))
    text = " ".join(page.content[:_SNIPPET_SEARCH].split())
    begin = next((found.start() for found in _WORD.finditer(text) if wanted.intersection(page_words(found[0]))), 0)
    start = max(0, text.rfind(" ", 0, max(begin - _SNIPPET // 3, 0)) + 1)
    cut = text[start : start + _SNIPPET]
    return f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"


def page_words(text: str) -> list[str]:
    """The words of a text, without case, accents and the plural's s."""
    return _WORD.findall(_PLURAL.sub("", _fold(text)))


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    flat = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in flat if not unicodedata.combining(sign))


def _index_page(page: Page) -> IndexedPage:
    words = Counter(page_words(page.content))
    named = {
        "title": (page.title, *page.aliases),
        "slug": (page.slug,),
        "tags": page.tags,
        "type": (page.type,),
    }
    for name, texts in named.items():
        for word in page_words(" ".join(texts)):
            words[word] += _FIELD_WEIGHTS[name]
    return IndexedPage(page, words, words.total())


_MAX_SUGGESTIONS = 3
_MAX_COMPARED = 5_000
"""So many names are compared with one that no page has."""


class PageNames:
    """Some pages, sorted by path. No two have the same slug: of those that claim one, the first by path has it."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = _with_unique_slugs(pages)
        self._by_path = {page.path: page for page in self.pages}
        self._names: dict[str, Page] = {}
        for names in (_slugs, _paths, _stems, _titles, _aliases):
            for page in self.pages:
                for name in names(page):
                    self._names.setdefault(name.casefold(), page)

    def find(self, name: str) -> Page | None:
        """The page of that slug, else path, else file name, else title, else alias, in upper or lower case."""
        return self._names.get(" ".join(name.split()).casefold())

    def by_path(self, path: str) -> Page | None:
        """The page in exactly that file."""
        return self._by_path.get(path)

    def near(self, name: str) -> list[str]:
        """Slugs that are much like a name."""
        slugs = [page.slug for page in self.pages[:_MAX_COMPARED]]
        return get_close_matches(name[:200], slugs, n=_MAX_SUGGESTIONS, cutoff=0.4)


def _with_unique_slugs(pages: Sequence[Page]) -> tuple[Page, ...]:
    """The pages; one whose slug an earlier page has is called by its path."""
    taken: set[str] = set()
    apart: list[Page] = []
    for page in pages:
        slug = page.slug if page.slug.casefold() not in taken else page.path
        taken.add(slug.casefold())
        apart.append(page if slug == page.slug else replace(page, slug=slug))
    return tuple(apart)


def _slugs(page: Page) -> Iterable[str]:
    return (page.slug,)


def _paths(page: Page) -> Iterable[str]:
    return (page.path, page.path.rpartition(".")[0])


def _stems(page: Page) -> Iterable[str]:
    return (page.path.rpartition("/")[2].rpartition(".")[0],)


def _titles(page: Page) -> Iterable[str]:
    return (page.title,)


def _aliases(page: Page) -> Iterable[str]:
    return page.aliases
