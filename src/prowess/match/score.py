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
"""The similarity of a word to itself. Similarities are integers, whose sums are exact in any order."""
_NOWHERE = 0xFFFF_FFFF
"""The position of a term that a segment lacks."""

_PULL, _KIN, _WEIGHT, _THERE = range(4)
"""Columns of sums over words: similarity to the whole message by weight, similarity to its nearest word by weight, weight,
and number of words that the message has."""

WEIGHT_SCALE = 1_000
"""About the weight of an informative word."""

Figures = NDArray[np.float64]


class Signals(NamedTuple):
    """The signals of one candidate, most of them from 0 to about 1."""

    lexical: float
    """The share of the message's strongest terms that the skill has, by impact."""
    cosine: float
    """The similarity of the whole skill to the message."""
    coverage: float
    """How well the words of the message are covered by words of the skill, weighted by rarity."""
    name: float
    """How well the words of the skill's name are covered by the message."""
    phrase: float
    """The similarity of the most similar phrase."""
    declared: float
    """1 if the message has a trigger phrase or two keywords of the skill, ½ for a single such word."""

    strength: float
    """The total general weight of the message's words that the skill has."""
    length: int
    """The number of words of the skill, without its body."""

    def rounded(self) -> dict[str, float]:
        """Return the rounded signals by name, for display."""
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
    """The words of candidates, without bodies, compared with the message."""

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
        # Words of the same stem count as identical, whatever their vectors are.
        np.putmask(self._to_words, segment.word_term.take(words) == terms[:, np.newaxis], _IDENTICAL)
        self._sums = self._by_phrase(near[0], segment.word_weight.take(words))

    def _by_phrase(self, to_message: Array, weight: Array) -> Figures:
        """Return sums over the words of each phrase."""
        closest = np.maximum.reduce(self._to_words, initial=0.0)
        rows = np.empty((4, len(weight)))
        rows[_WEIGHT] = weight
        np.multiply(to_message, rows[_WEIGHT], out=rows[_PULL])
        np.multiply(closest, rows[_WEIGHT], out=rows[_KIN])
        rows[_THERE] = closest == _IDENTICAL
        # `reduceat` gives a wrong value for an empty list, but entries have no empty phrases.
        return np.add.reduceat(rows, self._sizes.cumsum() - self._sizes, axis=1)

    def nearest_phrase(self) -> Figures:
        """Return the cosine of the phrase most similar to the message."""
        near = self._sums[_PULL] / np.maximum(self._phrase_lengths * float(SCALE), 1.0)
        near *= _PURPOSE_FIELDS[self._fields]
        return np.maximum(np.maximum.reduceat(near, self._phrases), 0.0)

    def best_counterparts(self) -> Figures:
        """Return the best similarity of each word of the message to a word of the candidate; one row per word."""
        return np.maximum.reduceat(self._to_words, self._starts, axis=1).astype(np.float64)

    def name_in_message(self) -> Figures:
        """Return the similarity of the name's words to words of the message, by weight."""
        # The name is a candidate's first phrase.
        name = self._sums[:, self._phrases]
        return name[_KIN] / np.maximum(name[_WEIGHT] * _IDENTICAL, 1.0)

    def declared(self) -> Figures:
        """Return how many declared phrases the message contains: all informative words of a trigger phrase, or keywords.

        A phrase with one informative word counts half, as does each keyword.
        """
        there = self._sums[_THERE]
        whole = (self._fields == _TRIGGER_FIELD) & (there == self._sizes)
        found = np.minimum(there / 2, 1.0) * (whole | (self._fields == _KEYWORD_FIELD))
        return np.maximum.reduceat(found, self._phrases)


def _slices(begins: Array, ends: Array) -> list[slice]:
    return list(map(slice, begins.tolist(), ends.tolist()))


def _concat_slices(values: Array, stretches: list[slice]) -> Array:
    """Return several slices of an array, concatenated."""
    return np.concatenate([values[stretch] for stretch in stretches])


LEXICAL_WEIGHT, COSINE_WEIGHT, COVERAGE_WEIGHT, NAME_WEIGHT, PHRASE_WEIGHT, DECLARED_WEIGHT = (
    8.0,
    4.0,
    4.0,
    1.0,
    5.0,
    0.5,
)
"""The weight of each signal in the ranking: fitted with leave-one-out over several kinds of messages, and rounded."""

EXPLICIT_WEIGHT = 6.0
"""The weight of a slug or pattern match in the score; in the ranking such skills come first anyway."""
# More than all other weights together.
_FIRST = 100.0

OFFER_SCORE, MAYBE_SCORE = 0.5, 0.2
"""The lowest scores for the decisions `offer` and `maybe`."""

# A limit, because this signal grows with the length of the message, not only with the fit.
_STRONG = 8.0
_DIGITS = 4


def compute_rank(signals: Signals, *, explicit: bool) -> float:
    """Return the value to rank by, rounded so that it is the same on every machine."""
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
    """Return the probability that the skill fits, from 0 to 1. `verbatim`: the message contains a trigger phrase literally.

    A logistic regression over similarity and matched words, both relative to how much the skill says, fitted on messages
    with and without a fitting skill. Where vectors carry no meaning (`unspaced`), it uses the share of matched words.
    """
    # Not the value to rank by: ordering skills and deciding whether any of them fits are two questions. As a detector,
    # a fusion of BM25 and cosine that ranked well had an AUROC of 0.32 to 0.87, the cosine alone 0.91 to 1.0.
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
    """Return the decision for a score."""
    return "offer" if score >= OFFER_SCORE else "maybe" if score >= MAYBE_SCORE else "no"
