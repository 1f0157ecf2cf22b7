"""Compare candidates with the message in detail, and turn the signals into a rank, a score and a decision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from prowess.match.candidates import SharedTerms
from prowess.match.query import RARE_PART, Query
from prowess.match.recommendation import FIELD_NAMES
from prowess.match.segment import Segment

_TRIGGER_FIELD = FIELD_NAMES.index("triggers")
_KEYWORD_FIELD = FIELD_NAMES.index("keywords")
_BODY_BIT = 1 << FIELD_NAMES.index("body")
_KEYWORD_SHARE, _LEAST_TOTAL = 0.25, 0.1


class Signals(NamedTuple):
    """The signals of one candidate."""

    lexical: float
    """BM25F: the words of the message that the skill has, by rarity in this catalog."""
    cosine: float
    """The similarity of the whole skill to the message."""
    part: float
    """The similarity of its most similar sentence or trigger phrase."""
    sentence: float
    """What one sentence of the message adds to the cosine because it is more similar to the skill than the whole message."""
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


def compute_coverage(query: Query, shared: SharedTerms) -> float:
    """Return the weight of the message's words that a skill has outside its body, over the square root of the total."""
    said = [term for term, bits in shared.fields.items() if bits & ~_BODY_BIT]
    return query.weigh(said) / math.sqrt(max(query.total, 1.0))


def compute_rare(query: Query, shared: SharedTerms) -> float:
    """Return the share of the message in rare words that a skill has outside its body; 0 for less than `RARE_PART`."""
    said = [term for term in query.rare if shared.fields.get(term, 0) & ~_BODY_BIT]
    share = query.weigh(said) / max(query.total, _LEAST_TOTAL)
    return share if share >= RARE_PART else 0.0


def compute_declared(query: Query, segment: Segment, document: int) -> float:
    """Return how much of what a skill declares the message has."""
    first, last = segment.phrase_start[document : document + 2].tolist()
    ends = segment.word_start[first : last + 1].tolist()
    words = segment.phrase_words[ends[0] : ends[-1]]
    terms: Iterator[int] = iter(segment.terms.take(segment.word_term.take(words)).tolist())
    most = 0.0
    for field, begin, end in zip(segment.phrase_field[first:last].tolist(), ends, ends[1:], strict=False):
        phrase = list(islice(terms, end - begin))
        if field not in (_TRIGGER_FIELD, _KEYWORD_FIELD) or not all(term in query.weights for term in phrase):
            continue
        share = query.weigh(phrase) / max(query.total, _LEAST_TOTAL)
        worth = len(phrase) / 2 if field == _TRIGGER_FIELD else max(share, _KEYWORD_SHARE)
        most = max(most, min(worth, 1.0))
    return most


DECLARED_WEIGHT, RARE_WEIGHT = 0.2, 0.5
"""The weights of what a skill declares and of rare words in the ranking, where the cosine weighs 1."""
# More than all other weights together.
_FIRST = 100.0

_DIGITS = 4


def compute_rank(base: float, *, declared: float, rare: float, explicit: bool) -> float:
    """Return the value to rank by, rounded so that it is the same on every machine."""
    return round(base + DECLARED_WEIGHT * declared + RARE_WEIGHT * rare + (_FIRST if explicit else 0.0), 6)


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
        + weights.cosine * (signals.cosine + signals.sentence)
        + weights.part * signals.part
        + weights.coverage * min(signals.coverage, MAX_COVERAGE)
        + weights.lexical * math.log1p(signals.lexical)
        + weights.prior * signals.prior
        - CROWD_WEIGHT * math.log(max(crowd, SMALLEST_CROWD) / USUAL_CROWD)
        + max(DECLARED_SCORE * (1.0 if verbatim else signals.declared), RARE_SCORE * signals.rare)
        + (EXPLICIT_SCORE if explicit else 0.0)
    )
    return round(1 / (1 + math.exp(-evidence)), _DIGITS)
