"""A store in a database that is opened, and its code imported, only when the answer is not known without it.

SQLAlchemy takes longer to import than any other part of a short command, and most lookups end at a nearer store. A listing
is remembered between two processes, with the fingerprint of the SQLite file it was read from and a mark of the skills in
it: as long as nothing was written to the file, or nothing about skills, listing them needs no database either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from prowess.catalog.folder_cache import card_from_row, card_row
from prowess.catalog.store import Fault, Store
from prowess.skill.model import Scope, SkillCard
from prowess.skill.reader_version import reader_version
from prowess.storage.accepted import read_skills_mark
from prowess.storage.files.freshness import fingerprint_sqlite

if TYPE_CHECKING:
    from prowess.skill.outline import SkillOutline

_FORMAT = 2


class ListedState(NamedTuple):
    """The database as it was before a listing: the fingerprint of its file and the mark of its skills, each '' if unknown."""

    fingerprint: str
    mark: str


class ListingCache:
    """The cache file of one listing, below `folder`, which must not belong to the workspace.

    It holds cards, never the text of a skill. A file that is missing, damaged or of another version is ignored. Without
    `is_ours`, nothing is read from the database to find out whether it has changed.
    """

    def __init__(self, folder: Path, *, path: str, scope: Scope, organization: str, is_ours: bool = False) -> None:
        name = hashlib.sha256(f"{scope}\0{organization}\0{path}".encode(errors="surrogateescape")).hexdigest()[:20]
        self._file = folder / f"{name}.json"
        self._database = path
        self._scope: Scope = scope
        self._is_ours = is_ours
        self._key = [_FORMAT, reader_version(), scope, organization, path]

    def state(self) -> ListedState:
        """Return the state of the database, to be saved with a listing that is read after it."""
        return ListedState(fingerprint_sqlite(self._database), self._mark())

    def _mark(self) -> str:
        return read_skills_mark(self._database) if self._is_ours else ""

    def load(self) -> list[SkillCard] | None:
        """Return the saved listing, or None if there is none or the database was written to since."""
        try:
            rows = self._read()
            return None if rows is None else [card_from_row(self._scope, *row) for row in rows]
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def lacks(self, slug: str) -> bool:
        """Return True if the database certainly has no skill with this slug."""
        try:
            rows = self._read()
            return rows is not None and all(row[0] != slug for row in rows)
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return False

    def _read(self) -> list[Any] | None:
        key, fingerprint, mark, rows = json.loads(self._file.read_bytes())
        if key != self._key:
            return None
        # The fingerprint takes microseconds, so it is compared first.
        is_current = (fingerprint and fingerprint == fingerprint_sqlite(self._database)) or (
            mark and mark == self._mark()
        )
        return rows if is_current else None

    def save(self, state: ListedState, cards: list[SkillCard]) -> None:
        """Save a listing with the state from before it was read. A disk that is full or read-only is not an error."""
        from prowess.storage.files.cache_file import write_cache  # lazy: most commands save nothing

        rows = [[card.slug, card.digest, *card_row(card)] for card in cards]
        write_cache(self._file, json.dumps([self._key, *state, rows]))


class DeferredStore:
    """Answers a listing, and whether a skill is there, from the cache if it can, and passes everything else to the store that `open_store` returns.

    Use `deferred_store`: the methods of `Store` that are not written out here are those of the opened store.
    """

    frozen = False
    folder = ""

    def __init__(
        self, open_store: Callable[[], Store], *, scope: Scope, location: str, cache: Callable[[], ListingCache | None]
    ) -> None:
        self.scope: Scope = scope
        self.location = location
        self._open_store = open_store
        self._opened: Store | None = None
        self._find_cache = cache

    def list_skills(self) -> list[SkillCard]:
        """Return the cards of all skills, sorted by slug."""
        # Once the database is open, asking it is cheaper than keeping a file up to date.
        cache = self._find_cache() if self._opened is None else None
        if cache is None:
            return self._store.list_skills()
        saved = cache.load()
        if saved is not None:
            return saved
        before = cache.state()
        cards = self._store.list_skills()
        # Problems are read again by every process: they will be fixed, or reworded.
        if any(before) and not self._store.faults():
            cache.save(before, cards)
        return cards

    def get_outline(self, name: str) -> SkillOutline | None:
        """Return a skill by slug without content, or None. For most names that need no database: it lacks them."""
        cache = self._find_cache() if self._opened is None else None
        return None if cache is not None and cache.lacks(name) else self._store.get_outline(name)

    def faults(self) -> list[Fault]:
        """Return the faults as of the last listing. A listing with faults is never saved, so a saved one has none."""
        return self._opened.faults() if self._opened is not None else []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = self._open_store()
        return self._opened


def deferred_store(
    open_store: Callable[[], Store],
    *,
    scope: Scope,
    location: str,
    cache: Callable[[], ListingCache | None] = lambda: None,
) -> Store:
    """Return a store that calls `open_store` when it is needed for the first time. `cache` is asked until then."""
    return cast("Store", DeferredStore(open_store, scope=scope, location=location, cache=cache))
