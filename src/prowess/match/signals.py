"""A closer look at the candidates: figures for each, most of them from 0 (nothing) to about 1 (entirely)."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array, locate, stretches
from prowess.match.candidates import Candidates
from prowess.match.entry import SAYING
from prowess.match.lexicon import products
from prowess.match.query import Query
from prowess.match.recommendation import FIELD_NAMES
from prowess.match.segment import Segment
from prowess.match.vectors.embedder import SCALE

_TRIGGERS = FIELD_NAMES.index("triggers")
_KEYWORDS = FIELD_NAMES.index("keywords")
_DECLARING = np.array([name in ("triggers", "keywords") for name in FIELD_NAMES])
_SAYING = np.array(SAYING)
_SAME = float(SCALE * SCALE)
"""How near a word is to itself. Nearness is counted in whole numbers, whose sums are exact in any order."""

WEIGHT = 1_000
"""What a telling word weighs, more or less."""

Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """One figure a candidate, of each kind."""

    lexical: Figures
    """How much of the message's strongest terms the skill has, by how much it is about them."""
    cosine: Figures
    """How near the whole skill is to the message in meaning."""
    coverage: Figures
    """How well the words of the message find a counterpart in the skill, the rare ones before all."""
    name: Figures
    """How well the words of the skill's name find a counterpart in the message."""
    phrase: Figures
    """How near the nearest phrase of the skill is to the message in meaning."""
    declared: Figures
    """1 where the message has a trigger phrase of the skill or two of its keywords, ½ where it has one such word."""

    strength: Figures
    """How much the words of the message that the skill has mean together, by the weights of words in general."""
    length: Array
    """How many words the skill has to say about itself, its body aside."""

    def at(self, place: int) -> dict[str, float]:
        """The figures of one candidate, by name."""
        return {name: round(float(getattr(self, name)[place]), 4) for name in SIGNAL_NAMES}


SIGNAL_NAMES = tuple(item.name for item in fields(Signals))


def signals_of(query: Query, candidates: Candidates) -> Signals:
    """Compare the message with each candidate, word by word and phrase by phrase."""
    look = _Look.at(query, candidates)
    best = look.best_counterparts()
    return Signals(
        lexical=candidates.lexical,
        cosine=candidates.cosine,
        coverage=best @ query.rarity / max(_SAME * float(query.rarity.sum()), 1.0),
        name=look.name_in_message(),
        phrase=look.nearest_phrase(),
        declared=look.declared(),
        strength=(best == _SAME) @ query.weight / WEIGHT,
        length=look.lengths,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The phrases of some candidates, laid side by side with the message. Bodies are left out."""

    segment: Segment
    phrases: Array  # of all candidates, one after the other
    documents: Array  # where the phrases of each candidate begin in `phrases`
    begins: Array  # where the words of each phrase begin in `place`
    lengths: Array  # how many words each candidate has
    place: Array  # which of the distinct words stands where
    weight: Array  # by distinct word: how much it means
    to_message: Figures  # by distinct word: nearness to the whole message, times SCALE²
    to_words: Array  # by distinct word and word of the message: nearness, times SCALE²
    closest: Array  # by distinct word: nearness to the word of the message that is nearest

    @classmethod
    def at(cls, query: Query, candidates: Candidates) -> _Look:
        segment = candidates.segment
        first, last = segment.phrase_start[candidates.documents], segment.said_end[candidates.documents]
        phrases, documents = stretches(first, last)
        begin, end = segment.word_start[first], segment.word_start[last]
        where, starts = stretches(begin, end)
        words = segment.phrase_words[where]
        distinct, place = _distinct(words, len(segment.words))
        asked = np.concatenate([query.vector[None], query.vectors])
        near = products(segment.word_vectors[distinct], asked)
        to_words = np.maximum(near[:, 1:], 0)
        terms, known = locate(segment.terms, query.word_terms)
        to_words[(segment.word_term[distinct][:, None] == terms) & known] = _SAME
        return cls(
            segment=segment,
            phrases=phrases,
            documents=documents,
            begins=segment.word_start[phrases] - np.repeat(begin - starts, last - first),
            lengths=end - begin,
            place=place,
            weight=segment.word_weight[distinct],
            to_message=near[:, 0].astype(np.float64),
            to_words=to_words,
            closest=to_words.max(axis=1, initial=0.0).astype(np.float64),
        )

    def nearest_phrase(self) -> Figures:
        """The cosine of the phrase that is nearest to the message."""
        pull = np.add.reduceat((self.to_message * self.weight)[self.place], self.begins)
        near = pull / np.maximum(self.segment.phrase_length[self.phrases] * float(SCALE), 1.0)
        near *= _SAYING[self.segment.phrase_field[self.phrases]]
        return np.maximum(np.maximum.reduceat(near, self.documents), 0.0)

    def best_counterparts(self) -> Figures:
        """How near each word of the message comes to some word of the candidate."""
        best = np.maximum.reduceat(self.to_words[self.place], self.begins[self.documents], axis=0)
        return best.astype(np.float64)

    def name_in_message(self) -> Figures:
        """How near the words of its name come to words of the message, those that mean more before all."""
        # The name is a candidate's first phrase.
        near = np.add.reduceat((self.closest * self.weight)[self.place], self.begins)[self.documents]
        whole = np.add.reduceat(self.weight[self.place], self.begins, dtype=np.float64)[self.documents]
        return near / np.maximum(whole * _SAME, 1.0)

    def declared(self) -> Figures:
        """How much of what its author declared is in the message: all telling words of a trigger phrase, or keywords.

        A phrase with one telling word counts half, and so does each keyword.
        """
        field = self.segment.phrase_field[self.phrases]
        if not _DECLARING[field].any():
            return np.zeros(len(self.documents))
        there = np.add.reduceat((self.closest == _SAME)[self.place], self.begins, dtype=np.float64)
        whole = (field == _TRIGGERS) & (there == np.diff(self.begins, append=len(self.place)))
        found = np.where(whole | (field == _KEYWORDS), np.minimum(there / 2, 1.0), 0.0)
        return np.maximum.reduceat(found, self.documents)


def _distinct(numbers: Array, size: int) -> tuple[Array, Array]:
    """Which numbers below `size` there are, and which of them each is; faster than `np.unique`, which sorts."""
    there = np.zeros(size, np.bool_)
    there[numbers] = True
    distinct = np.flatnonzero(there)
    place = np.empty(size, np.int32)
    place[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, place[numbers]
