"""The matcher: an index that follows its catalog, with the queries `match`, `rank` and `search`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self

from prowess.errors import Invalid, Unavailable
from prowess.match.index import Index
from prowess.match.ranking import list_tagged, rank, search
from prowess.match.recommendation import Recommendation
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.embedder import Embedder, WordsOnly
from prowess.match.vectors.encoder import default_encoder

if TYPE_CHECKING:
    from prowess.catalog.catalog import CatalogChanges
    from prowess.catalog.store import SearchDocument

_log = logging.getLogger(__name__)

FRESHNESS_SECONDS = 1.0
"""How long the catalog is assumed to be unchanged after a check; changes made by this process are seen at once."""

_RETRY_SECONDS = 60.0
"""How long to wait before trying an unavailable embedder again; in the meantime, words alone decide."""
_SAVE_SECONDS = 60.0
"""The shortest time between snapshots if only positions changed, which they always do on a busy server."""

# The most missing vectors that a query computes itself, and how long it may take; more are left to the background.
IN_PLACE, IN_PLACE_SECONDS = 32, 0.15
PATIENT, PATIENT_SECONDS = 600, 2.0  # for a matcher whose first answer counts most, such as that of a command
BATCH = 64
"""The number of skills whose vectors are computed and kept at a time."""
_SHARE = 20
"""Checks take at most 1/20 of the time, however large the catalog is."""


class CatalogReader(Protocol):
    """The part of a catalog that the matcher needs."""

    def changes(self, since: Mapping[str, str]) -> CatalogChanges:
        """Return what changed since some positions."""
        ...

    def documents(
        self, slugs: Collection[str] | None = None, *, away: Callable[[str], None] = ...
    ) -> Iterator[SearchDocument]:
        """Yield the served skills with these slugs, or all."""
        ...

    def documents_at(self, key: str, locations: Collection[str]) -> list[SearchDocument]:
        """Return the valid skills at some paths of the store with this key."""
        ...

    def served(self) -> dict[str, tuple[str, str]]:
        """Return scope and digest of every served skill, by slug."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderUpdate:
    """The skills in folders that are new or changed, and the slugs of removed ones. `record` is b'' if they may still change."""

    documents: Sequence[SearchDocument]
    removed: Collection[str]
    record: bytes


class ChangeWatch(Protocol):
    """Detects cheaply, without opening a store, that nothing has changed."""

    def record(self) -> bytes:
        """Return a record of the state of all places, or b'' if it cannot be determined."""
        ...

    def holds(self, record: bytes) -> bool:
        """Return True if everything is as in the record."""
        ...

    def shared(self) -> bool:
        """Return True if the index may be saved: no skill is private to this process."""
        ...


