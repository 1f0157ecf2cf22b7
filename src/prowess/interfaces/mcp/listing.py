"""Which skills are in reach, listed anew only after the catalog has moved on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from prowess.catalog.catalog import Catalog, CatalogChanges
from prowess.catalog.store import Store
from prowess.errors import ProwessError
from prowess.interfaces.mcp.entry import Entry, namespaces
from prowess.skill.model import SkillCard

Served = Mapping[str, tuple[Store, SkillCard]]
"""The skills that are served, by slug: the store that keeps each, and its card."""

MOST_REMEMBERED = 10_000


class Listing:
    """Remembers what is served, and the entries that were made of it, for as long as they hold.

    `moves` counts how often the catalog was seen to have moved on, and `cost` is the processor time, in seconds, of the
    last look that found it where it was.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = asyncio.Lock()
        self._positions: Mapping[str, str] = {}
        self._served: Served = {}
        self._entries: dict[str, Entry] = {}
        self._is_listed = False
        self.moves = 0
        self.cost = 0.0

    @property
    def remembered(self) -> Served:
        """What was served when it was last listed."""
        return self._served

    @property
    def entries(self) -> dict[str, Entry]:
        """The entries that hold; after a move it is another one, so that what is made of older files is forgotten."""
        return self._entries

    async def look(self) -> int:
        """Look where the catalog stands, and give the `moves`."""
        async with self._lock:
            await self._look()
            return self.moves

    async def served(self) -> Served:
        """What is served now."""
        async with self._lock:
            await self._look()
            if not self._is_listed:
                self._served = await asyncio.to_thread(_served, self._catalog)
                self._is_listed = True
            return self._served

    def remember(self, entries: dict[str, Entry], made: Mapping[str, Entry]) -> None:
        """Keep what was made, in the `entries` of the time when the making began."""
        if len(entries) + len(made) <= MOST_REMEMBERED:
            entries.update(made)

    async def _look(self) -> None:
        found, cost = await asyncio.to_thread(self._measured, self._positions)
        if found.positions != self._positions:
            self.moves += 1
        else:
            self.cost = cost
        if found.positions != self._positions or "" in found.positions.values():
            # A store that does not answer has no position, and may have anything when it does.
            self._is_listed = False
            self._entries = _still_good(self._entries, found.slugs)
        self._positions = found.positions

    def _measured(self, since: Mapping[str, str]) -> tuple[CatalogChanges, float]:
        began = time.thread_time()
        return self._catalog.changes(since), time.thread_time() - began


def _served(catalog: Catalog) -> Served:
    """What the catalog serves: of each slug the first in the order of the stores. Blocking."""
    found: dict[str, tuple[Store, SkillCard]] = {}
    for store in catalog.stores():
        try:
            cards = store.list_skills()
        except (ProwessError, OSError):
            continue
        for card in cards:
            found.setdefault(card.slug, (store, card))
    return dict(sorted(found.items()))


def _still_good(entries: dict[str, Entry], changed: frozenset[str] | None) -> dict[str, Entry]:
    """The entries without those that changed; the place of a skill depends on those that would enclose it, too."""
    if changed is None:
        return {}
    return {
        slug: entry for slug, entry in entries.items() if slug not in changed and changed.isdisjoint(namespaces(slug))
    }
