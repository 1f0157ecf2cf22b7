"""Split texts into the word pieces of a SentencePiece unigram model, without its library.

The pieces of a model are not in a dictionary, which would take long to fill: a sorted table of their 64-bit hashes, mapped
from a file, is searched for all substrings of the words that have not been seen before, at once.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array, find_sorted
from prowess.match.vectors.embedder import remove_surrogates

UNKNOWN, START, END = 0, 1, 2
"""The numbers of the special pieces, by the model's convention."""

LONGEST_PIECE = 16
LONGEST_TEXT = 8_192
"""Of a longer text the beginning counts, and a fourth as much from its end."""

_WORD_START = "▁"
_UNKNOWN_PENALTY = 10.0
_SCORE_UNITS = 2_000
"""Scores, logarithms of probabilities, are stored in units of -1/2000 and added exactly."""
_BASE = 0x9E37_79B9_7F4A_7C15
_MASK = (1 << 64) - 1
_FEW_TEXTS = 24
_CACHED_WORDS = 20_000
_LONGEST_CACHED = 32
"""Longer words are mostly whole sentences in a language without spaces, which do not recur."""

_WORST = 1 << 62
_ROUND = 100_000
"""Characters segmented in one go, which bounds the memory for their substrings."""

# The model's normalizer is NFKC, with these characters read as spaces. Control characters stay.
_SPACES = dict.fromkeys(map(ord, "\t\n\f\r\u1680\u200b\u200e\u200f\u2028\u2029\ufeff\ufffd▁"), " ")

EVERYDAY, INFORMATIVE = 6.0, 12.0
"""A word whose probability is above e⁻⁶ has no weight; one below e⁻¹² has the full weight."""
FULL_WEIGHT = 1000
_RAREST = 0xFFFF


