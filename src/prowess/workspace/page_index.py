"""Find pages by name and by words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from prowess.lazy_dataclass import dataclass
from prowess.workspace.pages import Page

_WORD = re.compile(r"[^\W_]+")
_PLURAL = re.compile(r"(?<=[^\W_]{2}[^\W_s])s(?![^\W_])")
_SATURATION, _LENGTH_PENALTY = 1.2, 0.75
"""The constants k1 and b of BM25: how fast repeated words stop adding, and how much long pages are penalized."""
_FIELD_WEIGHTS = {"title": 6, "slug": 3, "tags": 3, "type": 3}
"""The weight of a word by field; a word in the text has weight 1."""
_MAX_QUERY, _MAX_QUERY_WORDS = 2_000, 64
"""Longer queries are cut, so that no query takes long."""
_SNIPPET = 160
_SNIPPET_SEARCH = 100_000  # characters of a page that are searched for a snippet


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """A page with its weighted word counts, and their sum."""

    page: Page
    words: Counter[str]
    length: int


class PageIndex:
    """A word index of pages; entries of an earlier index are reused for pages that have not changed."""

    def __init__(self, pages: Sequence[Page], before: Sequence[IndexedPage] = ()) -> None:
        # By identity: the folder hands out the same object as long as a file does not change.
        known = {id(entry.page): entry for entry in before}
        self.pages: list[IndexedPage] = [known.get(id(page)) or _index_page(page) for page in pages]
        self._mean = sum(entry.length for entry in self.pages) / len(self.pages) if self.pages else 1.0

    def search(self, query: str, limit: int) -> list[tuple[Page, float]]:
        """Return pages with any of the words, best first; pages whose type is the query come before all others."""
        wanted = list(dict.fromkeys(page_words(query[:_MAX_QUERY])))[:_MAX_QUERY_WORDS]
        scores: dict[int, float] = {}
        for word in wanted:
            holding = [place for place, entry in enumerate(self.pages) if word in entry.words]
            rarity = math.log(1 + (len(self.pages) - len(holding) + 0.5) / (len(holding) + 0.5))
            for place in holding:
                scores[place] = scores.get(place, 0.0) + rarity * self._strength(place, word)
        found = [(self.pages[place].page, score) for place, score in scores.items()]
        found.sort(key=lambda hit: (not has_type(hit[0], query), -hit[1], hit[0].path))
        return found[:limit]

    def _strength(self, place: int, word: str) -> float:
        entry = self.pages[place]
        count = entry.words[word]
        length = 1 - _LENGTH_PENALTY + _LENGTH_PENALTY * entry.length / (self._mean or 1.0)
        return count * (_SATURATION + 1) / (count + _SATURATION * length)


def has_type(page: Page, name: str) -> bool:
    """Return True if the page has that type; `Characters` means the type `character`."""
    return bool(page.type) and page_words(page.type) == page_words(name[:_MAX_QUERY])


def make_snippet(page: Page, query: str) -> str:
    """Return an excerpt around the first matching word, on one line."""
    wanted = set(page_words(query[:_MAX_QUERY]))
    text = " ".join(page.content[:_SNIPPET_SEARCH].split())
    begin = next((found.start() for found in _WORD.finditer(text) if wanted.intersection(page_words(found[0]))), 0)
    start = max(0, text.rfind(" ", 0, max(begin - _SNIPPET // 3, 0)) + 1)
    cut = text[start : start + _SNIPPET]
    return f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"


def page_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents and plural s."""
    return _WORD.findall(_PLURAL.sub("", _fold(text)))


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


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


class PageNames:
    """Pages by every name they have. Slugs are unique: if several pages claim one, the first by path gets it."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = _with_unique_slugs(pages)
        self._by_path = {page.path: page for page in self.pages}
        self._names: dict[str, Page] = {}
        for names in (_slugs, _paths, _stems, _titles, _aliases):
            for page in self.pages:
                for name in names(page):
                    self._names.setdefault(name.casefold(), page)

    def find(self, name: str) -> Page | None:
        """Return the page with that slug, path, file name, title or alias (in this order), ignoring case, or None."""
        return self._names.get(" ".join(name.split()).casefold())

    def by_path(self, path: str) -> Page | None:
        """Return the page in exactly that file, or None."""
        return self._by_path.get(path)

    @property
    def slugs(self) -> list[str]:
        """The slugs of all pages."""
        return [page.slug for page in self.pages]


def _with_unique_slugs(pages: Sequence[Page]) -> tuple[Page, ...]:
    """Return the pages; one whose slug is taken by an earlier page gets its path as slug."""
    taken: set[str] = set()
    unique: list[Page] = []
    for page in pages:
        slug = page.slug if page.slug.casefold() not in taken else page.path
        taken.add(slug.casefold())
        unique.append(page if slug == page.slug else replace(page, slug=slug))
    return tuple(unique)


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
