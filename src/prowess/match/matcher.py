"""The matcher: an index that follows its catalog, and the three questions that can be asked of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, Self

from prowess.catalog.document import Document
from prowess.errors import Unavailable
from prowess.match.index import Index
from prowess.match.lexicon import static
from prowess.match.ranking import listed, rank
from prowess.match.recommendation import Recommendation
from prowess.match.snapshot import Saved, Snapshot
from prowess.match.vectors.embedder import Embedder

if TYPE_CHECKING:
    from prowess.catalog.catalog import CatalogChanges

log = logging.getLogger(__name__)

FRESHNESS = 1.0
"""For so many seconds after a look at the catalog it is taken to be unchanged; changes made here count at once."""

_SHARE = 20
"""Looking takes at most one part in this many of the time, however large the catalog is."""


class Cards(Protocol):
    """What the matcher asks of a catalog."""

    def changes(self, since: Mapping[str, str]) -> CatalogChanges:
        """What changed since some positions."""
        ...

    def documents(
        self, slugs: Collection[str] | None = None, *, away: Callable[[str], None] = ...
    ) -> Iterator[Document]:
        """The skills that are served, of these slugs or all."""
        ...

    def served(self) -> dict[str, tuple[str, str]]:
        """Scope and digest of every skill that is served, by slug."""
        ...


class Watch(Protocol):
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
        catalog: Callable[[], Cards],
        watch: Watch,
        *,
        snapshot: Snapshot | None = None,
        embedder: Callable[[], Embedder] = static,
        freshness: float = FRESHNESS,
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
        self._saved: Saved | None = None
        self._due = float("-inf")

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
        """The whole ranking, with the decision "no" on what does not fit."""
        return self._asked(lambda index: rank(index, message, limit=limit, tags=tags, context=context))

    def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """What has anything of the query, best first; without one, all skills with the tags, by slug."""
        if not query.strip():
            return self._asked(lambda index: listed(index, limit=limit, tags=tags))
        ranked = self.rank(query, limit=limit, tags=tags)
        found = {one.slug: one for one in ranked if one.evidence or one.decision != "no"}
        if len(found) < limit:
            more = self._asked(lambda index: rank(index, query, limit=limit, tags=tags, by_words=True))
            found.update((one.slug, one) for one in more if one.slug not in found)
        return list(found.values())[:limit]

    def with_documents(self, documents: Iterable[Document]) -> Matcher:
        """A matcher over the same skills and these, which take the place of skills with the same slugs."""
        return Matcher.of(self.index().updated(documents))

    @classmethod
    def of(cls, index: Index) -> Matcher:
        """A matcher over an index that stays as it is."""
        matcher = cls(_never, _Still())
        matcher._saved = Saved(index=index, positions={}, record=b"")
        matcher._due = float("inf")
        return matcher

    def look_again(self) -> None:
        """Something changed: the next question looks at the catalog first."""
        self._due = float("-inf")

    def _asked(self, question: Callable[[Index], list[Recommendation]]) -> list[Recommendation]:
        """Answer from the index; if that turns out to be damaged on disk, from one that is built anew."""
        try:
            return question(self.index())
        except (ValueError, IndexError, KeyError, TypeError):
            if self._snapshot is None:
                raise
            log.warning("The index on disk is damaged; it is built anew.")
            with self._lock:
                self._saved = self._followed(None)
            return question(self.index())

    def index(self) -> Index:
        """The index of the catalog as it is."""
        saved = self._saved
        if saved is not None and self._clock() < self._due:
            return saved.index
        with self._lock:
            if self._saved is None or self._clock() >= self._due:
                began = self._clock()
                self._due = float("inf")
                try:
                    self._saved = self._refreshed(self._saved)
                finally:
                    now = self._clock()
                    if self._due == float("inf"):
                        self._due = now + max(self._freshness, _SHARE * (now - began))
            return self._saved.index

    def _refreshed(self, saved: Saved | None) -> Saved:
        """What holds now: the index that is known, or the snapshot, brought up to date where something changed."""
        if saved is None and self._snapshot is not None:
            saved = self._loaded(self._snapshot)
        if saved is not None and saved.record and self._watch.holds(saved.record):
            return saved
        return self._followed(saved)

    def _loaded(self, snapshot: Snapshot) -> Saved | None:
        """The snapshot of the embedder that was asked for; while that is away, one that was made without it."""
        try:
            return snapshot.load(self._embedder())
        except Unavailable as error:
            _tell(error)
            return snapshot.load(static())

    def _followed(self, saved: Saved | None) -> Saved:
        """An index brought up to date with its catalog, and kept; a new one where there is none."""
        record = self._watch.record()
        catalog = self._catalog()
        changes = catalog.changes(saved.positions if saved else {})
        positions = dict(changes.positions)
        away: list[str] = []
        index = self._updated(catalog, saved.index if saved else None, changes.slugs, away.append)
        positions.update(dict.fromkeys(away, ""))
        found = Saved(index=index, positions=positions, record=b"" if "" in positions.values() else record)
        if self._snapshot is not None and found != saved and self._watch.shared():
            self._snapshot.save(found)
        return found

    def _updated(
        self, catalog: Cards, index: Index | None, slugs: Collection[str] | None, away: Callable[[str], None]
    ) -> Index:
        if index is None:
            return self._built(catalog, away)
        if slugs is None:
            known, served = index.known(), catalog.served()
            slugs = [slug for slug in {*known, *served} if known.get(slug) != served.get(slug)]
        if not slugs:
            return index
        documents = list(catalog.documents(slugs, away=away))
        try:
            return index.updated(documents, set(slugs) - {document.slug for document in documents})
        except Unavailable as error:
            _tell(error)
            return Index.build(catalog.documents(away=away))

    def _built(self, catalog: Cards, away: Callable[[str], None]) -> Index:
        try:
            return Index.build(catalog.documents(away=away), self._embedder())
        except Unavailable as error:
            _tell(error)
            return Index.build(catalog.documents(away=away))


def _tell(error: Unavailable) -> None:
    log.warning("Matching without the embedder that was asked for: %s", error.message)


def _never() -> Cards:
    raise AssertionError("an index that stays as it is has no catalog")


class _Still:
    """Places in which nothing ever changes."""

    def record(self) -> bytes:
        return b""

    def holds(self, record: bytes) -> bool:  # noqa: ARG002
        return True

    def shared(self) -> bool:
        return False
