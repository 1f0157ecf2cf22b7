"""The text of a skill as embedders get it: a card `[head, part, part, …]`, and the key of its vectors.

Everything comes from the public fields that a segment keeps, so a card can be made again from a saved index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import add
from struct import Struct
from typing import Any

from prowess.match.words import (
    STOP_WORDS,
    UNUSUAL_TOKEN,
    extract_words,
    remove_exclusions,
    slug_words,
    split_ascii,
    split_clauses,
)

MAX_CLAUSES = 8
"""The most parts from a description; neighbours are joined until it has no more."""
MAX_PHRASES = 8
"""The most parts from trigger phrases, likewise."""
_LONGEST_PART = 1_000
_pack_length, _unpack_key = Struct("<Q").pack, Struct("<2Q").unpack_from
NO_KEY = (0, 0)
"""The key of a card without anything to embed."""


def name_words(slug: str, title: str) -> str:
    """Return slug and title without repeated words: most titles repeat the slug."""
    words = slug_words(slug)
    # Nothing to add in the most frequent case, without splitting the title into words.
    if title == slug or ((title.istitle() or title.islower()) and set(words.split()).issuperset(title.lower().split())):
        return words
    if title.isascii() and not UNUSUAL_TOKEN.search(title):
        told = split_ascii(title.lower())
        # A title of stop words alone keeps them.
        if set(words.split()).issuperset(told) and not STOP_WORDS.issuperset(told):
            return words
    known = set(extract_words(words))
    return " ".join([words, *(word for word in extract_words(title) if word not in known)])


def make_card(head: str, clauses: Sequence[str], phrases: Sequence[str], tags: str) -> list[str]:
    """Return a card from the words of the name, the clauses of the description, the trigger phrases and the tags.

    [] without a clause: a skill that does not say what it is for is never ranked.
    """
    clauses = _joined(clauses, MAX_CLAUSES)
    if not clauses:
        return []
    return [" ".join(head.split())[:_LONGEST_PART], *clauses, *_joined(phrases, MAX_PHRASES), *_joined([tags], 1)]


def card_of(shown: Mapping[str, Any]) -> list[str]:
    """Return the card of a skill from its public fields in a segment."""
    clauses = split_clauses(remove_exclusions(shown["description"]))
    return make_card(name_words(shown["slug"], shown["title"]), clauses, shown["triggers"], " ".join(shown["tags"]))


def card_key(card: Sequence[str]) -> tuple[int, int]:
    """Return the first 128 bits of the SHA-256 of a card as two numbers, or `NO_KEY` if it is empty."""
    if not card:
        return NO_KEY
    parts = [part.encode("utf-8", "surrogatepass") for part in card]
    # The length first, so that text moved from one part to the next gives another key.
    told = b"".join(chain.from_iterable(zip(map(_pack_length, map(len, parts)), parts, strict=True)))
    return _unpack_key(hashlib.sha256(told).digest())


def _joined(texts: Sequence[str], count: int) -> list[str]:
    """Return texts without extra space, the shortest neighbours joined until there are no more than `count`."""
    found = [short[:_LONGEST_PART] for short in map(" ".join, map(str.split, texts)) if short]
    while len(found) > count:
        lengths = list(map(len, found))
        sums = list(map(add, lengths, lengths[1:]))
        place = sums.index(min(sums))
        found[place : place + 2] = [f"{found[place]} {found[place + 1]}"[:_LONGEST_PART]]
    return found
