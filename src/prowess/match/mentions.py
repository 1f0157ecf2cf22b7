"""What a message says outright. Skills that it calls by name: `consistency-checker`, `/review`, `$review`."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from prowess.match.hashing import number_of
from prowess.match.segment import Segment
from prowess.match.words import split

_COMPOUND = re.compile(r"(?<![\w./@-])[a-z0-9]+(?:[-.][a-z0-9]+)+(?![\w@]|-\w|\.\w|/)")
_MARKED = re.compile(r"(?<![\w/.:])[/$]([a-z0-9]+(?:[-.][a-z0-9]+)*)(?![\w/]|\.\w)")
_MOST = 5_000
_FEW = 20


def mentioned(segment: Segment, message: str) -> list[int]:
    """The documents whose slug the message has: one of several words, or any after `/` or `$`."""
    named = _named(message)
    if not named:
        return []
    numbers = np.array([number_of(slug) for slug in named], np.uint64)
    if len(numbers) > _FEW:
        there = np.isin(segment.slugs, numbers)
    else:
        # One by one is far faster than all at once, which sorts.
        there = np.logical_or.reduce([segment.slugs == number for number in numbers])
    return [place for place in np.flatnonzero(there).tolist() if segment.shown(place)["slug"] in named]


def says(message: str, phrase: str) -> bool:
    """Whether the message has a phrase of two words or more, word for word."""
    words = _phrase(phrase)
    return " " in words.strip() and words in _message(message)


def _spoken(text: str) -> str:
    return f" {' '.join(split(text))} "


_message = lru_cache(maxsize=16)(_spoken)
_phrase = lru_cache(maxsize=4_096)(_spoken)


@lru_cache(maxsize=16)
def _named(message: str) -> frozenset[str]:
    """What looks like the name of a skill."""
    text = message.lower()
    compound = _COMPOUND.findall(text) if "-" in text or "." in text else []
    marked = _MARKED.findall(text) if "/" in text or "$" in text else []
    return frozenset(sorted({*compound, *marked})[:_MOST])
