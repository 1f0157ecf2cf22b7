"""The matcher: an index that follows its catalog, and the three questions that can be asked of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, Self

from prowess.errors import Unavailable
from prowess.match.index import Index
from prowess.match.lexicon import static_embedder
from prowess.match.ranking import list_tagged, rank
from prowess.match.recommendation import Recommendation
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.vectors.embedder import Embedder

if TYPE_CHECKING:
    from prowess.catalog.catalog import CatalogChanges
    from prowess.catalog.store import SearchDocument

_log = logging.getLogger(__name__)

FRESHNESS_SECONDS = 1.0
"""For so many seconds after a look at the catalog it is taken to be unchanged; changes made here count at once."""

_RETRY_SECONDS = 60.0
"""How long an embedder that was away is not asked for again; meanwhile words decide."""

_SAVE_SECONDS = 60.0
"""How often a snapshot is written of which only the positions changed, as those of a busy server always do."""

_SHARE = 20
"""Looking takes at most one part in this many of the time, however large the catalog is."""


class CatalogReader(Protocol):
    """What the matcher asks of a catalog."""

    def changes(self, since: Mapping[str, str]) -> CatalogChanges:
        """What changed since some positions."""
        ...

    def documents(
        self, slugs: Collection[str] | None = None, *, away: Callable[[str], None] = ...
    ) -> Iterator[SearchDocument]:
        """The skills that are served, of these slugs or all."""
        ...

    def served(self) -> dict[str, tuple[str, str]]:
        """Scope and digest of every skill that is served, by slug."""
        ...


class ChangeWatch(Protocol):
    """Tells cheaply, without opening any store, whether the places of a catalog are as they were."""

    def record(self) -> bytes:
        """All that stands in all places; b'' where that cannot be told."""
        ...

    def holds(self, record: bytes) -> bool:
        """Whether everything is as in the record."""
        ...

    def shared(self) -> bool:
        """Whether all skills may be known outside of this process, so that their index may be kept."""
        ...


class Matcher:
    """Finds skills for messages. Safe to use from many threads; a change is taken in by one of them.

    `catalog` is called when something may have changed, and not before: opening it takes longer than to match.
    """

    def __init__(
        self,
        catalog: Callable[[], CatalogReader],
        watch: ChangeWatch,
        *,
        snapshot: Snapshot | None = None,
        embedder: Callable[[], Embedder] = static_embedder,
        freshness: float = FRESHNESS_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._catalog = catalog
        self._watch = watch
        self._snapshot = snapshot
        self._embedder = embedder
        self._freshness = freshness
        self._clock = clock
        self._close = close
        self._lock = threading.Lock()
        self._saved: SavedIndex | None = None
        self._due = self._save_again = float("-inf")
        self._retry = float("inf")
        self._news = self._seen = 0
        self._look_seconds = 0.0
        self._from_disk = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the catalog."""
        self._close()

    def match(
        self, message: str, *, limit: int = 5, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The skills worth offering for a message, best first; none where none fits.

        `context` is what was said before: it helps to tell candidates apart and counts less than the message.
        """
        found = self.rank(message, limit=limit, tags=tags, context=context)
        return [one for one in found if one.decision != "no"]

    def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The whole ranking, with the decision "no" on what does not fit; at most 1,000."""
        _check_arguments(message, limit, tags)
        return self._asked(lambda index: rank(index, message, limit=limit, tags=tags, context=context))

    def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """What has anything of the query, best first; without one, all skills with the tags, by slug."""
        _check_arguments(query, limit, tags)
        if not query.strip():
            return self._asked(lambda index: list_tagged(index, limit=limit, tags=tags))
        ranked = self.rank(query, limit=limit, tags=tags)
        found = {one.slug: one for one in ranked if one.evidence or one.decision != "no"}
        if len(found) < limit:
            more = self._asked(lambda index: rank(index, query, limit=limit, tags=tags, by_words=True))
            found.update((one.slug, one) for one in more if one.slug not in found)
        return list(found.values())[:limit]

    def with_documents(self, documents: Iterable[SearchDocument]) -> Matcher:
        """A matcher over the same skills and these, which take the place of skills with the same slugs."""
        return Matcher.of(self.index().updated(documents))

    @classmethod
    def of(cls, index: Index) -> Matcher:
        """A matcher over an index that stays as it is."""
        matcher = cls(_no_catalog, _StaticWatch())
        matcher._saved = SavedIndex(index=index, positions={}, record=b"")
        matcher._due = float("inf")
        return matcher

    @property
    def away(self) -> list[str]:
        """The places that did not answer when the catalog was last looked at; their skills are not found."""
        saved = self._saved
        return sorted(key for key, position in saved.positions.items() if not position) if saved else []

    def look_again(self) -> None:
        """Something changed: the next question looks at the catalog first."""
        self._news += 1

    def _asked(self, question: Callable[[Index], list[Recommendation]]) -> list[Recommendation]:
        """Answer from the index; if that turns out to be damaged on disk, from one that is built anew."""
        index = self.index()
        try:
            return question(index)
        except (ValueError, IndexError, KeyError, TypeError, OverflowError):
            if not self._rebuilt(index):
                raise
        return question(self.index())

    def _rebuilt(self, index: Index) -> bool:
        """Put a new index in the place of one that came from disk; whether there is another one now."""
        with self._lock:
            if self._saved is not None and self._saved.index is index:
                if not self._from_disk:
                    return False
                self._from_disk = False
                _log.warning("The index on disk is damaged; it is built anew.")
                self._saved = self._followed(None)
            return True

    def index(self) -> Index:
        """The index of the catalog as it is."""
        saved = self._saved
        if saved is not None and self._seen == self._news and self._clock() < self._due:
            return saved.index
        with self._lock:
            if self._saved is None or self._seen != self._news or self._clock() >= self._due:
                self._seen = self._news
                self._saved = self._refreshed(self._saved)
                self._due = self._clock() + max(self._freshness, _SHARE * self._look_seconds)
            return self._saved.index

    def _refreshed(self, saved: SavedIndex | None) -> SavedIndex:
        """What holds now: the index that is known, or the snapshot, brought up to date where something changed."""
        if self._clock() >= self._retry:
            # What was made without the embedder gives way to what is on disk, and the embedder is asked again.
            saved, self._retry = None, float("inf")
        if saved is None and self._snapshot is not None:
            saved = self._loaded(self._snapshot)
        if saved is not None and self._holds(saved):
            return saved
        return self._followed(saved)

    def _holds(self, saved: SavedIndex) -> bool:
        """Whether all is as it was, and how long that took to tell."""
        began = self._clock()
        held = bool(saved.record) and self._watch.holds(saved.record)
        self._look_seconds = self._clock() - began
        return held

    def _loaded(self, snapshot: Snapshot) -> SavedIndex | None:
        try:
            saved = snapshot.load(self._embedder())
        except Unavailable as error:
            self._without_embedder(error)
            return None
        self._from_disk = saved is not None
        return saved

    def _followed(self, saved: SavedIndex | None) -> SavedIndex:
        """An index brought up to date with its catalog, and kept; a new one where there is none."""
        record = self._watch.record()
        catalog = self._catalog()
        changes = catalog.changes(saved.positions if saved else {})
        positions = dict(changes.positions)
        away: list[str] = []
        index = self._updated(catalog, saved.index if saved else None, changes.slugs, away.append)
        positions.update(dict.fromkeys(away, ""))
        found = SavedIndex(index=index, positions=positions, record=b"" if "" in positions.values() else record)
        if self._is_worth_saving(saved, found):
            self._save(found)
        return found

    def _save(self, found: SavedIndex) -> None:
        if self._snapshot is not None:
            self._snapshot.save(found)

    def _is_worth_saving(self, before: SavedIndex | None, now: SavedIndex) -> bool:
        """Whether the snapshot would gain: not by an index without its embedder, nor by a position alone, too often."""
        if self._snapshot is None or self._retry != float("inf") or not self._watch.shared():
            return False
        if before is not None and before.index is now.index and not now.record and self._clock() < self._save_again:
            return False
        self._save_again = self._clock() + _SAVE_SECONDS
        return now != before

    def _updated(
        self, catalog: CatalogReader, index: Index | None, slugs: Collection[str] | None, away: Callable[[str], None]
    ) -> Index:
        if index is None:
            return self._built(catalog, away)
        if slugs is None:
            known, served = index.known(), catalog.served()
            slugs = [slug for slug in {*known, *served} if known.get(slug) != served.get(slug)]
        if not slugs:
            return index
        documents = list(catalog.documents(slugs, away=away))
        gone = set(slugs) - {document.slug for document in documents}
        try:
            return index.updated(documents, gone)
        except Unavailable as error:
            self._without_embedder(error)
            return index.updated(documents, gone, blank=True)

    def _built(self, catalog: CatalogReader, away: Callable[[str], None]) -> Index:
        try:
            return Index.build(catalog.documents(away=away), self._embedder())
        except Unavailable as error:
            self._without_embedder(error)
            return Index.build(catalog.documents(away=away))

    def _without_embedder(self, error: Unavailable) -> None:
        if self._retry == float("inf"):
            _log.warning("Matching without the embedder that was asked for: %s", error.message)
        self._retry = self._clock() + _RETRY_SECONDS


def _check_arguments(message: str, limit: int, tags: Collection[str]) -> None:
    """Tell a caller's mistake from damage to the index."""
    if not isinstance(message, str) or not isinstance(limit, int) or isinstance(tags, str):
        raise TypeError("a message is text, a limit a whole number, and tags are a collection of texts")
    if not all(isinstance(tag, str) for tag in tags):
        raise TypeError("tags are texts")


def _no_catalog() -> CatalogReader:
    raise AssertionError("an index that stays as it is has no catalog")


class _StaticWatch:
    """Places in which nothing ever changes."""

    def record(self) -> bytes:
        return b""

    def holds(self, record: bytes) -> bool:  # noqa: ARG002
        return True

    def shared(self) -> bool:
        return False
