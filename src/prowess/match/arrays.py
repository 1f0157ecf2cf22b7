"""Stretches: many lists of different lengths, kept one after the other in one array with the places where each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def starts_of(lengths: Sequence[int] | Array) -> Array:
    """Where each of several stretches begins, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def stretches(begins: Array, ends: Array) -> tuple[Array, Array]:
    """The places of several stretches, one after the other, and where each begins among them."""
    lengths = ends - begins
    last = lengths.cumsum()
    starts = last - lengths
    total = int(last[-1]) if len(last) else 0
    return np.repeat(begins - starts, lengths) + np.arange(total), starts


def ranges(starts: Array, chosen: Array) -> Array:
    """The places of some of the stretches that begin at `starts`."""
    return stretches(starts[chosen], starts[chosen + 1])[0]


def document_counts(phrase_words: Array, phrase_start: Array, word_start: Array, words: int) -> Array:
    """In how many documents each word is."""
    per_document = word_start[phrase_start]
    owner = np.repeat(np.arange(len(per_document) - 1, dtype=np.uint64), np.diff(per_document))
    pairs = np.unique(owner << np.uint64(32) | phrase_words.astype(np.uint64))
    return np.bincount((pairs & np.uint64(0xFFFF_FFFF)).astype(np.int64), minlength=words).astype(np.int32)


def locate(table: Array, numbers: Array) -> tuple[Array, Array]:
    """Where numbers stand in an ascending table, and which of them do."""
    if not len(table):
        return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
    places = np.searchsorted(table, numbers)
    places[places == len(table)] = 0
    return places, table[places] == numbers
