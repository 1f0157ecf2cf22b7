"""Compare candidates with the message in detail, and turn the signals into a rank, a score and a decision."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array
from prowess.match.candidates import Candidates
from prowess.match.entry import PURPOSE_FIELDS
from prowess.match.lexicon import dot_products
from prowess.match.query import Query
from prowess.match.recommendation import FIELD_NAMES, Decision
from prowess.match.vectors.embedder import SCALE

_TRIGGER_FIELD = FIELD_NAMES.index("triggers")
_KEYWORD_FIELD = FIELD_NAMES.index("keywords")
_PURPOSE_FIELDS = np.array(PURPOSE_FIELDS)
_IDENTICAL = float(SCALE * SCALE)
"""How near a word is to itself. Nearness is counted in whole numbers, whose sums are exact in any order."""
_NOWHERE = 0xFFFF_FFFF
"""The place of a term that a segment has not."""

_PULL, _KIN, _WEIGHT, _THERE = range(4)
"""Sums over words: their nearness to the whole message by weight, to the nearest of its words by weight, the weights
alone, and how many of them the message has."""

WEIGHT_SCALE = 1_000
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


def compute_signals(query: Query, candidates: Candidates) -> list[Signals]:
    """Compare the message with each candidate, word by word and phrase by phrase."""
    if not len(candidates.documents):
        return []
    look = _Comparison(query, candidates)
    best = look.best_counterparts()
    columns = (
        candidates.lexical,
        candidates.cosine,
        query.rarity @ best / (_IDENTICAL * query.rarities),
        look.name_in_message(),
        look.nearest_phrase(),
        look.declared(),
        query.weight @ (best == _IDENTICAL) / WEIGHT_SCALE,
        look.lengths,
    )
    return list(map(Signals, *(column.tolist() for column in columns)))


class _Comparison:
    """The words of some candidates, one after the other, laid side by side with the message. Bodies are left out."""

    def __init__(self, query: Query, candidates: Candidates) -> None:
        segment, documents = candidates.segment, candidates.documents
        first, last = segment.phrase_start[documents], segment.said_end[documents]
        begin, end = segment.word_start[first], segment.word_start[last]
        phrases, said = _slices(first, last), _slices(begin, end)
        words = _concat_slices(segment.phrase_words, said)
        self.lengths = end - begin
        self._starts = self.lengths.cumsum() - self.lengths
        counts = last - first
        self._phrases = counts.cumsum() - counts
        self._fields = _concat_slices(segment.phrase_field, phrases)
        self._phrase_lengths = _concat_slices(segment.phrase_length, phrases)
        self._sizes = _concat_slices(segment.word_start[1:], phrases) - _concat_slices(segment.word_start, phrases)

        near = np.ascontiguousarray(dot_products(segment.word_vectors.take(words, axis=0), query.compared).T)
        terms = np.array([candidates.terms.get(term, _NOWHERE) for term in query.word_terms], np.uint32)
        self._to_words = np.maximum(near[1:], 0.0)
        np.putmask(self._to_words, segment.word_term.take(words) == terms[:, np.newaxis], _IDENTICAL)
        self._sums = self._by_phrase(near[0], segment.word_weight.take(words))

    def _by_phrase(self, to_message: Array, weight: Array) -> Figures:
        """Sums over the words of each phrase."""
        closest = np.maximum.reduce(self._to_words, initial=0.0)
        rows = np.empty((4, len(weight)))
        rows[_WEIGHT] = weight
        np.multiply(to_message, rows[_WEIGHT], out=rows[_PULL])
        np.multiply(closest, rows[_WEIGHT], out=rows[_KIN])
        rows[_THERE] = closest == _IDENTICAL
        return np.add.reduceat(rows, self._sizes.cumsum() - self._sizes, axis=1)

    def nearest_phrase(self) -> Figures:
        """The cosine of the phrase that is nearest to the message."""
        near = self._sums[_PULL] / np.maximum(self._phrase_lengths * float(SCALE), 1.0)
        near *= _PURPOSE_FIELDS[self._fields]
        return np.maximum(np.maximum.reduceat(near, self._phrases), 0.0)

    def best_counterparts(self) -> Figures:
        """How near each word of the message comes to some word of the candidate; a row for each word."""
        return np.maximum.reduceat(self._to_words, self._starts, axis=1).astype(np.float64)

    def name_in_message(self) -> Figures:
        """How near the words of its name come to words of the message, those that mean more before all."""
        # The name is a candidate's first phrase.
        name = self._sums[:, self._phrases]
        return name[_KIN] / np.maximum(name[_WEIGHT] * _IDENTICAL, 1.0)

    def declared(self) -> Figures:
        """How much of what its author declared is in the message: all telling words of a trigger phrase, or keywords.

        A phrase with one telling word counts half, and so does each keyword.
        """
        there = self._sums[_THERE]
        whole = (self._fields == _TRIGGER_FIELD) & (there == self._sizes)
        found = np.minimum(there / 2, 1.0) * (whole | (self._fields == _KEYWORD_FIELD))
        return np.maximum.reduceat(found, self._phrases)


def _slices(begins: Array, ends: Array) -> list[slice]:
    return list(map(slice, begins.tolist(), ends.tolist()))


def _concat_slices(values: Array, stretches: list[slice]) -> Array:
    """Several stretches of an array, one after the other."""
    return np.concatenate([values[stretch] for stretch in stretches])


LEXICAL_WEIGHT, COSINE_WEIGHT, COVERAGE_WEIGHT, NAME_WEIGHT, PHRASE_WEIGHT, DECLARED_WEIGHT = (
    8.0,
    4.0,
    4.0,
    1.0,
    5.0,
    0.5,
)
"""What a signal is worth in the ranking. Fitted on several kinds of messages, each left out in turn, and rounded."""

EXPLICIT_WEIGHT = 6.0
"""What it is worth that the message calls the skill by name, or fits one of its patterns; in the ranking these are first."""
_FIRST = 100.0

OFFER_SCORE, MAYBE_SCORE = 0.5, 0.2
"""From which score on a skill is worth offering, or at least a look."""

_STRONG = 8.0
_DIGITS = 4


def compute_rank(signals: Signals, *, explicit: bool) -> float:
    """The figure to rank by, rounded so that it is the same everywhere."""
    worth = (
        LEXICAL_WEIGHT * signals.lexical
        + COSINE_WEIGHT * signals.cosine
        + COVERAGE_WEIGHT * signals.coverage
        + NAME_WEIGHT * signals.name
        + PHRASE_WEIGHT * signals.phrase
        + DECLARED_WEIGHT * signals.declared
        + (_FIRST if explicit else 0.0)
    )
    return round(worth, 6)


def compute_score(signals: Signals, *, explicit: bool, verbatim: bool, unspaced: bool) -> float:
    """How likely the skill fits, from 0 to 1. `verbatim`: the message has a trigger phrase of it word for word.

    By absolute nearness and matched words, the more the skill says the more of both: fitted as a logistic regression on
    messages that have a fitting skill and on messages that have none. Where the vectors know nothing of meaning
    (`unspaced`), by how much of the message the skill has.
    """
    if unspaced:
        evidence = 6 * signals.lexical + 3 * signals.coverage - 2.2
    else:
        evidence = (
            4.1 * signals.cosine
            + 4.25 * signals.phrase
            + 0.63 * min(signals.strength, _STRONG)
            - 1.07 * math.log(3 + signals.length)
            - 1.83
        )
    evidence += (EXPLICIT_WEIGHT if explicit else 0.0) + 2 * (1.0 if verbatim else signals.declared)
    return round(1 / (1 + math.exp(-evidence)), _DIGITS)


def decide(score: float) -> Decision:
    """What to do with a skill of this score."""
    return "offer" if score >= OFFER_SCORE else "maybe" if score >= MAYBE_SCORE else "no"