class Pieces:
    """The pieces of a model; thread-safe. `of_words` remembers words, because they recur."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._hashes: NDArray[np.uint64] = arrays["piece_hashes"]
        self._rows: NDArray[np.uint16] = arrays["piece_rows"]
        self._scores: NDArray[np.uint16] = arrays["piece_scores"]
        self._words: dict[str, tuple[int, ...]] = {}
        (self._bare_start,) = self._segment([""])[0]

    @staticmethod
    def table(pieces: Sequence[str], scores: Sequence[float]) -> dict[str, Array]:
        """Return the arrays of pieces that are given in the order of their numbers, the special ones first."""
        numbers = [number for number in range(len(pieces)) if number > END and len(pieces[number]) <= LONGEST_PIECE]
        hashes = np.array([_hash(pieces[number]) for number in numbers], np.uint64)
        order = np.argsort(hashes)
        if (np.diff(hashes[order]) == 0).any():
            raise ValueError("two pieces have the same hash")
        rarity = -np.array(scores)
        rarity[UNKNOWN] = rarity.max() + _UNKNOWN_PENALTY
        return {
            "piece_hashes": hashes[order],
            "piece_rows": np.array(numbers, np.uint16)[order],
            "piece_scores": np.rint(rarity * _SCORE_UNITS).astype(np.uint16),
        }

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the piece numbers of each text, without start and end."""
        split = [normalize(text).split(" ") for text in texts]
        known = self.of_words(word for words in split for word in words if word)
        return [[number for word in words if word for number in known[word]] for words in split]

    def of_words(self, words: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
        """Return the piece numbers of normalized words."""
        known = self._words
        wanted = dict.fromkeys(words)
        found = {word: numbers for word in wanted if (numbers := known.get(word)) is not None}
        missing = [word for word in wanted if word not in found]
        if missing:
            new = dict(zip(missing, self._segment(missing), strict=True))
            found.update(new)
            if len(known) + len(new) > _CACHED_WORDS:
                known = self._words = {}
            known.update((word, new[word]) for word in missing[:_CACHED_WORDS] if len(word) <= _LONGEST_CACHED)
        return found

    def know(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """Return True for each word that is one piece, which is so for common words but not for typing errors."""
        texts = [text if len(text := normalize(word)) < LONGEST_PIECE else "" for word in words]
        is_piece = find_sorted(self._hashes, _after_start(_hash_all(texts)))[1]
        return is_piece & np.array([text != "" for text in texts], np.bool_)

    def weight(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return how much each word says about what a text is about: 0 for everyday words, `FULL_WEIGHT` for rare ones.

        A word that is not one piece is rare: of 7,700 words of several pieces, 16 would be a little less than rare.
        """
        if not words:
            return np.zeros(0, np.int64)
        if not _are_normal(" ".join(words)):
            words = [word if word.isascii() else normalize(word).replace(" ", "") for word in words]
        # Chinese words, and some names, are pieces without a word start only.
        hashes = _hash_all(words)
        places, is_piece = find_sorted(self._hashes, np.concatenate((_after_start(hashes), hashes)))
        scores = np.where(is_piece, self._scores[self._rows[places]], np.uint16(_RAREST))
        rarity = np.where(is_piece[: len(words)], scores[: len(words)], scores[len(words) :])
        share = (rarity / _SCORE_UNITS - EVERYDAY) / (INFORMATIVE - EVERYDAY)
        return np.rint(share.clip(0.0, 1.0) * FULL_WEIGHT).astype(np.int64)

    def _segment(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the most probable pieces of each word."""
        found: list[tuple[int, ...]] = []
        batch: list[str] = []
        size = 0
        for word in words:
            batch.append(word)
            size += len(word) + 1
            if size > _ROUND:
                found += self._segment_batch(batch)
                batch, size = [], 0
        return found + self._segment_batch(batch) if batch else found

    def _segment_batch(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        # One string of all words. No piece has a word start inside, so no piece reaches over the end of a word.
        text = _WORD_START + _WORD_START.join(words)
        starts, ends, numbers = self._find_pieces(text)
        scores = self._scores[numbers].tolist()
        best: list[int] = [_WORST] * (len(text) + 1)
        before = [0] * (len(text) + 1)
        number_at = [UNKNOWN] * (len(text) + 1)
        best[0] = 0
        candidates: Iterable[tuple[int, int, int, int]]
        candidates = zip(starts.tolist(), ends.tolist(), numbers.tolist(), scores, strict=True)
        for start, end, number, score in candidates:
            total = best[start] + score
            if total < best[end]:
                best[end], before[end], number_at[end] = total, start, number
        return _trace_back(words, before, number_at)

    def _find_pieces(self, text: str) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.uint16]]:
        """Return start, end and number of all pieces in a text, by start and length; other characters are `UNKNOWN`."""
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        size = len(codes)
        word_starts = np.flatnonzero(codes == ord(_WORD_START))
        ends = np.append(word_starts[1:], size)
        left = np.repeat(ends, ends - word_starts) - np.arange(size)
        inside = np.arange(min(int(left.max()), LONGEST_PIECE)) < left[:, np.newaxis]
        starts, lengths = inside.nonzero()
        lengths += 1
        places, is_piece = find_sorted(self._hashes, _hash_stretches(codes, starts, starts + lengths))
        numbers = np.where(is_piece, self._rows[places], np.uint16(UNKNOWN))
        kept = is_piece | (lengths == 1)
        return starts[kept], (starts + lengths)[kept], numbers[kept]


def normalize(text: str) -> str:
    """Return the text as the model reads it: NFKC, all white space as spaces; of a long text the beginning and the end."""
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]} {text[-LONGEST_TEXT // 4 :]}"
    if text.isascii():
        return text.translate(_SPACES)
    text = remove_surrogates(text).translate(_SPACES)
    # The one character that the model's normalizer leaves as it is, unlike NFKC.
    return "～".join(unicodedata.normalize("NFKC", part) for part in text.split("～"))


def _are_normal(words: str) -> bool:
    """Return True if `normalize` would change none of these words, with spaces between them."""
    # A space combines with nothing, so all words are normal if the whole is.
    is_plain = words.isprintable() and not any(char in words for char in "▁\ufffd")
    return words.isascii() or (is_plain and unicodedata.is_normalized("NFKC", words))


def _trace_back(words: Sequence[str], before: list[int], number_at: list[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    start = 0
    for word in words:
        place = start + len(word) + 1
        numbers: list[int] = []
        end = place
        while place > start:
            number = number_at[place]
            # Adjacent unknown characters are one unknown piece.
            if number != UNKNOWN or not numbers or numbers[-1] != UNKNOWN:
                numbers.append(number)
            place = before[place]
        found.append(tuple(reversed(numbers)))
        start = end
    return found


def _hash(piece: str) -> int:
    """Return a polynomial in the characters, modulo 2⁶⁴."""
    number = 0
    for character in reversed(piece):
        number = (number * _BASE + ord(character) + 1) & _MASK
    return number


def _hash_all(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hashes of whole texts."""
    if len(texts) <= _FEW_TEXTS:
        return np.array(list(map(_hash, texts)), np.uint64)
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.cumsum(list(map(len, texts)))
    return _hash_stretches(codes, np.concatenate(([0], ends[:-1])), ends)


def _after_start(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hashes of the same texts after the start of a word."""
    return hashes * np.uint64(_BASE) + np.uint64(ord(_WORD_START) + 1)


def _hash_stretches(codes: Array, starts: Array, ends: Array) -> NDArray[np.uint64]:
    """Return the hashes of parts of a text.

    The hash of a part follows from the sums up to its start and its end, divided by the power at its start.
    """
    powers, inverse = _powers(len(codes) + 1)
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum((codes + np.uint64(1)) * powers[:-1], out=sums[1:])
    return (sums[ends] - sums[starts]) * inverse[starts]


def _powers(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the powers of the base and of its inverse modulo 2⁶⁴."""
    powers, inverse = _some_powers(max(1 << size.bit_length(), 1_024))
    return powers[:size], inverse[:size]


@lru_cache(maxsize=2)
def _some_powers(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    found: list[NDArray[np.uint64]] = []
    for base in (_BASE, pow(_BASE, -1, 1 << 64)):
        factors = np.full(size, base, np.uint64)
        factors[0] = 1
        found.append(np.cumprod(factors))
    return found[0], found[1]