class Matcher:
    """Finds skills for messages. Thread-safe; one thread at a time updates the index.

    `catalog` is called only when something may have changed: opening a catalog takes longer than matching. `cards` returns
    the store of vectors; the default keeps them in memory. `background` is called when many vectors are missing, to compute
    them elsewhere, and returns False if that is impossible; without it they stay missing until `prepare` is called. What
    changed is read inside `one_transaction`.
    """

    def __init__(
        self,
        catalog: Callable[[], CatalogReader],
        watch: ChangeWatch,
        *,
        snapshot: Snapshot | None = None,
        embedder: Callable[[], Embedder] = default_encoder,
        cards: Callable[[], CardVectors] | None = None,
        background: Callable[[], bool] | None = None,
        changed_folders: Callable[[SavedIndex], FolderUpdate | None] | None = None,
        one_transaction: Callable[[], AbstractContextManager[None]] = nullcontext,
        patient: bool = False,
        freshness: float = FRESHNESS_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._catalog, self._watch = catalog, watch
        self._snapshot = snapshot
        self._embedder = embedder
        self._open_cards = cards or (lambda: CardVectors(None, self._embedder()))
        self._cards: CardVectors | None = None
        self._background = background
        self._changed_folders = changed_folders
        self._one_transaction = one_transaction
        self._in_place, self._seconds = (PATIENT, PATIENT_SECONDS) if patient else (IN_PLACE, IN_PLACE_SECONDS)
        self._freshness = freshness
        self._clock, self._close = clock, close
        self._lock = threading.Lock()
        self._saved: SavedIndex | None = None
        self._due = self._save_again = float("-inf")
        self._retry = float("inf")
        self._news = self._seen = 0
        self._look_seconds, self._from_disk = 0.0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the catalog."""
        self._close()

    def match(
        self, message: str, *, limit: int = 5, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the skills worth offering for a message, best first; [] if none fits.

        `context` is the conversation before the message; it counts less than the message.
        """
        _check_arguments(message, limit, tags, context)
        return self._asked(lambda index: rank(index, message, limit=limit, tags=tags, context=context, fitting=True))

    def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the whole ranking, at most 1,000, including skills with the decision "no"."""
        _check_arguments(message, limit, tags, context)
        return self._asked(lambda index: rank(index, message, limit=limit, tags=tags, context=context))

    def search(
        self, query: str = "", *, limit: int = 20, tags: Collection[str] = (), people_only: bool = True
    ) -> list[Recommendation]:
        """Return skills that have a word of the query, best first; without a query, all skills with the tags, by slug.

        Unlike `match` and `rank`, also those that only people start, unless `people_only` is False.
        """
        _check_arguments(query, limit, tags)
        if not query.strip():
            return self._asked(lambda index: list_tagged(index, limit=limit, tags=tags, people_only=people_only))
        return self._asked(lambda index: search(index, query, limit=limit, tags=tags, people_only=people_only))

    def with_documents(self, documents: Iterable[SearchDocument]) -> Matcher:
        """Return a matcher with these skills added; they replace skills with the same slugs."""
        index = self.index()
        cards = index.cards.in_memory() if index.cards is not None else CardVectors(None, index.embedder)
        return Matcher.of(replace(index, cards=cards).updated(documents))

    @classmethod
    def of(cls, index: Index) -> Matcher:
        """Return a matcher over a fixed index."""
        matcher = cls(_no_catalog, _NothingChanges())
        matcher._saved = SavedIndex(index=index, positions={}, record=b"")
        matcher._due = float("inf")
        return matcher

    @property
    def away(self) -> list[str]:
        """The places that could not be read last time; their skills are not found."""
        saved = self._saved
        return sorted(key for key, position in saved.positions.items() if not position) if saved else []

    def look_again(self) -> None:
        """Make the next query check the catalog first, because something changed."""
        self._news += 1

    def _asked(self, question: Callable[[Index], list[Recommendation]]) -> list[Recommendation]:
        """Answer from the index; if it turns out to be damaged on disk, rebuild it and answer again."""
        index = self.index()
        try:
            return question(index)
        except (ValueError, IndexError, KeyError, TypeError, OverflowError):
            if not self._rebuilt(index):
                raise
        return question(self.index())

    def _rebuilt(self, index: Index) -> bool:
        """Replace an index that came from disk with a new one; return True if the index is another one now."""
        with self._lock:
            if self._saved is not None and self._saved.index is index:
                if not self._from_disk:
                    return False
                self._from_disk = False
                _log.warning("The index on disk is damaged. Rebuilding it.")
                self._saved = self._with_vectors(self._followed(None))
            return True

    def index(self) -> Index:
        """Return the current index."""
        saved = self._saved
        if saved is not None and self._seen == self._news and self._clock() < self._due:
            return saved.index
        with self._lock:
            # Checked again with the lock, because another thread may just have refreshed it.
            if self._saved is None or self._seen != self._news or self._clock() >= self._due:
                # Read before the refresh, so that no change is lost; stored after it, when the index is new.
                news = self._news
                self._saved, self._seen = self._with_vectors(self._refreshed(self._saved)), news
                self._due = self._clock() + max(self._freshness, _SHARE * self._look_seconds)
            return self._saved.index

    def _refreshed(self, saved: SavedIndex | None) -> SavedIndex:
        """Return the known or saved index, updated if something changed."""
        if self._clock() >= self._retry:
            # Drop the index that was made without the embedder, start from the one on disk, and try the embedder again.
            saved, self._retry = None, float("inf")
        if saved is None and self._snapshot is not None:
            saved = self._loaded(self._snapshot)
        if saved is not None and self._holds(saved):
            return saved
        return self._followed(saved)

    def prepare(self, seconds: float | None = None, *, step: Callable[[], None] = lambda: None) -> Index:
        """Return the current index after computing missing vectors, and leave to the background what takes longer than `seconds`.

        Without a background, all are computed. `step` is called after each batch; it may raise to stop. Raises `Unavailable`
        if the embedder does.
        """
        index = self.index()
        left = index.missing
        limit = float("inf") if seconds is None or self._background is None else self._clock() + seconds
        while index.cards is not None and left:
            index = index.with_all_vectors(index.cards, count=BATCH)
            self.look_again()
            step()
            if self._clock() >= limit or index.missing == left:
                break
            left = index.missing
        return self.index()

    def _with_vectors(self, saved: SavedIndex) -> SavedIndex:
        """Return the index with the vectors there are by now. Compute a few missing ones, leave many to the background."""
        index = saved.index
        if not index.missing:
            return saved
        try:
            cards = self._cards = self._cards or self._open_cards()
            # An index that was made while the embedder was unavailable has another one.
            if index.embedder.name != cards.embedder.name:
                return saved
            index = index.with_vectors(cards)
            if cards.folder is None:
                index = index.with_all_vectors(cards)
            elif index.missing and not self._is_left_to_background(index.missing):
                index = index.with_all_vectors(cards, count=self._in_place, seconds=self._seconds)
        except Unavailable as error:
            self._without_embedder(error)
            return saved
        return saved if index is saved.index else replace(saved, index=index)

    def _is_left_to_background(self, missing: int) -> bool:
        # Another process knows only skills in indexes that are saved.
        return missing > self._in_place and self._watch.shared() and (self._background is None or self._background())

    def _holds(self, saved: SavedIndex) -> bool:
        """Return True if nothing has changed, and remember how long the check took."""
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
        """Return an index updated from the catalog, or a new one, and save it."""
        found = self._with_changed_folders(saved) if saved is not None else None
        if found is not None:
            return found
        # Before the catalog is read: a change in between then differs from the record and is noticed next time.
        record = self._watch.record()
        catalog = self._catalog()
        away: list[str] = []
        # A transaction for each read would take as long as the reads. A whole catalog takes too long for one.
        with self._one_transaction() if saved else nullcontext():
            changes = catalog.changes(saved.positions if saved else {})
            index = self._updated(catalog, saved.index if saved else None, changes.slugs, away.append)
        positions = dict(changes.positions)
        positions.update(dict.fromkeys(away, ""))
        # Without a record while a store is away, so that the next check asks the catalog again.
        found = SavedIndex(index=index, positions=positions, record=b"" if "" in positions.values() else record)
        self._save(saved, found)
        return found

    def _with_changed_folders(self, saved: SavedIndex) -> SavedIndex | None:
        """Return an index with the few skills in folders that changed, and save it; None if the catalog must be asked."""
        # Skills that are private to this process are in no record.
        if self._changed_folders is None or not saved.record or not self._watch.shared():
            return None
        update = self._changed_folders(saved)
        if update is None:
            return None
        index = self._replaced(saved.index, update.documents, update.removed)
        found = replace(saved, index=index, record=update.record or saved.record)
        self._save(saved, found)
        return found

    def _save(self, before: SavedIndex | None, now: SavedIndex) -> None:
        """Save the index if that is worthwhile: not without the embedder's vectors, and not too often for new positions alone."""
        if self._snapshot is None or self._retry != float("inf") or not self._watch.shared():
            return
        if before is not None and before.index is now.index and not now.record and self._clock() < self._save_again:
            return
        self._save_again = self._clock() + _SAVE_SECONDS
        if now != before:
            self._snapshot.save(now)

    def _updated(
        self, catalog: CatalogReader, index: Index | None, slugs: Collection[str] | None, away: Callable[[str], None]
    ) -> Index:
        if index is None:
            return self._built(catalog, away)
        if slugs is None:
            known, served = index.known(), catalog.served()
            slugs = [slug for slug in {*known, *served} if known.get(slug) != served.get(slug)]
        documents = list(catalog.documents(slugs, away=away)) if slugs else []
        return self._replaced(index, documents, set(slugs) - {document.slug for document in documents})

    def _replaced(self, index: Index, documents: Sequence[SearchDocument], gone: Collection[str]) -> Index:
        if not documents and not gone:
            return index
        try:
            return index.updated(documents, gone)
        except Unavailable as error:
            self._without_embedder(error)
            return index.updated(documents, gone, blank=True)

    def _built(self, catalog: CatalogReader, away: Callable[[str], None]) -> Index:
        try:
            self._cards = self._cards or self._open_cards()
            return Index.build(catalog.documents(away=away), self._embedder(), cards=self._cards)
        except Unavailable as error:
            self._without_embedder(error)
            return Index.build(catalog.documents(away=away), WordsOnly(), cards=CardVectors(None, WordsOnly()))

    def _without_embedder(self, error: Unavailable) -> None:
        if self._retry == float("inf"):
            _log.warning("The embedder is unavailable, so skills are matched by words only: %s", error.message)
        self._retry = self._clock() + _RETRY_SECONDS


def _check_arguments(message: str, limit: int, tags: Collection[str], context: str = "") -> None:
    """Raise `Invalid` for a caller's mistake, which would otherwise look like a damaged index."""
    texts = (message, context, *tags) if isinstance(tags, Collection) and not isinstance(tags, str) else (None,)
    if not isinstance(limit, int) or not all(isinstance(text, str) for text in texts):
        raise Invalid("Message and context must be strings, limit an integer, and tags a collection of strings.")


def _no_catalog() -> CatalogReader:
    raise AssertionError("a fixed index has no catalog")


class _NothingChanges:
    """A watch over places that never change."""

    def record(self) -> bytes:
        return b""

    def holds(self, record: bytes) -> bool:  # noqa: ARG002
        return True

    def shared(self) -> bool:
        return False
