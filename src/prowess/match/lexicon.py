"""What is known of single words: number, term, vector and weight. Remembered, since words come again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from prowess.match.hashing import number_of
from prowess.match.vectors.embedder import SCALE
from prowess.match.vectors.static import StaticEmbedder
from prowess.match.words import stems_of

DIMENSIONS = 256
_SMALL = 500_000
_REMEMBERED = 20_000
_LIGHT = 1 << 20
"""The squares of a sum of less weight than this add up in 64 bits."""


@dataclass(frozen=True, slots=True)
class Word:
    """What is known of one word. Words that differ in their ending only are one term, and share its number."""

    number: int
    term: int
    vector: NDArray[np.int8]
    weight: int


class Lexicon:
    """Looks words up and remembers the last some thousand of them."""

    def __init__(self) -> None:
        self._known: dict[str, Word] = {}

    def words(self, words: Sequence[str]) -> list[Word]:
        """All that is known of these words."""
        known = self._known
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if missing:
            found = dict(zip(missing, look_up(missing), strict=True))
            if len(known) + len(found) > _REMEMBERED:
                known = self._known = {}
            known.update(found)
        try:
            return [known[word] for word in words]
        except KeyError:
            # Another thread began anew meanwhile.
            return look_up(words)


def look_up(words: Sequence[str]) -> list[Word]:
    """All that is known of these words, without remembering it."""
    vectors, weights = static().weighed(words)
    numbers = [number_of(word) for word in words]
    terms = [number_of(stem) for stem in stems_of(words)]
    return [Word(*known) for known in zip(numbers, terms, vectors, weights.tolist(), strict=True)]


@cache
def static() -> StaticEmbedder:
    """The vectors that ship with Prowess; single words are always compared by these."""
    return StaticEmbedder(dimensions=DIMENSIONS)


@cache
def lexicon() -> Lexicon:
    """The words that were asked for last."""
    return Lexicon()


def sum_of(vectors: Sequence[NDArray[np.int8]], weights: Sequence[int]) -> NDArray[np.int8]:
    """The direction of a sum of weighed vectors."""
    total = np.array(weights, np.int64) @ np.array(vectors, np.int64)
    if sum(weights) < _LIGHT:
        length = math.sqrt(int(total @ total))
    else:
        length = math.sqrt(sum(value * value for value in total.tolist()))
    return np.rint(total * (SCALE / (length or 1.0))).astype(np.int8)


def products(rows: NDArray[np.int8], columns: NDArray[np.int8]) -> NDArray[np.float32]:
    """The dot product of every row with every column.

    Sums of products of such numbers stay below 2²⁴: exact in float32, in whatever order they are added. It is done in
    portions that are too small for a library to start threads over, which would take longer than the work.
    """
    right = columns.astype(np.float32).T
    portion = max(_SMALL // max(columns.size, 1), 16)
    if len(rows) <= portion:
        return rows.astype(np.float32) @ right
    found = np.empty((len(rows), len(columns)), np.float32)
    for first in range(0, len(rows), portion):
        some = rows[first : first + portion].astype(np.float32)
        np.matmul(some, right, out=found[first : first + portion])
    return found
