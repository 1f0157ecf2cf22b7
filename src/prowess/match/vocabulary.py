"""The words of many skills as arrays, each looked up once: number, term, vector and weight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from prowess.match.hashing import numbers_of
from prowess.match.lexicon import DIMENSIONS, static
from prowess.match.words import stems_of

MOST_WORDS = 200_000
"""So many are remembered, which takes some 80 MB."""


class Vocabulary:
    """Words by the order in which they were learnt. Not for several threads at once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.word_weights: dict[str, int] = {}
        self.numbers: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.terms: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.weights: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self.vectors: NDArray[np.int8] = np.zeros((0, DIMENSIONS), np.int8)

    @property
    def is_full(self) -> bool:
        """Whether it is time to begin a new one."""
        return len(self._places) > MOST_WORDS

    def learn(self, words: Iterable[str]) -> None:
        """Look up the words that are not known yet, all at once."""
        new = [word for word in dict.fromkeys(words) if word not in self._places]
        if not new:
            return
        vectors, weights = static().weighed(new)
        self._places.update(zip(new, range(len(self._places), len(self._places) + len(new)), strict=True))
        self.word_weights.update(zip(new, weights.tolist(), strict=True))
        self.numbers = np.concatenate((self.numbers, numbers_of(new)))
        self.terms = np.concatenate((self.terms, numbers_of(stems_of(new))))
        self.weights = np.concatenate((self.weights, weights.astype(np.uint16)))
        self.vectors = np.concatenate((self.vectors, vectors))

    def places(self, words: Sequence[str]) -> NDArray[np.uint32]:
        """Where these words stand; those that are new are learnt."""
        self.learn(words)
        return np.fromiter(map(self._places.__getitem__, words), np.uint32, len(words))
