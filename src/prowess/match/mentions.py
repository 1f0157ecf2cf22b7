"""What a message says outright. Skills that it calls by name: `consistency-checker`, `/review`, `$review`."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from prowess.match.arrays import Array
from prowess.match.hashing import number_of
from prowess.match.segment import Segment
from prowess.match.words import split

_COMPOUND = re.compile(r"(?<![\w./@-])[a-z0-9]+(?:[-.][a-z0-9]+)+(?![\w@]|-\w|\.\w|/)")
_MARKED = re.compile(r"(?<![\w/.:])[/$]([a-z0-9]+(?:[-.][a-z0-9]+)*)(?![\w/]|\.\w)")
_MOST = 5_000


def mentioned(segment: Segment, message: str) -> list[int]:
    """The documents whose slug the message has: one of several words, or any after `/` or `$`."""
    text = message.lower()
    named = {*_COMPOUND.findall(text), *_MARKED.findall(text)}
    if not named:
        return []
    numbers = np.array([number_of(slug) for slug in list(named)[:_MOST]], np.uint64)
    places: Array = np.flatnonzero(np.isin(segment.slugs, numbers))
    return [place for place in places.tolist() if segment.shown(place)["slug"] in named]


def says(message: str, phrase: str) -> bool:
    """Whether the message has a phrase of two words or more, word for word."""
    words = split(phrase)
    return len(words) > 1 and f" {' '.join(words)} " in f" {_spoken(message)} "


@lru_cache(maxsize=16)
def _spoken(message: str) -> str:
    return " ".join(split(message))
