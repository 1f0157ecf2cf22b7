"""Of all skills the few worth a closer look: those with the message's words, and those near it in meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array, locate
from prowess.match.index import Index, Live
from prowess.match.lexicon import products
from prowess.match.query import Query
from prowess.match.segment import IMPACT, Segment, codes_of
from prowess.match.vectors.embedder import SCALE

SHORTLIST = 28
_WORDS, _SIGNS = 1024, 1280
"""What all of the message's words are worth at first glance, and all signs of its vector: about what the closer look
makes of them, in whole numbers."""
_BLOCK = 64
_STRETCH = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Some documents of one segment, with how much of the message's words each has, and how near it is in meaning."""

    part: Live
    documents: NDArray[np.int64]
    lexical: NDArray[np.float64]
    cosine: NDArray[np.float64]

    @property
    def segment(self) -> Segment:
        """Where they are from."""
        return self.part.segment


def find_candidates(
    index: Index,
    query: Query,
    *,
    count: int = SHORTLIST,
    tags: Sequence[int] = (),
    pinned: Sequence[Sequence[int]] = (),
    by_words: bool = False,
) -> list[Candidates]:
    """The candidates, by segment. `pinned` are documents to look at in any case, by segment.

    With `by_words`, only documents that have a word of the message.

    Which they are does not depend on how skills are spread over segments: equals are told apart by their slugs' numbers.
    """
    allowed = [part.ranked & part.segment.tagged_with(tags) if tags else part.ranked for part in index.parts]
    lexical = [_lexical(part.segment, query) for part in index.parts]
    if by_words:
        allowed = [may & (words > 0) for may, words in zip(allowed, lexical, strict=True)]
    glances = [
        _glance(part.segment, query, words, may) for part, words, may in zip(index.parts, lexical, allowed, strict=True)
    ]
    chosen = _best(index, glances, max(count, SHORTLIST))
    for at, places in enumerate(pinned):
        if places:
            wanted = [place for place in places if allowed[at][place]]
            chosen[at] = np.union1d(chosen[at], np.array(wanted, np.int64))
    return [
        Candidates(
            part=part,
            documents=places,
            lexical=words[places] / max(query.mass * IMPACT, 1),
            cosine=_cosines(part.segment.vectors[places], query.embedded),
        )
        for part, words, places in zip(index.parts, lexical, chosen, strict=True)
        if len(places)
    ]


def _lexical(segment: Segment, query: Query) -> NDArray[np.float64]:
    """How much of the message's terms each document has: the sum of strength × impact, in whole numbers."""
    places, there = locate(segment.terms, np.array(query.terms, np.uint64))
    documents: list[Array] = []
    amounts: list[Array] = []
    for place, strength, known in zip(places.tolist(), query.strengths, there.tolist(), strict=True):
        if known:
            first, last = segment.posting_start[place : place + 2].tolist()
            documents.append(segment.postings[first:last])
            amounts.append(segment.impacts[first:last] * np.float64(strength))
    if not documents:
        return np.zeros(segment.size)
    return np.bincount(np.concatenate(documents), np.concatenate(amounts), segment.size).astype(np.float64, copy=False)


def _glance(segment: Segment, query: Query, lexical: NDArray[np.float64], may: NDArray[np.bool_]) -> NDArray[np.int32]:
    """How good each document looks at first glance: by its words, and by the signs of its vector. 0: not to be chosen."""
    glance = (lexical * (_WORDS / max(query.mass * IMPACT, 1))).astype(np.int32)
    if query.embedded.any():
        wanted = codes_of(query.embedded[None])
        worth = _SIGNS // (64 * len(wanted))
        for first in range(0, segment.size, _STRETCH):
            # A stretch at a time, so that it stays in the processor's cache.
            stretch = slice(first, first + _STRETCH)
            different = np.bitwise_count(segment.codes[:, stretch] ^ wanted).sum(axis=0, dtype=np.int32)
            glance[stretch] += _SIGNS - worth * different
    if not may.all():
        glance[~may] = 0
    return glance


def _best(index: Index, scores: Sequence[Array], count: int) -> list[Array]:
    """The places of the highest scores over all segments, by segment; zero is never among them."""
    places = [_highest(score, count) for score in scores]
    if sum(map(len, places)) <= count:
        return places
    owner = np.repeat(np.arange(len(places)), [len(some) for some in places])
    value = np.concatenate([score[some] for score, some in zip(scores, places, strict=True)])
    slugs = np.concatenate([part.segment.slugs[some] for part, some in zip(index.parts, places, strict=True)])
    order = np.lexsort((slugs, -value))[:count]
    every = np.concatenate(places)
    return [every[order[owner[order] == at]] for at in range(len(places))]


def _highest(score: Array, count: int) -> Array:
    """The places of the `count` highest scores above zero, with all that equal the last of them."""
    blocks = len(score) // _BLOCK
    if blocks <= count:
        places = np.flatnonzero(score > 0)
    else:
        # The highest scores lie in the blocks with the highest maxima, which are far fewer to sort.
        maxima = score[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        least = max(np.partition(maxima, -count)[-count], 1)
        inside = (np.flatnonzero(maxima >= least)[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        places = np.concatenate([inside, np.arange(blocks * _BLOCK, len(score))])
        places = places[score[places] >= least]
    if len(places) > count:
        values = score[places]
        places = places[values >= np.partition(values, -count)[-count]]
    return places


def _cosines(vectors: NDArray[np.int8], message: NDArray[np.int8]) -> NDArray[np.float64]:
    """Cosines of whole skills with the message; not below 0."""
    return np.maximum(products(vectors, message[None])[:, 0].astype(np.float64) / (SCALE * SCALE), 0.0)
