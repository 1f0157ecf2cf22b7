"""A closer look at the candidates: figures for each, most of them from 0 (nothing) to about 1 (entirely)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array
from prowess.match.candidates import Candidates
from prowess.match.entry import SAYING
from prowess.match.lexicon import products
from prowess.match.query import Query
from prowess.match.recommendation import FIELD_NAMES
from prowess.match.vectors.embedder import SCALE

_TRIGGERS = FIELD_NAMES.index("triggers")
_KEYWORDS = FIELD_NAMES.index("keywords")
_SAYING = np.array(SAYING)
_SAME = float(SCALE * SCALE)
"""How near a word is to itself. Nearness is counted in whole numbers, whose sums are exact in any order."""
_NOWHERE = 0xFFFF_FFFF
"""The place of a term that a segment has not."""

_PULL, _KIN, _WEIGHT, _THERE = range(4)
"""Sums over words: their nearness to the whole message by weight, to the nearest of its words by weight, the weights
alone, and how many of them the message has."""

WEIGHT = 1_000
"""What a telling word weighs, more or less."""

Figures = NDArray[np.float64]


class Signals(NamedTuple):
    """The figures of one candidate."""

    lexical: float
    """How much of the message's strongest terms the skill has, by how much it is about them."""
    cosine: float
    """How near the whole skill is to the message in meaning."""
    coverage: float
    """How well the words of the message find a counterpart in the skill, the rare ones before all."""
    name: float
    """How well the words of the skill's name find a counterpart in the message."""
    phrase: float
    """How near the nearest phrase of the skill is to the message in meaning."""
    declared: float
    """1 where the message has a trigger phrase of the skill or two of its keywords, ½ where it has one such word."""

    strength: float
    """How much the words of the message that the skill has mean together, by the weights of words in general."""
    length: int
    """How many words the skill has to say about itself, its body aside."""

    def rounded(self) -> dict[str, float]:
        """The figures by name, for people."""
        return {name: round(value, 4) for name, value in zip(self._fields, self, strict=True)}


def signals_of(query: Query, candidates: Candidates) -> list[Signals]:
    """Compare the message with each candidate, word by word and phrase by phrase."""
    if not len(candidates.documents):
        return []
    look = _Look(query, candidates)
    best = look.best_counterparts()
    columns = (
        candidates.lexical,
        candidates.cosine,
        query.rarity @ best / (_SAME * query.rarities),
        look.name_in_message(),
        look.nearest_phrase(),
        look.declared(),
        query.weight @ (best == _SAME) / WEIGHT,
        look.lengths,
    )
    return list(map(Signals, *(column.tolist() for column in columns)))


class _Look:
    """The words of some candidates, one after the other, laid side by side with the message. Bodies are left out."""

    def __init__(self, query: Query, candidates: Candidates) -> None:
        segment, documents = candidates.segment, candidates.documents
        first, last = segment.phrase_start[documents], segment.said_end[documents]
        begin, end = segment.word_start[first], segment.word_start[last]
        phrases, said = _slices(first, last), _slices(begin, end)
        words = _in_a_row(segment.phrase_words, said)
        self.lengths = end - begin
        self._starts = self.lengths.cumsum() - self.lengths
        counts = last - first
        self._phrases = counts.cumsum() - counts
        self._fields = _in_a_row(segment.phrase_field, phrases)
        self._phrase_lengths = _in_a_row(segment.phrase_length, phrases)
        self._sizes = _in_a_row(segment.word_start[1:], phrases) - _in_a_row(segment.word_start, phrases)

        near = np.ascontiguousarray(products(segment.word_vectors.take(words, axis=0), query.compared).T)
        terms = np.array([candidates.terms.get(term, _NOWHERE) for term in query.word_terms], np.uint32)
        self._to_words = np.maximum(near[1:], 0.0)
        np.putmask(self._to_words, segment.word_term.take(words) == terms[:, np.newaxis], _SAME)
        self._sums = self._by_phrase(near[0], segment.word_weight.take(words))

    def _by_phrase(self, to_message: Array, weight: Array) -> Figures:
        """Sums over the words of each phrase."""
        closest = np.maximum.reduce(self._to_words, initial=0.0)
        rows = np.empty((4, len(weight)))
        rows[_WEIGHT] = weight
        np.multiply(to_message, rows[_WEIGHT], out=rows[_PULL])
        np.multiply(closest, rows[_WEIGHT], out=rows[_KIN])
        rows[_THERE] = closest == _SAME
        return np.add.reduceat(rows, self._sizes.cumsum() - self._sizes, axis=1)

    def nearest_phrase(self) -> Figures:
        """The cosine of the phrase that is nearest to the message."""
        near = self._sums[_PULL] / np.maximum(self._phrase_lengths * float(SCALE), 1.0)
        near *= _SAYING[self._fields]
        return np.maximum(np.maximum.reduceat(near, self._phrases), 0.0)

    def best_counterparts(self) -> Figures:
        """How near each word of the message comes to some word of the candidate; a row for each word."""
        return np.maximum.reduceat(self._to_words, self._starts, axis=1).astype(np.float64)

    def name_in_message(self) -> Figures:
        """How near the words of its name come to words of the message, those that mean more before all."""
        # The name is a candidate's first phrase.
        name = self._sums[:, self._phrases]
        return name[_KIN] / np.maximum(name[_WEIGHT] * _SAME, 1.0)

    def declared(self) -> Figures:
        """How much of what its author declared is in the message: all telling words of a trigger phrase, or keywords.

        A phrase with one telling word counts half, and so does each keyword.
        """
        there = self._sums[_THERE]
        whole = (self._fields == _TRIGGERS) & (there == self._sizes)
        found = np.minimum(there / 2, 1.0) * (whole | (self._fields == _KEYWORDS))
        return np.maximum.reduceat(found, self._phrases)


def _slices(begins: Array, ends: Array) -> list[slice]:
    return list(map(slice, begins.tolist(), ends.tolist()))


def _in_a_row(values: Array, stretches: list[slice]) -> Array:
    """Several stretches of an array, one after the other."""
    return np.concatenate([values[stretch] for stretch in stretches])
