"""Look up single words: hash, term, vector and weight, cached because words recur."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from prowess.match.vectors.embedder import SCALE
from prowess.match.vectors.static import StaticEmbedder
from prowess.match.words import stem_words

# 2⁶⁴ divided by the golden ratio, a common multiplier for hashes.
_BASE = 0x9E37_79B9_7F4A_7C15
_MASK = (1 << 64) - 1
LONGEST_HASHED = 64
"""Neighbours are computed for words up to this length."""

_FEW_WORDS = 32
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"

Hashes = NDArray[np.uint64]


def hash_word(word: str) -> int:
    """Return a word's 64-bit hash: a polynomial in its bytes, so that the hashes of similar words can be derived from it."""
    number = 0
    for byte in word.encode("utf-8", "replace"):
        # Plus 1, because a leading zero byte would not change the hash.
        number = (number * _BASE + byte + 1) & _MASK
    return number


def hash_words(words: Sequence[str]) -> Hashes:
    """Return the hashes of many words, computed byte by byte for all words at once."""
    if len(words) < _FEW_WORDS:
        return np.array([hash_word(word) for word in words], np.uint64)
    encoded = [word.encode("utf-8", "replace") for word in words]
    content = np.frombuffer(b"".join(encoded), np.uint8)
    lengths = np.array([len(some) for some in encoded], np.int64)
    begins = np.cumsum(lengths) - lengths
    order = np.argsort(-lengths, kind="stable")
    longest = int(lengths.max(initial=0))
    left = np.searchsorted(-lengths[order], -np.arange(longest))
    begins, numbers = begins[order], np.zeros(len(words), np.uint64)
    for position, count in enumerate(left.tolist()):
        numbers[:count] *= np.uint64(_BASE)
        numbers[:count] += content[begins[:count] + position].astype(np.uint64) + np.uint64(1)
    found = np.empty_like(numbers)
    found[order] = numbers
    return found


def hash_neighbours(word: str) -> tuple[Hashes, Hashes]:
    """Return the hashes of all words one typing error away: those of the same length, and the others.

    An error is an inserted, missing or different letter, or two adjacent letters swapped.
    """
    # A hash is the sum of code × base^(distance from the end). So the hash of a neighbour follows from the hashes of
    # what comes before and after the error (`before`, `after`), without spelling the neighbour out: all positions and
    # letters at once.
    codes = [byte + 1 for byte in word.encode("ascii", "replace")]
    size = len(codes)
    powers = _powers()
    forward = [0]
    for code in codes:
        forward.append((forward[-1] * _BASE + code) & _MASK)
    backward = [0]
    for place, code in enumerate(reversed(codes)):
        backward.append((backward[-1] + code * pow(_BASE, place, 1 << 64)) & _MASK)
    letters, before, after = (np.array(some, np.uint64) for some in (codes, forward, backward[::-1]))
    left = size - np.arange(size + 1)
    others = np.frombuffer(_LETTERS, np.uint8).astype(np.uint64) + np.uint64(1)
    dropped = before[:-1] * powers[left[1:]] + after[1:]
    changed = (before[:-1] * powers[left[:-1]] + after[1:])[:, None] + others * powers[left[1:]][:, None]
    added = (before * powers[left + 1] + after)[:, None] + others * powers[left][:, None]
    pairs = letters[1:] * powers[1] + letters[:-1]
    swapped = before[:-2] * powers[left[:-2]] + pairs * powers[left[2:]] + after[2:]
    return np.append(changed, swapped), np.append(added, dropped)


@cache
def _powers() -> Hashes:
    return np.array([pow(_BASE, place, 1 << 64) for place in range(LONGEST_HASHED + 2)], np.uint64)


DIMENSIONS = 256
_SMALL_PRODUCT = 500_000
_CACHE_SIZE = 20_000
_MAX_EXACT_WEIGHT = 1 << 20
"""Up to this total weight, the squares of a sum fit in 64 bits."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word's properties. Words with the same stem have the same `term`."""

    number: int
    term: int
    vector: NDArray[np.int8]
    weight: int


