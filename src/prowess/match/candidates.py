"""Select the few skills worth a closer look: those that share words with the message, and those near it in meaning.

A first pass scores every skill by its terms and by the signs of its vector. Full vectors are compared only for the best of
these, and the best of those are returned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array
from prowess.match.index import Index, LiveSegment
from prowess.match.lexicon import dot_products
from prowess.match.query import Query
from prowess.match.segment import IMPACT_SCALE, Segment, sign_codes
from prowess.match.vectors.embedder import SCALE

SHORTLIST_SIZE = 64
"""At least this many full vectors are compared."""
_WORDS_WEIGHT = 0.8
"""The weight of all words in the first pass, where all signs of the vector weigh 1; close to their weight in the final score."""
_LEXICAL_WEIGHT, _COSINE_WEIGHT = 2.0, 1.0
"""The weights when full vectors are compared."""
# The codes are read in chunks of 256 KB.
_CHUNK = 1 << 15
# More maxima per wanted document give a bound closer to the exact one, and take longer to partition.
_MAXIMA = 6


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents of one segment with their lexical score and their cosine to the message."""

    segment: Segment
    terms: Mapping[int, int]
    """The positions of the message's terms in the segment, without those it lacks."""
    documents: NDArray[np.int64]
    lexical: NDArray[np.float64]
    cosine: NDArray[np.float64]

    def only(self, chosen: Array) -> Candidates:
        """Return a selection by position."""
        return Candidates(self.segment, self.terms, self.documents[chosen], self.lexical[chosen], self.cosine[chosen])


def find_candidates(
    index: Index,
    query: Query,
    *,
    count: int,
    tags: Sequence[int] = (),
    pinned: Sequence[Collection[int]] = (),
    by_words: bool = False,
) -> list[Candidates]:
    """Return the best `count` candidates and the `pinned` documents, one item per segment.

    With `by_words`, only documents with a word of the message. The result does not depend on how skills are spread over
    segments; ties with the last candidate are included.
    """
    glances = [
        _FirstPass(part, query, terms, tags, by_words=by_words)
        for part, terms in zip(index.parts, query.places, strict=True)
    ]
    segments, most = [glance.segment for glance in glances], max(count, SHORTLIST_SIZE)
    places = [_top_places(glance.worth, most) for glance in glances]
    worths = [glance.worth[some] for glance, some in zip(glances, places, strict=True)]
    best = _select_best(places, worths, most, segments)
    seen = [glance.compared(some[mine]) for glance, some, mine in zip(glances, places, best, strict=True)]
    figures = [_LEXICAL_WEIGHT * some.lexical + _COSINE_WEIGHT * some.cosine for some in seen]
    best = _select_best([some.documents for some in seen], figures, count)
    seen = [some.only(mine) for some, mine in zip(seen, best, strict=True)]
    if any(pinned):
        return [glance.joined(some, named) for glance, some, named in zip(glances, seen, pinned, strict=True)]
    return seen


class _FirstPass:
    """The first-pass scores of a segment: terms and signs of vectors."""

    def __init__(
        self, part: LiveSegment, query: Query, terms: Mapping[int, int], tags: Sequence[int], *, by_words: bool
    ) -> None:
        self.segment = segment = part.segment
        self._query = query
        self._terms = terms
        self._lexical = _lexical_scores(segment, query, terms)
        self._may = part.ranked & segment.tagged_with(tags) if tags else part.ranked
        if by_words:
            self._may = self._may & (self._lexical > 0)
        self.worth = _first_pass_scores(segment, query, self._lexical)
        """The score of each document; 0 excludes it."""
        if not self._may.all():
            self.worth[~self._may] = 0

    def compared(self, documents: NDArray[np.int64]) -> Candidates:
        """Compare the full vectors of some documents; negative cosines become 0."""
        near = dot_products(self.segment.vectors.take(documents, axis=0), self._query.embedded[np.newaxis])[:, 0]
        lexical = self._lexical[documents] / max(self._query.mass * IMPACT_SCALE, 1)
        cosine = np.maximum(near.astype(np.float64) / (SCALE * SCALE), 0.0)
        return Candidates(self.segment, self._terms, documents, lexical, cosine)

    def joined(self, candidates: Candidates, pinned: Collection[int]) -> Candidates:
        """Return the candidates with the pinned documents that are allowed."""
        more = [place for place in pinned if self._may[place]]
        return self.compared(np.union1d(candidates.documents, more).astype(np.int64)) if more else candidates


def _lexical_scores(segment: Segment, query: Query, places: Mapping[int, int]) -> NDArray[np.float64]:
    """Return the sum of strength × impact over the message's terms for each document, as integers."""
    documents: list[Array] = []
    amounts: list[Array] = []
    for term, strength in zip(query.terms, query.strengths, strict=True):
        place = places.get(term)
        if place is not None:
            first, last = segment.posting_start[place : place + 2].tolist()
            documents.append(segment.postings[first:last])
            amounts.append(segment.impacts[first:last] * np.float64(strength))
    if not documents:
        return np.zeros(segment.size)
    return np.bincount(np.concatenate(documents), np.concatenate(amounts), segment.size).astype(np.float64, copy=False)


def _first_pass_scores(segment: Segment, query: Query, lexical: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the first-pass score of each document: each equal sign counts 1."""
    # Inverted, so that XOR sets the bits of equal signs, which are then counted.
    wanted = ~sign_codes(query.embedded[np.newaxis])[:, 0]
    every = _WORDS_WEIGHT * 64 * len(wanted) / max(query.mass * IMPACT_SCALE, 1)
    worth = np.multiply(lexical, every, dtype=np.float32, casting="same_kind")
    # Without a vector (the embedder is unavailable, or knows no word of the message), signs mean nothing.
    if not np.count_nonzero(query.embedded):
        return worth
    for first in range(0, segment.size, _CHUNK):
        # In chunks, so that the scores and codes of one stay in the processor's cache.
        stretch = slice(first, first + _CHUNK)
        same = np.bitwise_count(segment.codes[0, stretch] ^ wanted[0])
        for signs, sought in zip(segment.codes[1:], wanted[1:], strict=True):
            same += np.bitwise_count(signs[stretch] ^ sought)
        worth[stretch] += same
    return worth


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
    ends = accumulate(lengths)
    return [
        best[(best >= end - length) & (best < end)] - (end - length) for end, length in zip(ends, lengths, strict=True)
    ]
