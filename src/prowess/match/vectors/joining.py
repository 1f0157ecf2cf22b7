"""Thousands of words cut into pieces at once: what `Pieces` does to one word, done to the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST = 32
"""Words of more characters are cut one by one: they are few, and would make the table wide for all."""

_ROWS = 8_192
_NO_PIECE = 1 << 30
_EMPTY = (1 << 31) - 1
_UNKNOWN = _EMPTY - 1


class Joining:
    """Which pieces together are a piece, by their numbers."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        characters = {ord(piece): number for piece, number in numbers.items() if len(piece) == 1}
        self._characters_by_code = np.full(max(characters, default=0) + 2, _UNKNOWN, np.int32)
        self._characters_by_code[list(characters)] = list(characters.values())
        self._characters_by_code[0] = _EMPTY
        pairs: list[int] = []
        wholes: list[int] = []
        for piece, number in numbers.items():
            for at in range(1, len(piece)):
                left, right = numbers.get(piece[:at]), numbers.get(piece[at:])
                if left is not None and right is not None:
                    pairs.append(left << 32 | right)
                    wholes.append(number)
        order = np.argsort(np.array(pairs, np.int64))
        # What is looked for and is not there ends at the last place at most.
        self._pairs = np.append(np.array(pairs, np.int64)[order], np.iinfo(np.int64).max)
        self._wholes = np.append(np.array(wholes, np.int32)[order], np.int32(_NO_PIECE))

    def cut(self, words: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Words with the numbers of their pieces. Left out are long words and those with a character that is no piece."""
        ordered = sorted((word for word in words if len(word) <= LONGEST and "\0" not in word), key=len)
        for first in range(0, len(ordered), _ROWS):
            some = np.array(ordered[first : first + _ROWS])
            parts = self._characters(some)
            whole = (parts != _UNKNOWN).all(axis=1)
            yield from zip(some[whole].tolist(), self._joined(parts[whole]), strict=True)

    def _characters(self, words: NDArray[np.str_]) -> NDArray[np.int32]:
        """The numbers of the characters, one row a word, with a place more than the longest needs."""
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
            goes_on = lowest < _NO_PIECE
            done[left[~goes_on]] = parts[~goes_on]
            left, at, lowest = left[goes_on], at[goes_on], lowest[goes_on]
            parts, pairs = _closed(parts[goes_on], at + 1), _closed(pairs[goes_on], at)
            rows = np.arange(len(left))
            parts[rows, at] = lowest
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
        return np.where(self._pairs[places] == pairs, self._wholes[places], np.int32(_NO_PIECE))


def _closed(table: NDArray[np.int32], gone: NDArray[np.int64]) -> NDArray[np.int32]:
    """The rows with one place taken out of each, and what comes after it moved up; the last place stays as it was."""
    closed = table.copy()
    columns: NDArray[np.int64] = np.arange(table.shape[1] - 1, dtype=np.int64)
    moves = columns >= gone[:, np.newaxis]
    np.copyto(closed[:, :-1], table[:, 1:], where=moves)
    return closed