class Lexicon:
    """A cache of words."""

    def __init__(self) -> None:
        self._known: dict[str, Word] = {}

    def words(self, words: Sequence[str]) -> list[Word]:
        """Return the properties of these words."""
        known = self._known
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if missing:
            found = dict(zip(missing, look_up_words(missing), strict=True))
            if len(known) + len(found) > _CACHE_SIZE:
                known = self._known = {}
            known.update(found)
        try:
            return [known[word] for word in words]
        except KeyError:
            # The cache was just cleared, here or by another thread, and words that were known before are missing.
            return look_up_words(words)


def look_up_words(words: Sequence[str]) -> list[Word]:
    """Return the properties of these words, without the cache."""
    vectors, weights = static_embedder().weighed(words)
    numbers = [hash_word(word) for word in words]
    terms = [hash_word(stem) for stem in stem_words(words)]
    return [Word(*known) for known in zip(numbers, terms, vectors, weights.tolist(), strict=True)]


@cache
def static_embedder() -> StaticEmbedder:
    """Return the embedder that ships with Prowess; single words are always compared by its vectors."""
    return StaticEmbedder(dimensions=DIMENSIONS)


@cache
def shared_lexicon() -> Lexicon:
    """Return the cache of this process."""
    return Lexicon()


def weighted_sum(vectors: Sequence[NDArray[np.int8]], weights: Sequence[int]) -> NDArray[np.int8]:
    """Return the weighted sum of vectors, normalized."""
    total = np.array(weights, np.int64) @ np.array(vectors, np.int64)
    if sum(weights) < _MAX_EXACT_WEIGHT:
        length = math.sqrt(int(total @ total))
    else:
        length = math.sqrt(sum(value * value for value in total.tolist()))
    return np.rint(total * (SCALE / (length or 1.0))).astype(np.int8)


def dot_products(rows: NDArray[np.int8], columns: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the dot product of every row with every column.

    The sums stay below 2²⁴, so they are exact in float32 in any order. Large inputs are multiplied in chunks too small for
    the BLAS library to start threads, which would take longer than the work.
    """
    right = columns.astype(np.float32).T
    portion = max(_SMALL_PRODUCT // max(columns.size, 1), 16)
    if len(rows) <= portion:
        return rows.astype(np.float32) @ right
    found = np.empty((len(rows), len(columns)), np.float32)
    for first in range(0, len(rows), portion):
        some = rows[first : first + portion].astype(np.float32)
        np.matmul(some, right, out=found[first : first + portion])
    return found


MAX_VOCABULARY = 200_000
"""About 80 MB."""


class Vocabulary:
    """The words of many skills as arrays, each looked up once. Not thread-safe."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.word_weights: dict[str, int] = {}
        self.numbers: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.terms: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.weights: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self.vectors: NDArray[np.int8] = np.zeros((0, DIMENSIONS), np.int8)

    @property
    def is_full(self) -> bool:
        """True if it is time to start a new one."""
        return len(self._places) > MAX_VOCABULARY

    def learn(self, words: Iterable[str]) -> None:
        """Look up all new words in one batch."""
        new = [word for word in dict.fromkeys(words) if word not in self._places]
        if not new:
            return
        vectors, weights = static_embedder().weighed(new)
        self._places.update(zip(new, range(len(self._places), len(self._places) + len(new)), strict=True))
        self.word_weights.update(zip(new, weights.tolist(), strict=True))
        self.numbers = np.concatenate((self.numbers, hash_words(new)))
        self.terms = np.concatenate((self.terms, hash_words(stem_words(new))))
        self.weights = np.concatenate((self.weights, weights.astype(np.uint16)))
        self.vectors = np.concatenate((self.vectors, vectors))

    def places(self, words: Sequence[str]) -> NDArray[np.uint32]:
        """Return the positions of these words, learning new ones."""
        self.learn(words)
        return np.fromiter(map(self._places.__getitem__, words), np.uint32, len(words))
