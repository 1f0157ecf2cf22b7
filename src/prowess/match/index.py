"""The index: segments that never change, and what of them still holds.

A change makes a new index that shares all but a little with the old one, so readers are never disturbed. Whatever the
way it came about, the same skills give the same answers: nothing here depends on the order or the age of segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import sort_unique
from prowess.match.entry import build_entries
from prowess.match.lexicon import Vocabulary, static_embedder
from prowess.match.merge import merge_segments
from prowess.match.segment import Segment, build_segment
from prowess.match.vectors.embedder import Embedder

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument

MAX_SEGMENTS = 8
"""More segments than this are merged into one beside the largest."""
MAX_DEAD_SHARE = 0.25
"""The largest segment is merged too when the changes since amount to this share of it."""
SEGMENT_SIZE = 5_000
"""So many skills are read and laid out at a time, which bounds the memory that building takes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveSegment:
    """A segment with what still holds of it: its documents, and how many of them have a term or a word."""

    segment: Segment
    alive: NDArray[np.bool_]
    term_count: NDArray[np.int32]
    word_count: NDArray[np.int32]

    @classmethod
    def whole(cls, segment: Segment) -> Self:
        """All of a segment."""
        return cls(
            segment=segment,
            alive=np.ones(segment.size, np.bool_),
            term_count=np.diff(segment.posting_start).astype(np.int32),
            word_count=segment.word_documents,
        )

    def without(self, documents: Collection[int]) -> Self:
        """The same with some documents gone."""
        if not documents:
            return self
        alive, terms, words = self.alive.copy(), self.term_count.copy(), np.array(self.word_count)
        for document in documents:
            alive[document] = False
            gone = self.segment.words_of(document)
            words[gone] -= 1
            terms[sort_unique(self.segment.word_term[gone])] -= 1
        return type(self)(segment=self.segment, alive=alive, term_count=terms, word_count=words)

    @cached_property
    def living(self) -> int:
        """How many documents are left."""
        return int(np.count_nonzero(self.alive))

    @cached_property
    def ranked(self) -> NDArray[np.bool_]:
        """Which documents may be recommended."""
        return self.alive & self.segment.ranks

    def find(self, slug: str) -> int | None:
        """The place of a skill that is still here."""
        place = self.segment.find(slug)
        return place if place is not None and self.alive[place] else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Index:
    """All skills of a catalog, ready to be ranked. Made by `build`, `updated` or from a snapshot."""

    parts: tuple[LiveSegment, ...]
    embedder: Embedder

    @classmethod
    def build(cls, documents: Iterable[SearchDocument], embedder: Embedder | None = None) -> Self:
        """Index documents; of several with one slug, the first counts."""
        chosen = embedder or static_embedder()
        portions = [LiveSegment.whole(segment) for segment in _build_segments(documents, chosen)]
        parts = (merge_segments(portions),) if len(portions) > 1 else tuple(part.segment for part in portions)
        return cls(parts=tuple(LiveSegment.whole(part) for part in parts), embedder=chosen)

    def updated(
        self, documents: Iterable[SearchDocument], removed: Collection[str] = (), *, blank: bool = False
    ) -> Self:
        """The index with some skills added or replaced, and others gone; of several with one slug, the first counts.

        With `blank` the embedder is not asked: the skills are found by their words alone.
        """
        new = list(_drop_duplicate_slugs(documents))
        slugs = {document.slug for document in new}
        parts = [self._without(part, slugs.union(removed)) for part in self.parts]
        embedder = _ZeroEmbedder(self.embedder.name, self.dimensions) if blank else self.embedder
        added = [LiveSegment.whole(segment) for segment in _build_segments(new, embedder)]
        parts += [LiveSegment.whole(merge_segments(added))] if len(added) > 1 else added
        return type(self)(parts=self._compacted([part for part in parts if part.living]), embedder=self.embedder)

    @property
    def dimensions(self) -> int:
        """How many numbers the vector of a skill has; known without asking the embedder."""
        return self.parts[0].segment.vectors.shape[1] if self.parts else 1

    @property
    def size(self) -> int:
        """How many skills there are."""
        return sum(part.living for part in self.parts)

    @property
    def digest(self) -> str:
        """What the catalog is known by: the same for the same skills, in whatever order they came."""
        sums = sum(
            (part.segment.keys[part.alive].sum(axis=0, dtype=np.uint64) for part in self.parts), np.zeros(4, np.uint64)
        )
        return hashlib.sha256(sums.astype("<u8").tobytes()).hexdigest()

    def known(self) -> dict[str, tuple[str, str]]:
        """Scope and digest of every skill, by slug."""
        found: dict[str, tuple[str, str]] = {}
        for part in self.parts:
            for place in np.flatnonzero(part.alive).tolist():
                shown = part.segment.shown(place)
                found[shown["slug"]] = (shown["scope"], shown["digest"])
        return found

    def count(self, term: int) -> int:
        """In how many skills a term is, by its number."""
        number = np.uint64(term)
        found = 0
        for part in self.parts:
            place = int(part.segment.terms.searchsorted(number))
            if place < len(part.segment.terms) and part.segment.terms[place] == number:
                found += int(part.term_count[place])
        return found

    def _without(self, part: LiveSegment, slugs: Collection[str]) -> LiveSegment:
        return part.without([place for slug in slugs if (place := part.find(slug)) is not None])

    def _compacted(self, parts: Sequence[LiveSegment]) -> tuple[LiveSegment, ...]:
        """Few segments: the small ones as one, and all as one when much has changed."""
        if len(parts) < 2:
            return tuple(parts)
        ordered = sorted(parts, key=lambda part: -part.segment.size)
        largest, rest = ordered[0], ordered[1:]
        changed = largest.segment.size - largest.living + sum(part.living for part in rest)
        if changed > MAX_DEAD_SHARE * largest.segment.size + MAX_SEGMENTS:
            return (LiveSegment.whole(merge_segments(parts)),)
        if len(parts) > MAX_SEGMENTS:
            return (largest, LiveSegment.whole(merge_segments(rest)))
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class _ZeroEmbedder:
    """Stands in for an embedder that is away."""

    name: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        return np.zeros((len(texts), self.dimensions), np.int8)


def _build_segments(documents: Iterable[SearchDocument], embedder: Embedder) -> Iterator[Segment]:
    """Segments of so many documents that building one bounds the memory that it takes."""
    vocabulary = Vocabulary()
    rest = _drop_duplicate_slugs(documents)
    while portion := list(islice(rest, SEGMENT_SIZE)):
        if vocabulary.is_full:
            vocabulary = Vocabulary()
        yield build_segment(build_entries(portion, vocabulary), embedder, vocabulary)


def _drop_duplicate_slugs(documents: Iterable[SearchDocument]) -> Iterator[SearchDocument]:
    """The documents without those whose slug came before."""
    seen: set[str] = set()
    for document in documents:
        if document.slug not in seen:
            seen.add(document.slug)
            yield document
