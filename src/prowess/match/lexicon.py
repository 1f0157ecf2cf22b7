"""Look up single words: hash, term and weight, cached because words recur."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import Array, expand_slices, find_sorted, offsets_of
from prowess.match.vectors.encoder import default_encoder
from prowess.match.words import STOP_WORDS, split_new_tokens, stem_words

if TYPE_CHECKING:
    from prowess.match.tokens import Tokens

# 2⁶⁴ divided by the golden ratio, a common multiplier for hashes.
_BASE = 0x9E37_79B9_7F4A_7C15
_MASK = (1 << 64) - 1
LONGEST_HASHED = 64
"""Neighbours are computed for words up to this length."""

_FEW_WORDS = 32
OTHER_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
"""What a wrong or missing letter of a word may be."""
_OTHERS = np.frombuffer(OTHER_LETTERS.encode(), np.uint8).astype(np.uint64) + np.uint64(1)
_POWERS = [pow(_BASE, place, 1 << 64) for place in range(LONGEST_HASHED + 2)]
_POWER_ARRAY = np.array(_POWERS, np.uint64)

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
    joined = "".join(words)
    encoded = words if joined.isascii() else [word.encode("utf-8", "replace") for word in words]
    content = np.frombuffer(joined.encode("utf-8", "replace"), np.uint8)
    lengths = np.fromiter(map(len, encoded), np.int64, len(words))
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
    powers = _POWER_ARRAY
    forward = [0]
    for code in codes:
        forward.append((forward[-1] * _BASE + code) & _MASK)
    backward = [0]
    for power, code in zip(_POWERS, reversed(codes), strict=False):
        backward.append((backward[-1] + code * power) & _MASK)
    letters, before, after = (np.array(some, np.uint64) for some in (codes, forward, backward[::-1]))
    left = size - np.arange(size + 1)
    dropped = before[:-1] * powers[left[1:]] + after[1:]
    changed = (before[:-1] * powers[left[:-1]] + after[1:])[:, None] + _OTHERS * powers[left[1:]][:, None]
    added = (before * powers[left + 1] + after)[:, None] + _OTHERS * powers[left][:, None]
    pairs = letters[1:] * powers[1] + letters[:-1]
    swapped = before[:-2] * powers[left[:-2]] + pairs * powers[left[2:]] + after[2:]
    return np.append(changed, swapped), np.append(added, dropped)


_LONGEST_UNTELLING = 2
"""Words up to this length are not key terms of a body."""
_CACHE_SIZE = 20_000


@dataclass(frozen=True, slots=True)
class Word:
    """A word's properties. Words with the same stem have the same `term`."""

    number: int
    term: int
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
    weights = default_encoder().pieces.weight(words)
    numbers = [hash_word(word) for word in words]
    terms = [hash_word(stem) for stem in stem_words(words)]
    return [Word(*known) for known in zip(numbers, terms, weights.tolist(), strict=True)]


def find_common_words(words: Sequence[str]) -> set[str]:
    """Return the words that are frequent in general, or whose stem is, so that they are not typing errors."""
    if not words:
        return set()
    known = default_encoder().pieces.know([*words, *stem_words(words)]).tolist()
    return {word for word, whole, stem in zip(words, known, known[len(words) :], strict=False) if whole or stem}


@cache
def shared_lexicon() -> Lexicon:
    """Return the cache of this process."""
    return Lexicon()


MAX_VOCABULARY = 200_000
"""About 80 MB."""


