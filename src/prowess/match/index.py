"""The index: immutable segments, and which of their documents are still live.

An update returns a new index that shares most segments with the old one, so readers are never disturbed. The same skills
give the same answers however the index came about: nothing depends on the order or the age of segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.match.arrays import sort_unique
from prowess.match.card import card_of
from prowess.match.entry import read_entries
from prowess.match.lexicon import Vocabulary, Word, hash_words
from prowess.match.merge import merge_segments
from prowess.match.recommendation import FIELD_NAMES
from prowess.match.segment import Segment, build_segment
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.embedder import Embedder
from prowess.match.vectors.encoder import default_encoder
from prowess.match.vectors.vector_table import VectorRows, VectorTable, find_rows

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument

MAX_SEGMENTS = 8
"""If there are more segments, small ones are merged."""
MAX_DEAD_SHARE = 0.25
"""The largest segment is merged, too, when this share of it has changed."""
_FEW_SLUGS = 20
"""Up to this many slugs are looked up one by one, each in a pass over all of them."""
_NAME_BIT = 1 << FIELD_NAMES.index("name")
SEGMENT_SIZE = 5_000
"""The number of skills indexed at a time, which bounds the memory of a build."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveSegment:
    """A segment, the mask of its live documents, and how many of them have each term and word."""

    segment: Segment
    alive: NDArray[np.bool_]
    term_count: NDArray[np.int32]
    word_count: NDArray[np.int32]
    vectors: VectorRows
    """Where the vectors of its documents are, as far as they are computed."""

    @classmethod
    def whole(cls, segment: Segment) -> Self:
        """Return a segment with all documents live, and without vectors."""
        return cls(
            segment=segment,
            alive=np.ones(segment.size, np.bool_),
            term_count=np.diff(segment.posting_start).astype(np.int32),
            word_count=segment.word_documents,
            vectors=find_rows((), segment.vector_keys),
        )

    def without(self, documents: Collection[int]) -> Self:
        """Return a copy with some documents dead."""
        if not documents:
            return self
        # Copies, because other indexes share these arrays, and those of a snapshot are read-only.
        alive, terms, words = self.alive.copy(), self.term_count.copy(), np.array(self.word_count)
        for document in documents:
            alive[document] = False
            gone = self.segment.words_of(document)
            words[gone] -= 1
            # A document counts once for a term, even if several of its words have that stem.
            terms[sort_unique(self.segment.word_term[gone])] -= 1
        return replace(self, alive=alive, term_count=terms, word_count=words)

    def with_vectors(self, tables: tuple[VectorTable, ...]) -> Self:
        """Return a copy with the vectors that are in some tables; itself if it lacks none."""
        # A card has the same vector in every table, so a part that lacks none need not look again, unless one of its tables
        # was merged into another: holding on to it would keep its memory.
        if not len(self.missing) and {*map(id, self.vectors.tables)} <= {*map(id, tables)}:
            return self
        return replace(self, vectors=find_rows(tables, self.segment.vector_keys))

    @cached_property
    def living(self) -> int:
        """The number of live documents."""
        return int(np.count_nonzero(self.alive))

    @cached_property
    def missing(self) -> NDArray[np.int64]:
        """The live documents whose vectors are not computed yet."""
        return np.flatnonzero(self.vectors.missing & self.alive)

    @cached_property
    def has_vectors(self) -> bool:
        """True if a live document has vectors."""
        return bool((self.alive & (self.vectors.first >= 0)).any())

    @cached_property
    def ranked(self) -> NDArray[np.bool_]:
        """The mask of documents that searches may find."""
        return self.alive & self.segment.ranks

    @cached_property
    def offered(self) -> NDArray[np.bool_]:
        """The mask of documents that may be recommended for a message."""
        return self.alive & self.segment.offers

    @cached_property
    def unranked(self) -> NDArray[np.int64]:
        """The documents that searches may not find."""
        return np.flatnonzero(~self.ranked)

    @cached_property
    def unoffered(self) -> NDArray[np.int64]:
        """The documents that may not be recommended for a message."""
        return np.flatnonzero(~self.offered)

    def find(self, slug: str) -> int | None:
        """Return the position of a live skill, or None."""
        place = self.segment.find(slug)
        return place if place is not None and self.alive[place] else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Index:
    """All skills of a catalog, ready to be ranked. Made by `build`, `updated`, or loaded from a snapshot."""

    parts: tuple[LiveSegment, ...]
    embedder: Embedder
    cards: CardVectors | None = None
    """The vectors that the parts were looked up in."""
    tables: tuple[VectorTable, ...] | None = None
    """Their tables at that time."""
    meanings: dict[str, list[Word]] = field(default_factory=dict[str, list[Word]], init=False, repr=False)
    """A cache: the known words that unknown words of messages may mean."""

    @classmethod
    def build(
        cls, documents: Iterable[SearchDocument], embedder: Embedder | None = None, *, cards: CardVectors | None = None
    ) -> Self:
        """Index documents; of several with the same slug, the first wins.

        With `cards`, vectors are looked up there and none are computed. Without, all are computed and kept in memory.
        """
        chosen = embedder or default_encoder()
        # In portions, which bounds the memory, and merged into one segment, which is faster to rank.
        portions = [LiveSegment.whole(segment) for segment in _build_segments(documents)]
        parts = (merge_segments(portions),) if len(portions) > 1 else tuple(part.segment for part in portions)
        index = cls(parts=tuple(LiveSegment.whole(part) for part in parts), embedder=chosen)
        return index.with_vectors(cards) if cards is not None else index.with_all_vectors(CardVectors(None, chosen))

    def updated(
        self, documents: Iterable[SearchDocument], removed: Collection[str] = (), *, blank: bool = False
    ) -> Self:
        """Return an index with skills added, replaced and removed; of several with the same slug, the first wins.

        With `blank`, the embedder is not used: the new skills are found by their words alone.
        """
        new = list(_drop_duplicate_slugs(documents))
        slugs = {document.slug for document in new}
        parts = [self._without(part, slugs.union(removed)) for part in self.parts]
        added = [LiveSegment.whole(segment) for segment in _build_segments(new)]
        parts += [LiveSegment.whole(merge_segments(added))] if len(added) > 1 else added
        parts = self._compacted([part for part in parts if part.living])
        updated = type(self)(parts=parts, embedder=self.embedder, cards=self.cards)
        if self.cards is None:
            return updated
        # Vectors in memory are computed now: the background process writes only to a folder.
        if self.cards.folder is None and not blank:
            self.cards.add([card for part in added for card in _missing_cards(part)])
        return updated.with_vectors(self.cards)

    def with_vectors(self, cards: CardVectors) -> Self:
        """Return an index with the vectors computed by now; itself if there are no new ones."""
        tables = cards.tables()
        if self.tables is tables:
            return self
        return replace(self, parts=tuple(part.with_vectors(tables) for part in self.parts), cards=cards, tables=tables)

    def with_all_vectors(self, cards: CardVectors, *, count: int | None = None, seconds: float | None = None) -> Self:
        """Return an index with all vectors, after computing those that are missing.

        At most `count` are computed, for about `seconds`. Raises `Unavailable` if the embedder does.
        """
        cards.add(list(islice(self.with_vectors(cards).missing_cards(), count)), seconds=seconds)
        return self.with_vectors(cards)

    def with_vectors_of(self, slugs: Iterable[str], *, seconds: float) -> Self:
        """Return an index with the vectors of some skills, computing those that are missing for about `seconds`.

        If the embedder is unavailable, they stay missing.
        """
        if self.cards is None:
            return self
        found = ((part, place) for slug in slugs for part in self.parts if (place := part.find(slug)) is not None)
        lacking = [card_of(part.segment.shown(place)) for part, place in found if part.vectors.missing[place]]
        with suppress(Unavailable):
            self.cards.add(lacking, seconds=seconds)
        return self.with_vectors(self.cards)

    @property
    def missing(self) -> int:
        """The number of skills whose vectors are not computed yet; they are compared by words only."""
        return sum(len(part.missing) for part in self.parts)

    def missing_cards(self) -> Iterator[list[str]]:
        """Yield the cards of the skills whose vectors are not computed yet."""
        for part in self.parts:
            yield from _missing_cards(part)

    @property
    def size(self) -> int:
        """The number of skills."""
        return sum(part.living for part in self.parts)

    @property
    def digest(self) -> str:
        """A digest of the indexed skills, independent of their order."""
        # A sum of hashes does not depend on the order or on the segments.
        sums = sum(
            (part.segment.keys[part.alive].sum(axis=0, dtype=np.uint64) for part in self.parts), np.zeros(4, np.uint64)
        )
        return hashlib.sha256(sums.astype("<u8").tobytes()).hexdigest()

    def known(self) -> dict[str, tuple[str, str]]:
        """Return scope and digest of every skill, by slug."""
        found: dict[str, tuple[str, str]] = {}
        for part in self.parts:
            for place in np.flatnonzero(part.alive).tolist():
                shown = part.segment.shown(place)
                found[shown["slug"]] = (shown["scope"], shown["digest"])
        return found

    def at(self, location: str) -> dict[str, Any] | None:
        """Return the public fields of the skill at a path, or None."""
        for part in self.parts:
            for place in part.segment.find_location(location):
                if part.alive[place]:
                    return part.segment.shown(place)
        return None

    def has(self, slug: str) -> bool:
        """Return True if there is a skill with this slug."""
        return any(part.find(slug) is not None for part in self.parts)

    def count(self, term: int) -> int:
        """Return the number of skills with a term."""
        number = np.uint64(term)
        found = 0
        for part in self.parts:
            place = int(part.segment.terms.searchsorted(number))
            if place < len(part.segment.terms) and part.segment.terms[place] == number:
                found += int(part.term_count[place])
        return found

    def has_name(self, word: Word) -> bool:
        """Return True if a skill has this word, or another form of it, in its name."""
        number = np.uint64(word.term)
        for part in self.parts:
            segment = part.segment
            place = int(segment.terms.searchsorted(number))
            if place < len(segment.terms) and segment.terms[place] == number:
                postings = slice(*segment.posting_start[place : place + 2].tolist())
                is_named = segment.posting_marks[postings] & _NAME_BIT != 0
                if part.alive[segment.postings[postings][is_named]].any():
                    return True
        return False

    def _without(self, part: LiveSegment, slugs: Collection[str]) -> LiveSegment:
        if len(slugs) <= _FEW_SLUGS:
            return part.without([place for slug in slugs if (place := part.find(slug)) is not None])
        is_named = np.isin(part.segment.slugs, hash_words(list(slugs)))
        places = np.flatnonzero(is_named & part.alive).tolist()
        return part.without([place for place in places if part.segment.shown(place)["slug"] in slugs])

    def _compacted(self, parts: Sequence[LiveSegment]) -> tuple[LiveSegment, ...]:
        """Merge small segments into one, and all of them if much has changed."""
        if len(parts) < 2:
            return tuple(parts)
        ordered = sorted(parts, key=lambda part: -part.segment.size)
        largest, rest = ordered[0], ordered[1:]
        changed = largest.segment.size - largest.living + sum(part.living for part in rest)
        # The constant keeps a small catalog from being merged again at every change.
        if changed > MAX_DEAD_SHARE * largest.segment.size + MAX_SEGMENTS:
            return (LiveSegment.whole(merge_segments(parts)),)
        if len(parts) <= MAX_SEGMENTS:
            return tuple(parts)
        # The smallest half, and each next one that is not larger than those before it together: a skill is then copied a
        # number of times that grows only with the logarithm of the number of changes.
        kept = len(ordered) // 2
        while kept > 1 and ordered[kept - 1].segment.size <= sum(part.segment.size for part in ordered[kept:]):
            kept -= 1
        return (*ordered[:kept], LiveSegment.whole(merge_segments(ordered[kept:])))


def _build_segments(documents: Iterable[SearchDocument]) -> Iterator[Segment]:
    """Yield segments of limited size."""
    vocabulary = Vocabulary()
    rest = _drop_duplicate_slugs(documents)
    while portion := list(islice(rest, SEGMENT_SIZE)):
        if vocabulary.is_full:
            vocabulary = Vocabulary()
        yield build_segment(read_entries(portion, vocabulary), vocabulary)


def _missing_cards(part: LiveSegment) -> Iterator[list[str]]:
    for place in part.missing.tolist():
        yield card_of(part.segment.shown(place))


def _drop_duplicate_slugs(documents: Iterable[SearchDocument]) -> Iterator[SearchDocument]:
    """Yield the documents whose slug has not occurred before."""
    seen: set[str] = set()
    for document in documents:
        if document.slug not in seen:
            seen.add(document.slug)
            yield document
