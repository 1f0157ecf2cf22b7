"""Words as 64-bit numbers, and the numbers of all words that are one typing error away."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

_BASE = 0x9E37_79B9_7F4A_7C15
_MASK = (1 << 64) - 1
LONGEST = 64
"""Neighbours are computed of words up to this length."""

_FEW = 32
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"

Numbers = NDArray[np.uint64]


def number_of(word: str) -> int:
    """The number of a word: a polynomial in its bytes, so that those of its neighbours can be computed."""
    number = 0
    for byte in word.encode("utf-8", "replace"):
        number = (number * _BASE + byte + 1) & _MASK
    return number


def numbers_of(words: Sequence[str]) -> Numbers:
    """The numbers of many words: the first byte of all at once, then the second of those that have one, and so on."""
    if len(words) < _FEW:
        return np.array([number_of(word) for word in words], np.uint64)
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


def one_edit_away(word: str) -> tuple[Numbers, Numbers]:
    """The numbers of all words one typing error away: those of the same length, and those that are not.

    An error is one letter more, one less, another one, or two neighbours swapped.
    """
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
def _powers() -> Numbers:
    return np.array([pow(_BASE, place, 1 << 64) for place in range(LONGEST + 2)], np.uint64)
