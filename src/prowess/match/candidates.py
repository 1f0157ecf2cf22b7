"""Select the few skills worth a closer look: those that share words with the message, and those near it in meaning.

A first pass scores every skill by its terms and by the signs of its vector. Full vectors are compared only for the best of
these, and the best of those are returned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import Array
from prowess.match.index import Index, LiveSegment
from prowess.match.query import RARE_PART, STRENGTH_UNIT, Query
from prowess.match.segment import FIELD_BITS, IMPACT_SCALE, Segment
from prowess.match.vectors.embedder import SCALE
from prowess.match.vectors.vector_table import sign_codes

SHORTLIST_SIZE = 128
"""At least this many full vectors are compared. Of the true first five among 5,765 skills, 64 lost 2.2 %, 128 lose 0.8 %."""
PART_WEIGHT = 0.6
"""The weight of the nearest part of a card, where the cosine of the whole card weighs 1."""
SENTENCE_GAIN, SENTENCE_SHARE = 0.6, 0.9
"""A skill gains this share of what 90 % of its similarity to one sentence is above that to the whole message.

The vector of a message with several requests resembles none of their skills. With all of the similarity to a sentence, skills
that fit the whole message would lose to those that resemble one of its sentences by chance."""
UNKNOWN_COSINE = 0.2
"""Assumed for a skill whose vectors are not computed yet, so that its words decide."""
# The cosine of two vectors is about this times the share of equal signs, counted from one half.
_COSINE_PER_SIGN = np.pi
# The codes are read in chunks of 256 KB.
_CHUNK = 1 << 15
# More maxima per wanted document give a bound closer to the exact one, and take longer to partition.
_MAXIMA = 6
# OpenBLAS starts threads for a product with a vector from 460,800 values on; below, this many at a time are the fastest.
_SMALL_PRODUCT = 1 << 16
_ALL_FIELDS = (1 << FIELD_BITS) - 1
_IMPACT_UNIT = float(STRENGTH_UNIT * IMPACT_SCALE)


class SharedTerms:
    """The terms that a skill shares with the message."""

    __slots__ = ("_declared", "_sizes", "fields")

    def __init__(self) -> None:
        self.fields: dict[int, int] = {}
        """For each term, in the order of the message, a bit for each field that has it."""
        self._declared = self._sizes = 0

    def add(self, term: int, marks: int) -> None:
        """Add a term with the marks of its posting."""
        self.fields[term] = marks & _ALL_FIELDS
        sizes = marks >> FIELD_BITS
        if sizes:
            self._declared += 1
            self._sizes |= sizes

    @property
    def may_be_declared(self) -> bool:
        """False if there are fewer terms than the shortest trigger phrase or keyword with one of them has."""
        shortest = self._sizes & -self._sizes  # the lowest bit
        return 0 < shortest.bit_length() <= self._declared


@dataclass(frozen=True, slots=True)
class Postings:
    """The postings of the message's terms in one segment, concatenated."""

    segment: Segment
    terms: list[int]
    begins: NDArray[np.int64]
    """Where the postings of each term start in the segment."""
    ends: NDArray[np.int64]
    documents: NDArray[np.uint32]

    @classmethod
    def of(cls, segment: Segment, query: Query, places: Mapping[int, int]) -> Postings:
        """Return the postings of a message's terms, given the positions of the terms in the segment."""
        terms = [term for term in query.strengths if term in places]
        chosen = np.array([places[term] for term in terms], np.int64)
        begins, ends = segment.posting_start.take(chosen), segment.posting_start.take(chosen + 1)
        documents = _concat(segment.postings, begins, ends)
        # In a damaged file: summing up would take the memory for as many documents.
        if documents.max(initial=0) >= max(segment.size, 1):
            raise IndexError("a posting of a document that does not exist")
        return cls(segment, terms, begins, ends, documents)

    def sum_impacts(self, query: Query) -> NDArray[np.float64]:
        """Return the sum of strength × impact for each document, in `_IMPACT_UNIT`s of BM25F."""
        # Strengths and impacts are integers, so that the sums are exact in any order.
        strengths = np.array([query.strengths[term] for term in self.terms], np.float64)
        amounts = np.repeat(strengths, self.ends - self.begins)
        amounts *= _concat(self.segment.impacts, self.begins, self.ends)
        sums: Array = np.bincount(self.documents, weights=amounts, minlength=self.segment.size)
        return sums

    def find_shared(self, documents: Array) -> list[SharedTerms]:
        """Return the terms that each document shares with the message."""
        is_wanted = np.zeros(self.segment.size, np.bool_)
        is_wanted[documents] = True
        places = is_wanted.take(self.documents).nonzero()[0]
        lasts = (self.ends - self.begins).cumsum()
        terms: Array = lasts.searchsorted(places, "right")
        # Where they are in the segment.
        source = places + (self.ends - lasts).take(terms)
        found = {document: SharedTerms() for document in documents.tolist()}
        marks = self.segment.posting_marks.take(source).tolist()
        named: list[int] = terms.tolist()
        for document, term, mark in zip(self.documents.take(places).tolist(), named, marks, strict=True):
            found[document].add(self.terms[term], mark)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents of one segment with their figures."""

    segment: Segment
    postings: Postings
    documents: NDArray[np.int64]
    lexical: NDArray[np.float64]
    """BM25F."""
    cosine: NDArray[np.float64]
    """The similarity of the whole card to the message."""
    part: NDArray[np.float64]
    """The similarity of its most similar part."""
    sentence: NDArray[np.float64]
    """What it gains because one sentence of the message is more similar than the whole."""
    compared: NDArray[np.bool_]
    """False if message or card have no vector, so that only words can be compared."""

    def only(self, chosen: Array) -> Candidates:
        """Return a selection by position."""
        if len(chosen) == len(self.documents):
            return self
        return Candidates(
            self.segment,
            self.postings,
            self.documents[chosen],
            self.lexical[chosen],
            self.cosine[chosen],
            self.part[chosen],
            self.sentence[chosen],
            self.compared[chosen],
        )

    def rank(self, query: Query) -> NDArray[np.float64]:
        """Return the value to rank by, without what the skill declares."""
        return self.cosine + PART_WEIGHT * self.part + self.sentence + query.lexical_weight * self.lexical


def can_compare(index: Index, query: Query) -> bool:
    """Return True if the message and some skill have a vector. If not, only skills with a word of the message are candidates."""
    return query.has_vector and any(part.has_vectors for part in index.parts)


def find_candidates(
    index: Index,
    query: Query,
    *,
    count: int,
    tags: Sequence[int] = (),
    pinned: Sequence[Collection[int]] = (),
    people_only: bool = False,
    by_words: bool = False,
) -> list[Candidates]:
    """Return the best `count` candidates and the `pinned` documents, one item per segment.

    With `people_only`, also skills that only people start. With `by_words`, only documents with a word of the message. The
    result does not depend on how skills are spread over segments; ties with the last candidate are included.
    """
    code = sign_codes(query.embedded[np.newaxis]) if can_compare(index, query) else None
    glances = [
        _FirstPass(part, query, code, terms, tags, people_only=people_only, by_words=by_words)
        for part, terms in zip(index.parts, query.places, strict=True)
    ]
    segments, most = [glance.segment for glance in glances], max(count, SHORTLIST_SIZE)
    places = [_top_places(glance.worth, most) for glance in glances]
    worths = [glance.worth[some] for glance, some in zip(glances, places, strict=True)]
    best = _select_best(places, worths, most, segments)
    seen = [glance.compared(some[mine]) for glance, some, mine in zip(glances, places, best, strict=True)]
    best = _select_best([some.documents for some in seen], [some.rank(query) for some in seen], count)
    seen = [some.only(mine) for some, mine in zip(seen, best, strict=True)]
    if any(pinned):
        return [glance.joined(some, named) for glance, some, named in zip(glances, seen, pinned, strict=True)]
    return seen


class _FirstPass:
    """The first-pass scores of a segment: terms and signs of vectors."""

    def __init__(
        self,
        part: LiveSegment,
        query: Query,
        code: NDArray[np.uint64] | None,
        terms: Mapping[int, int],
        tags: Sequence[int],
        *,
        people_only: bool,
        by_words: bool,
    ) -> None:
        self.segment = segment = part.segment
        self._vectors = part.vectors
        self._query = query
        self._postings = Postings.of(segment, query, terms)
        self._sums = self._postings.sum_impacts(query)
        self.worth = self._first_pass_scores(code)
        """The score of each document; 0 excludes it."""
        self._may, excluded = (part.ranked, part.unranked) if people_only else (part.offered, part.unoffered)
        if tags or by_words:
            self._may = self._may & segment.tagged_with(tags)
            if by_words:
                self._may &= self._sums > 0
            self.worth[~self._may] = 0
        elif len(excluded):
            self.worth[excluded] = 0

    def compared(self, documents: NDArray[np.int64]) -> Candidates:
        """Compare the full vectors of some documents; negative cosines become 0."""
        if not len(documents):
            # So in most segments of a few changed skills.
            none = np.zeros(0)
            return Candidates(self.segment, self._postings, documents, none, none, none, none, none.astype(np.bool_))
        cosine, part, sentence = np.empty(len(documents)), np.empty(len(documents)), np.zeros(len(documents))
        cosine.fill(UNKNOWN_COSINE)
        part.fill(UNKNOWN_COSINE)
        has = self._vectors.first.take(documents) >= 0 if self._query.has_vector else np.zeros(len(documents), np.bool_)
        if has.any():
            rows, starts = self._vectors.take(documents[has])
            vectors = np.concatenate((self._query.embedded[np.newaxis], self._query.sentences))
            near = np.maximum(_dot_products(rows, vectors) / float(SCALE * SCALE), 0.0)
            whole = near[starts[:-1]]
            near[starts[:-1]] = 0.0  # the whole card is not one of its parts
            parts = np.maximum.reduceat(near, starts[:-1], axis=0)
            cosine[has], part[has] = whole[:, 0], parts[:, 0]
            if len(vectors) > 1:
                alike = whole + PART_WEIGHT * parts
                most = SENTENCE_SHARE * alike[:, 1:].max(axis=1)
                sentence[has] = SENTENCE_GAIN * np.maximum(most - alike[:, 0], 0.0)
        lexical = self._sums.take(documents) / _IMPACT_UNIT
        return Candidates(self.segment, self._postings, documents, lexical, cosine, part, sentence, has)

    def joined(self, candidates: Candidates, pinned: Collection[int]) -> Candidates:
        """Return the candidates with the pinned documents that are allowed."""
        more = [place for place in pinned if self._may[place]]
        return self.compared(np.union1d(candidates.documents, more).astype(np.int64)) if more else candidates

    def _first_pass_scores(self, code: NDArray[np.uint64] | None) -> NDArray[np.float32]:
        """Return an estimate of the value to rank by, above 0 for each document; `code` are the signs of the message."""
        # Above 0, which excludes a document, also for the least similar one.
        worth = self._sums.astype(np.float32)
        worth *= np.float32(self._query.lexical_weight / _IMPACT_UNIT)
        if code is None:
            return worth
        unit = (1 + PART_WEIGHT) * _COSINE_PER_SIGN
        codes, bits = self._vectors.codes, self._vectors.dimensions
        for first in range(0, self.segment.size if bits else 0, _CHUNK):
            # In chunks, so that the scores and codes of one stay in the processor's cache.
            stretch = slice(first, first + _CHUNK)
            differing = np.bitwise_xor(codes[:, stretch], code)
            other = np.add.reduce(np.bitwise_count(differing), axis=0, dtype=np.uint16).astype(np.float32)
            other *= np.float32(-unit / bits)
            other += np.float32(unit)
            worth[stretch] += other
        absent = self._vectors.absent
        if len(absent):
            guess = unit / 2 + (1 + PART_WEIGHT) * UNKNOWN_COSINE
            worth[absent] = self._query.lexical_weight / _IMPACT_UNIT * self._sums[absent] + guess
        return worth


def find_rare(index: Index, query: Query) -> list[set[int]]:
    """Return the documents of each segment that have a rare word of the message.

    None if such words are only a small part of it.
    """
    found: list[set[int]] = [set() for _ in index.parts]
    if not query.rare or query.weigh(query.rare) < RARE_PART * query.total:
        return found
    for documents, part, places in zip(found, index.parts, query.places, strict=True):
        for place in [places[term] for term in query.rare if term in places]:
            first, last = part.segment.posting_start[place : place + 2].tolist()
            documents.update(part.segment.postings[first:last].tolist())
    return found


def _concat(array: Array, begins: Array, ends: Array) -> Array:
    slices = map(slice, begins.tolist(), ends.tolist())
    return np.concatenate([array[:0], *[array[some] for some in slices]])


def _dot_products(rows: NDArray[np.int8], vectors: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the dot products of every row with some vectors.

    The sums stay below 2²⁴, so they are exact in float32 in any order. Large inputs are multiplied in chunks too small for
    the BLAS library to start threads, which would take longer than the work, and then spin for longer than a match takes.
    """
    right = vectors.astype(np.float32).T
    portion = max(_SMALL_PRODUCT // max(right.size, 1), 16)
    found = np.empty((len(rows), right.shape[1]), np.float32)
    for first in range(0, len(rows), portion):
        found[first : first + portion] = rows[first : first + portion].astype(np.float32) @ right
    return found


def _top_places(worth: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the positions of the `count` highest scores above 0, with ties."""
    bound = _lower_bound(worth, count)
    places = (worth >= bound if bound > 0 else worth > 0).nonzero()[0]
    return places[_select_top(worth[places], count)] if len(places) > count else places


def _lower_bound(worth: NDArray[np.float32], count: int) -> float:
    """Return a score that at least `count` documents reach, and not many more.

    At least `count` chunk maxima reach it, and finding those is much faster than partitioning all scores.
    """
    width = _MAXIMA * count
    height = len(worth) // width
    if not height:
        return 0.0
    maxima = np.maximum.reduce(worth[: height * width].reshape(height, width))
    maxima.partition(-count)
    return float(maxima[-count])


def _select_top(figures: Array, count: int) -> Array:
    """Return the positions of the `count` highest scores, with ties."""
    ordered = figures.copy()
    ordered.partition(-count)
    return (figures >= ordered[-count]).nonzero()[0]


def _select_best(
    places: Sequence[Array], figures: Sequence[Array], count: int, segments: Sequence[Segment] = ()
) -> list[Array]:
    """Return which positions have the `count` highest scores over all segments, with ties.

    With `segments`, ties are broken by the hashes of slugs, so that no more than `count` are returned.
    """
    lengths = [len(some) for some in places]
    if sum(lengths) <= count:
        return [np.arange(length) for length in lengths]
    every = np.concatenate(figures)
    best = _select_top(every, count)
    if segments and len(best) > count:
        slugs = np.concatenate([segment.slugs[some] for segment, some in zip(segments, places, strict=True)])
        best = best[np.lexsort((slugs[best], -every[best]))[:count]]
    if len(lengths) == 1:
        return [best]
    best.sort()
    starts = list(accumulate(lengths, initial=0))
    cuts = best.searchsorted(starts).tolist()
    return [best[first:last] - start for first, last, start in zip(cuts, cuts[1:], starts, strict=False)]
