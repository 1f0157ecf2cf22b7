"""A message made ready to be asked: its words, how much each counts, and what it may have meant by those unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
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
    """What is asked. `word_terms`, `rarity` and `weight` have a place for each word that is compared one by one."""

    message: str
    words: dict[str, int]
    """The distinct words, and where each comes first."""
    word_terms: list[int]
    rarity: NDArray[np.float64]
    """How rare each word is among the skills, in thousandths: whole numbers."""
    rarities: int
    """All of them together; not below 1."""
    weight: NDArray[np.float64]
    """How much each word means in general."""
    terms: list[int]
    """The terms to look for, the strongest first: those of the message, repaired ones, and some of the context."""
    strengths: list[int]
    mass: int
    """The strongest terms together."""
    meant: dict[int, str]
    """Which word of the message each term stands for; '' for context."""
    places: list[dict[int, int]]
    """Where the terms stand in each segment; only those that it has."""
    compared: NDArray[np.int8]
    """The sum of its words, for comparing it with phrases, and below it the words to compare one by one."""
    unspaced: bool
    """Whether it is mostly Chinese, Japanese or Korean, of which the vectors only tell what is the same."""
    embedded: NDArray[np.int8]
    """The message as the index's embedder sees it, for comparing it with whole skills."""


def ask(index: Index, message: str, context: str = "") -> Query:
    """Read a message against an index. Anything is a message; one without words finds nothing."""
    message, context = _ends(message), context[-LONGEST_MESSAGE:]
    counts: dict[str, int] = {}
    for word in words_of(message)[:MOST_WORDS]:
        counts[word] = counts.get(word, 0) + 1
    heard = lexicon().words(list(counts))
    terms = _Terms(index, [known.term for known in heard])
    said = [terms.understood(word, known, count) for (word, count), known in zip(counts.items(), heard, strict=True)]
    before = terms.around(words_of(context)[-MOST_CONTEXT:]) if context.strip() else []
    strongest = terms.strongest()
    rarity = [round(1000 * terms.rarity[known.term]) for known in said]
    chosen = _rarest(rarity)
    close = [said[place] for place in chosen]
    return Query(
        message=message,
        words={word: place for place, word in enumerate(counts)},
        word_terms=[known.term for known in close],
        rarity=np.array([rarity[place] for place in chosen], np.float64),
        rarities=max(sum(rarity[place] for place in chosen), 1),
        weight=np.array([known.weight for known in close], np.float64),
        terms=[term for term, _ in strongest],
        strengths=[strength for _, strength in strongest],
        mass=sum(strength for _, strength in strongest[:TELLING_TERMS]),
        meant={term: terms.meant[term] for term, _ in strongest},
        places=terms.places,
        compared=np.array([_direction(said, counts.values(), before), *(known.vector for known in close)], np.int8),
        unspaced=not message.isascii() and 2 * sum(map(is_unspaced, counts)) > len(counts),
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

    def __init__(self, index: Index, terms: Sequence[int]) -> None:
        self._index = index
        self._said: dict[int, int] = {}
        self._added: dict[int, float] = {}
        self._repairs = _MOST_REPAIRED_WORDS
        self._counts: dict[int, int] = {}
        self.rarity: dict[int, float] = {}
        """How rare each term is among the skills."""
        self.meant: dict[int, str] = {}
        self.places: list[dict[int, int]] = [{} for _ in index.parts]
        self._look_up(terms)

    def understood(self, word: str, known: Word, count: int) -> Word:
        """Take a word of the message in; one that no skill has as what it may have meant.

        Said twice, a word counts more, but not twice as much.
        """
        term = known.term
        self._said[term] = self._said.get(term, 0) + count
        self.meant.setdefault(term, word)
        if self._counts[term] or not self._repairs:
            return known
        self._repairs -= 1
        meanings = meanings_of(self._index, word)
        self._add([meaning.term for meaning in meanings], _REPAIRED, word)
        return meanings[0] if meanings else known

    def around(self, words: Sequence[str]) -> list[Word]:
        """Take in what was said before."""
        before = lexicon().words(words)
        self._add([known.term for known in before], _CONTEXT, "")
        return before

    def strongest(self) -> list[tuple[int, int]]:
        """The terms that some skill has with their strengths, the strongest first."""
        weights = {term: (_K3 + 1) * count / (_K3 + count) for term, count in self._said.items()}
        weights = {**self._added, **weights} if self._added else weights
        found = [
            (term, round(UNIT * self.rarity[term] * weight)) for term, weight in weights.items() if self._counts[term]
        ]
        found.sort(key=lambda pair: (-pair[1], pair[0]))
        return found[:STRONGEST_TERMS]

    def _add(self, terms: list[int], weight: float, word: str) -> None:
        self._look_up([term for term in dict.fromkeys(terms) if term not in self._counts])
        for term in terms:
            self._added.setdefault(term, weight)
            self.meant.setdefault(term, word)

    def _look_up(self, terms: Sequence[int]) -> None:
        """See where terms stand in the segments, and how many skills have them."""
        numbers, counts = np.array(terms, np.uint64), dict.fromkeys(terms, 0)
        for part, places in zip(self._index.parts, self.places, strict=True):
            table = part.segment.terms
            for term, place in zip(terms, table.searchsorted(numbers).tolist(), strict=True):
                if place < len(table) and int(table[place]) == term:
                    places[term] = place
                    counts[term] += int(part.term_count[place])
        size = self._index.size
        self._counts.update(counts)
        self.rarity.update((term, rarity_of(size, count)) for term, count in counts.items())


def _direction(said: list[Word], counts: Iterable[int], before: list[Word]) -> NDArray[np.int8]:
    """The sum of the words of a message; what was said before counts a third."""
    words = [*said, *before]
    if not words:
        return np.zeros(DIMENSIONS, np.int8)
    times = [3 * count if before else count for count in counts] + [1] * len(before)
    weights = [known.weight * count for known, count in zip(words, times, strict=True)]
    return sum_of([known.vector for known in words], weights)


def _rarest(rarity: list[int]) -> list[int]:
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
