"""A message made ready to be asked: its words, how much each counts, and what it may have meant by those unknown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.match.arrays import Array
from prowess.match.index import Index
from prowess.match.lexicon import DIMENSIONS, Word, lexicon, sum_of
from prowess.match.repair import meanings_of
from prowess.match.words import is_unspaced, words_of

LONGEST_MESSAGE = 20_000
"""Of a longer message the middle is left out: what is asked stands at its beginning or its end."""
MOST_WORDS = 4_000
MOST_CONTEXT = 200
"""Of what was said before, the last so many words."""
STRONGEST_TERMS = 200
"""Of a long message only so many terms are looked for, the rarest ones."""
CLOSEST_WORDS = 64
"""Of a long message only so many words are compared one by one, the rarest ones."""
TELLING_TERMS = 6
"""A skill that has this many of the strongest terms has all that a message can ask for."""
UNIT = 16
"""Weights of terms are whole numbers of this part of a unit of rarity."""

_K3 = 1.0
_REPAIRED = 0.7
_CONTEXT = 0.3
_MOST_REPAIRED_WORDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked. `words` and all arrays that follow it up to `weight` have a place for each distinct word."""

    message: str
    words: tuple[str, ...]
    word_terms: Array
    vectors: NDArray[np.int8]
    rarity: NDArray[np.float64]
    """How rare each word is among the skills, in thousandths: whole numbers."""
    weight: NDArray[np.int64]
    """How much each word means in general."""
    terms: list[int]
    """The terms to look for, the strongest first: those of the message, repaired ones, and some of the context."""
    strengths: list[int]
    mass: int
    """The strongest terms together."""
    meant: dict[int, str]
    """Which word of the message each term stands for; '' for context."""
    vector: NDArray[np.int8]
    """The sum of its words, for comparing it with phrases."""
    unspaced: bool
    """Whether it is mostly Chinese, Japanese or Korean, of which the vectors only tell what is the same."""
    embedded: NDArray[np.int8]
    """The message as the index's embedder sees it, for comparing it with whole skills."""


def ask(index: Index, message: str, context: str = "") -> Query:
    """Read a message against an index. Anything is a message; one without words finds nothing."""
    message, context = _ends(message), context[-LONGEST_MESSAGE:]
    counts = Counter(words_of(message)[:MOST_WORDS])
    size = index.size
    terms = _Terms(index, size)
    said = [
        terms.understood(word, known, counts[word])
        for word, known in zip(counts, lexicon().words(list(counts)), strict=True)
    ]
    before = terms.around(words_of(context)[-MOST_CONTEXT:]) if context.strip() else []
    strongest = terms.strongest()
    vectors = np.array([known.vector for known in said], np.int8).reshape(-1, DIMENSIONS)
    weights = np.array([known.weight for known in said], np.int64)
    rarity = [terms.rarity(known.term) for known in said]
    chosen = _rarest(rarity)
    return Query(
        message=message,
        words=tuple(counts),
        word_terms=np.array([said[place].term for place in chosen], np.uint64),
        vectors=vectors[chosen],
        rarity=np.array([round(1000 * rarity[place]) for place in chosen], np.float64),
        weight=weights[chosen],
        terms=[term for term, _ in strongest],
        strengths=[strength for _, strength in strongest],
        mass=sum(strength for _, strength in strongest[:TELLING_TERMS]),
        meant={term: terms.meant[term] for term, _ in strongest},
        vector=_direction(said, list(counts.values()), before),
        unspaced=2 * sum(map(is_unspaced, counts)) > len(counts),
        embedded=_embedded(index, f"{message}\n{context}" if context else message),
    )


def _ends(message: str) -> str:
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} {message[-half:]}"


def rarity_of(size: int, count: int) -> float:
    """How rare a term is that so many of all skills have: ln((N + 1) / (n + ½)), to a thousandth."""
    return round(math.log((size + 1) / (count + 0.5)), 3)


class _Terms:
    """The terms of a message as they are collected, with their weights; what came first stays."""

    def __init__(self, index: Index, size: int) -> None:
        self._index = index
        self._size = size
        self._counts: dict[int, int] = {}
        self._said: Counter[int] = Counter()
        self._added: dict[int, float] = {}
        self._repairs = _MOST_REPAIRED_WORDS
        self.meant: dict[int, str] = {}

    def understood(self, word: str, known: Word, count: int) -> Word:
        """Take a word of the message in; one that no skill has as what it may have meant.

        Said twice, a word counts more, but not twice as much.
        """
        self._said[known.term] += count
        self.meant.setdefault(known.term, word)
        if self._count(known.term) or not self._repairs:
            return known
        self._repairs -= 1
        meanings = meanings_of(self._index, word)
        for meaning in meanings:
            self._add(meaning.term, _REPAIRED, word)
        return meanings[0] if meanings else known

    def around(self, words: Sequence[str]) -> list[Word]:
        """Take in what was said before."""
        before = lexicon().words(words)
        for known in before:
            self._add(known.term, _CONTEXT, "")
        return before

    def rarity(self, term: int) -> float:
        """How rare a term is among the skills."""
        return rarity_of(self._size, self._count(term))

    def strongest(self) -> list[tuple[int, int]]:
        """The terms that some skill has with their strengths, the strongest first."""
        weights = {term: (_K3 + 1) * count / (_K3 + count) for term, count in self._said.items()}
        weights.update((term, weight) for term, weight in self._added.items() if term not in weights)
        found = [
            (term, round(UNIT * self.rarity(term) * weight)) for term, weight in weights.items() if self._count(term)
        ]
        found.sort(key=lambda pair: (-pair[1], pair[0]))
        return found[:STRONGEST_TERMS]

    def _add(self, term: int, weight: float, word: str) -> None:
        self._added.setdefault(term, weight)
        self.meant.setdefault(term, word)

    def _count(self, term: int) -> int:
        count = self._counts.get(term)
        if count is None:
            count = self._counts[term] = self._index.count(term)
        return count


def _direction(said: list[Word], counts: list[int], before: list[Word]) -> NDArray[np.int8]:
    """The sum of the words of a message; what was said before counts a third."""
    words = [*said, *before]
    if not words:
        return np.zeros(DIMENSIONS, np.int8)
    times = [3 * count if before else count for count in counts] + [1] * len(before)
    weights = [known.weight * count for known, count in zip(words, times, strict=True)]
    return sum_of(np.array([known.vector for known in words], np.int8), np.array(weights, np.int64))


def _rarest(rarity: list[float]) -> list[int]:
    """The places of the words that are compared one by one, in their order."""
    if len(rarity) <= CLOSEST_WORDS:
        return list(range(len(rarity)))
    order = sorted(range(len(rarity)), key=lambda place: (-rarity[place], place))
    return sorted(order[:CLOSEST_WORDS])


def _embedded(index: Index, text: str) -> NDArray[np.int8]:
    """The message as the embedder sees it; nothing where that is away, so that words alone decide."""
    try:
        return index.embedder.embed([text])[0]
    except Unavailable:
        return np.zeros(index.dimensions, np.int8)
