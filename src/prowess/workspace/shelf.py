"""Pages by every name that they go by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from prowess.workspace.page import Page

_NEAR = 3
_COMPARED = 5_000
"""So many names are compared with one that no page has."""


class Shelf:
    """Some pages, sorted by path. No two have the same slug: of those that claim one, the first by path has it."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = _apart(pages)
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
        slugs = [page.slug for page in self.pages[:_COMPARED]]
        return get_close_matches(name[:200], slugs, n=_NEAR, cutoff=0.4)


def _apart(pages: Sequence[Page]) -> tuple[Page, ...]:
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