class Vocabulary:
    """The words of many skills as arrays, each looked up once. Not thread-safe.

    A word is a position in these arrays.
    """

    def __init__(self) -> None:
        self._token_hashes: NDArray[np.uint64] = np.zeros(0, np.uint64)
        """Of all tokens known so far, ascending."""
        self._token_numbers: NDArray[np.int32] = np.zeros(0, np.int32)
        """Which token has each hash. Tokens are numbered in the order in which they are first read."""
        self._token_words: Array = np.zeros(0, np.uint32)
        self._token_starts: Array = np.zeros(0, np.int64)
        self._token_sizes: Array = np.zeros(0, np.int32)
        self._words: dict[str, int] = {}
        self._texts: list[str] = []
        self.numbers: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.terms: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.is_stop_word: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.may_be_key_term: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.weights: NDArray[np.uint16] = np.zeros(0, np.uint16)

    @property
    def is_full(self) -> bool:
        """True if it is time to start a new one."""
        return len(self._texts) > MAX_VOCABULARY

    def read(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the words of texts as `extract_words` does, concatenated, and the start of each text among them."""
        from prowess.match.tokens import split_tokens  # not needed as long as nothing has changed

        portions: list[Array] = [np.zeros(0, np.uint32)]
        sizes: list[Array] = [np.zeros(0, np.int64)]
        # A portion at a time up to its words, so that what is computed on the way stays in the processor's cache.
        for tokens in split_tokens(texts):
            numbers = self._number(tokens)
            begins = self._token_starts[numbers]
            places, firsts = expand_slices(begins, begins + self._token_sizes[numbers])
            portions.append(self._token_words[places])
            sizes.append(np.diff(np.append(firsts, len(places))[offsets_of(tokens.counts)]))
        words, starts = np.concatenate(portions), offsets_of(np.concatenate(sizes))
        is_telling = ~self.is_stop_word[words]
        counts = offsets_of(is_telling)
        # A text of stop words alone keeps them.
        silent = np.flatnonzero((counts[starts[1:]] == counts[starts[:-1]]) & (starts[1:] > starts[:-1]))
        for first, last in zip(starts[silent].tolist(), starts[silent + 1].tolist(), strict=True):
            is_telling[first:last] = True
        return words[is_telling], (offsets_of(is_telling) if len(silent) else counts)[starts]

    def texts(self, words: Array) -> list[str]:
        """Return words as text."""
        return [self._texts[place] for place in words.tolist()]

    def _number(self, tokens: Tokens) -> NDArray[np.int32]:
        """Return the numbers of tokens, after learning those that are new."""
        firsts, chosen = tokens.group()
        hashes = tokens.hashes[firsts]
        places, is_known = find_sorted(self._token_hashes, hashes)
        numbers = np.empty(len(hashes), np.int32)
        numbers[is_known] = self._token_numbers[places[is_known]]
        new = np.flatnonzero(~is_known)
        numbers[new] = np.arange(len(self._token_hashes), len(self._token_hashes) + len(new))
        # Two hashes that start alike may be in the wrong order. At worst, such a token gets a second number.
        order = self._token_hashes.searchsorted(hashes[new])
        self._token_hashes = np.insert(self._token_hashes, order, hashes[new])
        self._token_numbers = np.insert(self._token_numbers, order, numbers[new])
        self._learn_tokens(tokens.spell(firsts[new]))
        return numbers[chosen]

    def _learn_tokens(self, tokens: Sequence[str]) -> None:
        split = split_new_tokens(tokens)
        sizes = list(map(len, split))
        known, every = self._words, list(chain.from_iterable(split))
        new = [word for word in dict.fromkeys(every) if word not in known]
        known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        words = np.fromiter(map(known.__getitem__, every), np.uint32, len(every))
        starts = len(self._token_words) + offsets_of(sizes)[:-1]
        self._token_starts = np.concatenate((self._token_starts, starts))
        self._token_sizes = np.concatenate((self._token_sizes, np.array(sizes, np.int32)))
        self._token_words = np.concatenate((self._token_words, words))
        self._learn_words(new)

    def _learn_words(self, words: Sequence[str]) -> None:
        size = len(words)
        self._texts += words
        hashes = hash_words([*words, *stem_words(words)])
        self.numbers = np.concatenate((self.numbers, hashes[:size]))
        self.terms = np.concatenate((self.terms, hashes[size:]))
        stops = np.fromiter(map(STOP_WORDS.__contains__, words), np.bool_, size)
        self.is_stop_word = np.concatenate((self.is_stop_word, stops))
        keys = np.array([len(word) > _LONGEST_UNTELLING and not word.isdigit() for word in words], np.bool_)
        self.may_be_key_term = np.concatenate((self.may_be_key_term, keys))
        weights = default_encoder().pieces.weight(words).astype(np.uint16)
        self.weights = np.concatenate((self.weights, weights))
