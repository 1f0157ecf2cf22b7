"""Byte pair encoding: split words into the pieces that a model knows, one word or thousands at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LONGEST_BATCHED = 32
"""Longer words are encoded one by one: they are few, and would make the table wide for all."""

_ROWS = 8_192
_NO_MERGE = 1 << 30
_EMPTY = (1 << 31) - 1
_UNKNOWN = _EMPTY - 1


class BatchTokenizer:
    """Splits thousands of words at once: the merges of `Tokenizer`, applied to the rows of a table."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        characters = {ord(piece): number for piece, number in numbers.items() if len(piece) == 1}
        # One item more than needed: it stands for all characters with larger codes, which are not pieces.
        self._characters_by_code = np.full(max(characters, default=0) + 2, _UNKNOWN, np.int32)
        self._characters_by_code[list(characters)] = list(characters.values())
        self._characters_by_code[0] = _EMPTY
        pairs: list[int] = []
        wholes: list[int] = []
        for piece, number in numbers.items():
            # A piece may be the result of several pairs.
            for at in range(1, len(piece)):
                left, right = numbers.get(piece[:at]), numbers.get(piece[at:])
                if left is not None and right is not None:
                    pairs.append(left << 32 | right)
                    wholes.append(number)
        order = np.argsort(np.array(pairs, np.int64))
        # A last item larger than any pair, so that `searchsorted` never returns a position beyond the end.
        self._pairs = np.append(np.array(pairs, np.int64)[order], np.iinfo(np.int64).max)
        self._wholes = np.append(np.array(wholes, np.int32)[order], np.int32(_NO_MERGE))

    def cut(self, words: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield words with their piece numbers, except long words and those with characters that are not pieces."""
        # Sorted by length, so that the rows of one table are about equally long. numpy pads text with NUL characters,
        # so a word that contains one would be cut short.
        ordered = sorted((word for word in words if len(word) <= LONGEST_BATCHED and "\0" not in word), key=len)
        for first in range(0, len(ordered), _ROWS):
            some = np.array(ordered[first : first + _ROWS])
            parts = self._characters(some)
            whole = (parts != _UNKNOWN).all(axis=1)
            yield from zip(some[whole].tolist(), self._joined(parts[whole]), strict=True)

    def _characters(self, words: NDArray[np.str_]) -> NDArray[np.int32]:
        """Return the numbers of the characters, one row per word, with one spare column."""
        # numpy stores text as 32-bit code points.
        codes = words.view(np.uint32).reshape(len(words), -1)
        parts = np.full((codes.shape[0], codes.shape[1] + 1), _EMPTY, np.int32)
        parts[:, :-1] = self._characters_by_code[np.minimum(codes, len(self._characters_by_code) - 1)]
        return parts

    def _joined(self, parts: NDArray[np.int32]) -> list[tuple[int, ...]]:
        done = np.empty_like(parts)
        left = np.arange(len(parts))
        pairs = self._look_up(parts[:, :-1], parts[:, 1:])
        while len(left):
            at = pairs.argmin(axis=1)
            lowest = pairs[np.arange(len(left)), at]
            goes_on = lowest < _NO_MERGE
            done[left[~goes_on]] = parts[~goes_on]
            left, at, lowest = left[goes_on], at[goes_on], lowest[goes_on]
            parts, pairs = _close_gaps(parts[goes_on], at + 1), _close_gaps(pairs[goes_on], at)
            rows = np.arange(len(left))
            parts[rows, at] = lowest
            # A merge changes only the pairs to its left and right.
            pairs[rows, at] = self._look_up(lowest, parts[rows, at + 1])
            inner = np.flatnonzero(at)
            before = at[inner] - 1
            pairs[inner, before] = self._look_up(parts[inner, before], lowest[inner])
        is_part = done != _EMPTY
        numbers, ends = done[is_part].tolist(), is_part.sum(axis=1).cumsum().tolist()
        return [tuple(numbers[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]

    def _look_up(self, left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int32]:
        pairs = left.astype(np.int64) << 32 | right
        places = np.searchsorted(self._pairs, pairs)
        return np.where(self._pairs[places] == pairs, self._wholes[places], np.int32(_NO_MERGE))


def _close_gaps(table: NDArray[np.int32], gone: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the rows with one item removed from each; the last column keeps its value."""
    closed = table.copy()
    columns: NDArray[np.int64] = np.arange(table.shape[1] - 1, dtype=np.int64)
    moves = columns >= gone[:, np.newaxis]
    np.copyto(closed[:, :-1], table[:, 1:], where=moves)
    return closed


WORD_START = "▁"
LONGEST_STRETCH = 256
"""A longer word is cut at this many characters first, so that the time stays linear for any input."""

BATCH_FROM = 10_000
"""From this many new words on, a batch pays for building its table."""
_BATCH_FROM_READY = 200
"""The same if the table exists already."""

_CACHE_SIZE = 100_000
_MAX_LEARNT = 75_000
_NO_PIECE = 1 << 30
_FIRST_BYTE = 3
"""The numbers 3 to 258 are single bytes, for characters that are not pieces."""


class Tokenizer:
    """Byte pair encoding over a vocabulary in which earlier merges have lower numbers.

    Of all adjacent pairs that form a piece, the one with the lowest number is merged, leftmost first, until none is left.
    The word-start mark occurs only at the beginning of pieces, so words can be encoded one by one.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = dict(zip(pieces, range(len(pieces)), strict=True))
        self._words: dict[str, tuple[int, ...]] = {}
        self._joining: BatchTokenizer | None = None

    def of(self, word: str) -> tuple[int, ...]:
        """Return the piece numbers of one word without spaces, from a cache."""
        known = self._words.get(word)
        if known is not None:
            return known
        numbers = self._cut(WORD_START + word)
        if len(self._words) >= _CACHE_SIZE:
            self._words.clear()
        if len(word) <= LONGEST_STRETCH:
            self._words[word] = numbers
        return numbers

    def learn(self, words: Iterable[str]) -> None:
        """Fill the cache with the pieces of words; many at once take a third of the time."""
        known = self._words
        new = [word for word in dict.fromkeys(words) if word and word not in known]
        if len(new) < (BATCH_FROM if self._joining is None else _BATCH_FROM_READY):
            return
        new = [WORD_START + word for word in new[:_MAX_LEARNT]]
        if len(known) + len(new) > _CACHE_SIZE:
            # A new dictionary: another thread may still be reading the old one.
            known = self._words = {}
        for word, numbers in self._joins().cut([word for word in new if word not in self._numbers]):
            known[word.removeprefix(WORD_START)] = numbers

    def of_text(self, text: str, limit: int) -> list[int]:
        """Return the piece numbers of a text, at most `limit`; white space only separates words."""
        numbers: list[int] = []
        known = self._words.get
        for word in text.split():
            numbers += known(word) or self.of(word)
            if len(numbers) >= limit:
                return numbers[:limit]
        return numbers

    def _joins(self) -> BatchTokenizer:
        if self._joining is None:
            self._joining = BatchTokenizer(self._numbers)
        return self._joining

    def _cut(self, text: str) -> tuple[int, ...]:
        whole = self._numbers.get(text)
        if whole is not None:
            return (whole,)
        numbers: list[int] = []
        for start in range(0, len(text), LONGEST_STRETCH):
            for piece in self._joined(list(text[start : start + LONGEST_STRETCH])):
                number = self._numbers.get(piece)
                if number is None:
                    numbers += (_FIRST_BYTE + byte for byte in piece.encode("utf-8", "replace"))
                else:
                    numbers.append(number)
        return tuple(numbers)

    def _joined(self, parts: list[str]) -> list[str]:
        number = self._numbers.get
        pairs = [number(left + right, _NO_PIECE) for left, right in pairwise(parts)]
        while pairs:
            lowest = min(pairs)
            if lowest == _NO_PIECE:
                break
            at = pairs.index(lowest)
            del pairs[at]
            joined = parts[at] + parts.pop(at + 1)
            parts[at] = joined
            if at < len(pairs):
                pairs[at] = number(joined + parts[at + 1], _NO_PIECE)
            if at:
                pairs[at - 1] = number(parts[at - 1] + joined, _NO_PIECE)
        return parts
