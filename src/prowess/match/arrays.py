"""Operations on ragged arrays: lists of different lengths in one numpy array, with the offset of each list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def offsets_of(lengths: Sequence[int] | Array) -> Array:
    """Return the start of each list, and the end of the last."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def sort_unique(numbers: Array) -> Array:
    """Return the distinct numbers in ascending order; `np.unique` imports a package that nothing else needs."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def rank_unique(numbers: Array) -> tuple[Array, Array]:
    """Return the distinct numbers in ascending order, and the place of each number among them."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    places = np.empty(len(order), np.int64)
    places[order] = is_new.cumsum() - 1
    return ordered[is_new], places


def expand_slices(begins: Array, ends: Array) -> tuple[Array, Array]:
    """Return the positions in several slices, concatenated, and the start of each slice among them."""
    lengths = ends - begins
    last = lengths.cumsum()
    starts = last - lengths
    total = int(last[-1]) if len(last) else 0
    # An item's position in its array is its position in the result plus the shift of its slice.
    return np.repeat(begins - starts, lengths) + np.arange(total), starts


def take_slices(array: Array, starts: Array, chosen: Array) -> Array:
    """Return the concatenated contents of the chosen lists, given in ascending order; adjacent lists are copied in one go."""
    if not len(chosen):
        return array[:0]
    breaks = np.flatnonzero(np.diff(chosen) != 1)
    begins = starts[chosen[np.append(0, breaks + 1)]]
    ends = starts[chosen[np.append(breaks, len(chosen) - 1)] + 1]
    return np.concatenate([array[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])


def count_documents(words: Array, documents: Array, size: int) -> Array:
    """Return the number of documents for each of `size` words; the arrays pair words with documents."""
    # Word and document as the halves of one number: a sort of plain numbers then finds the distinct pairs.
    pairs = sort_unique(words.astype(np.uint64) << np.uint64(32) | documents.astype(np.uint64))
    return np.bincount((pairs >> np.uint64(32)).astype(np.int64), minlength=size).astype(np.int32)


def find_sorted(table: Array, numbers: Array) -> tuple[Array, Array]:
    """Return the positions of numbers in a sorted table, and which of them it contains."""
    if not len(table):
        return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
    places = table.searchsorted(numbers)
    # For numbers beyond the last, `searchsorted` returns the length, which is not a valid position. The comparison
    # below fails for them at position 0.
    places[places == len(table)] = 0
    return places, table[places] == numbers
