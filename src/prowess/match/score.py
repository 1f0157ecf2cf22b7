"""Compare candidates with the message in detail, and turn the signals into a rank, a score and a decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import expand_slices
from prowess.match.candidates import Candidates
from prowess.match.query import RARE_PART, Query
from prowess.match.recommendation import FIELD_NAMES

_TRIGGER_FIELD = FIELD_NAMES.index("triggers")
_KEYWORD_FIELD = FIELD_NAMES.index("keywords")
_KEYWORD_SHARE, _LEAST_TOTAL = 0.25, 0.1
_NOWHERE = 0xFFFF_FFFF
"""The position of a term that a segment lacks."""

Figures = NDArray[np.float64]


class Signals(NamedTuple):
    """The signals of one candidate."""

    lexical: float
    """BM25F: the words of the message that the skill has, by rarity in this catalog."""
    cosine: float
    """The similarity of the whole skill to the message."""
    part: float
    """The similarity of its most similar sentence or trigger phrase."""
    coverage: float
    """The words of the message that the skill has, by general weight, over the square root of the weight of all."""
    declared: float
    """1 if the message has a trigger phrase of the skill, ½ for one of a single informative word; for a keyword, the share of
    the message that it makes up, at least ¼: a message that is a keyword gets 1."""
    rare: float
    """The share of the message that the skill has in words that few skills have; 0 for less than half."""
    prior: float
    """What the message alone adds: above 0 if such messages resemble even the right skill little, below 0 if they resemble
    many skills that do not fit. It is the same for all skills."""
    compared: bool
    """False if meaning could not be compared: `cosine` and `part` are assumed, and `prior` does not count."""

    def rounded(self) -> dict[str, float]:
        """Return the rounded signals by name, for display."""
        values = [round(value, 4) for value in self[:-1]]
        return dict(zip(self._fields, (*values, float(self.compared)), strict=True))


def compute_signals(query: Query, candidates: Candidates) -> list[Signals]:
    """Compare the message with each candidate, word by word and phrase by phrase."""
    size = len(candidates.documents)
    if not size:
        return []
    look = _Comparison(query, candidates)
    columns = (
        candidates.lexical.tolist(),
        candidates.cosine.tolist(),
        candidates.part.tolist(),
        look.coverage().tolist(),
        look.declared().tolist(),
        look.rare().tolist(),
        [query.prior] * size,
        candidates.compared.tolist(),
    )
    return list(map(Signals, *columns))


class _Comparison:
    """The words of candidates, without bodies, compared with the message."""

    def __init__(self, query: Query, candidates: Candidates) -> None:
        segment, documents = candidates.segment, candidates.documents
        first, last = segment.phrase_start.take(documents), segment.said_end.take(documents)
        phrases, self._phrases = expand_slices(first, last)
        words, self._starts = expand_slices(segment.word_start.take(first), segment.word_start.take(last))
        terms = segment.word_term.take(segment.phrase_words.take(words))
        wanted = np.array([candidates.terms.get(term, _NOWHERE) for term in query.word_terms], np.uint32)
        self._query = query
        self._found = terms == wanted[:, np.newaxis]
        """Which words of the candidates (columns) are which words of the message (rows)."""
        # `reduceat` gives a wrong value for an empty list, but every candidate has a name.
        self._has: Figures = np.logical_or.reduceat(self._found, self._starts, axis=1).astype(np.float64)
        """Which candidates (columns) have which words of the message (rows)."""
        self._fields = segment.phrase_field.take(phrases)
        self._sizes = segment.word_start.take(phrases + 1) - segment.word_start.take(phrases)

    def coverage(self) -> Figures:
        """Return the weight of the message's words that each candidate has, over the square root of the total."""
        return self._query.weight @ self._has / math.sqrt(max(self._query.total, 1.0))

    def rare(self) -> Figures:
        """Return the share of the message in rare words that each candidate has; 0 for less than `RARE_PART`."""
        if not self._query.rare.any():
            return np.zeros(len(self._starts))
        share = (self._query.weight * self._query.rare) @ self._has / max(self._query.total, _LEAST_TOTAL)
        return np.where(share >= RARE_PART, share, 0.0)

    def declared(self) -> Figures:
        """Return how much of what each candidate declares the message has."""
        begins = self._sizes.cumsum() - self._sizes
        is_found = np.logical_or.reduce(self._found, axis=0)
        is_whole = np.add.reduceat(is_found, begins, dtype=np.int64) == self._sizes
        is_whole &= (self._fields == _TRIGGER_FIELD) | (self._fields == _KEYWORD_FIELD)
        if not is_whole.any():
            return np.zeros(len(self._phrases))
        weights = np.max(self._found * self._query.weight[:, np.newaxis], axis=0, initial=0.0)
        share = np.add.reduceat(weights, begins) / max(self._query.total, _LEAST_TOTAL)
        phrase = (self._fields == _TRIGGER_FIELD) * np.minimum(self._sizes / 2, 1.0)
        keyword = (self._fields == _KEYWORD_FIELD) * np.clip(share, _KEYWORD_SHARE, 1.0)
        return np.maximum.reduceat(np.where(is_whole, np.maximum(phrase, keyword), 0.0), self._phrases)


DECLARED_WEIGHT, RARE_WEIGHT = 0.2, 0.5
"""The weights of what a skill declares and of rare words in the ranking, where the cosine weighs 1."""
# More than all other weights together.
_FIRST = 100.0

_DIGITS = 4


def compute_ranks(bases: Sequence[float], signals: Sequence[Signals], explicit: Sequence[bool]) -> list[float]:
    """Return the values to rank by, rounded so that they are the same on every machine."""
    return [
        round(base + DECLARED_WEIGHT * some.declared + RARE_WEIGHT * some.rare + (_FIRST if first else 0.0), 6)
        for base, some, first in zip(bases, signals, explicit, strict=True)
    ]


class Weights(NamedTuple):
    """The weights of signals in the score."""

    bias: float
    cosine: float
    part: float
    coverage: float
    lexical: float
    prior: float


BY_MEANING = Weights(bias=-6.1, cosine=8.2, part=3.1, coverage=0.6, lexical=0.45, prior=1.2)
BY_WORDS = Weights(bias=-4.15, cosine=0.0, part=0.0, coverage=2.6, lexical=1.6, prior=0.0)
"""Fitted with whole sets of messages left out; `benchmarks/calibration.py` prints the fit."""
CROWD_WEIGHT, USUAL_CROWD, SMALLEST_CROWD = 0.35, 170, 25
"""What a catalog with e times as many skills takes from the score: among many, one resembles any message by chance."""
MAX_COVERAGE = 1.5
DECLARED_SCORE, RARE_SCORE, EXPLICIT_SCORE = 4.0, 3.0, 8.0
"""What a declared word or phrase, a rare word, and a slug or a pattern in the message add to the score."""


def compute_score(signals: Signals, *, crowd: int, explicit: bool, verbatim: bool) -> float:
    """Return how likely the skill fits, from 0 to 1.

    `crowd` is the number of skills. `verbatim`: the message contains a trigger phrase literally. This is a logistic
    regression. Ordering skills and deciding whether any of them fits are two questions: it is not the value to rank by.
    """
    weights = BY_MEANING if signals.compared else BY_WORDS
    evidence = (
        weights.bias
        + weights.cosine * signals.cosine
        + weights.part * signals.part
        + weights.coverage * min(signals.coverage, MAX_COVERAGE)
        + weights.lexical * math.log1p(signals.lexical)
        + weights.prior * signals.prior
        - CROWD_WEIGHT * math.log(max(crowd, SMALLEST_CROWD) / USUAL_CROWD)
        + max(DECLARED_SCORE * (1.0 if verbatim else signals.declared), RARE_SCORE * signals.rare)
        + (EXPLICIT_SCORE if explicit else 0.0)
    )
    return round(1 / (1 + math.exp(-evidence)), _DIGITS)
