"""The key terms of a body: the few words that tell what a long text is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from prowess.match.words import words_of

MOST = 30
READ_CHARACTERS = 4_000
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)


def counted(body: str) -> dict[str, int]:
    """How often each word comes in a body that may be a key term. Code is left out."""
    text = body[:READ_CHARACTERS]
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(" ", text)
    counts = Counter(words_of(text))
    return {word: count for word, count in counts.items() if len(word) > 2 and not word.isdigit()}


def key_terms(counts: Mapping[str, int], weights: Mapping[str, int]) -> list[str]:
    """At most thirty words, the most telling first: frequent ones, weighed by how much a word means.

    The choice depends on this body alone, so that a change elsewhere never changes it.
    """
    if len(counts) <= MOST:
        return sorted(counts)
    # √count × weight, squared: whole numbers, so that the order is the same everywhere.
    ordered = sorted([(-count * weights[word] ** 2, word) for word, count in counts.items()])
    return [word for _, word in ordered[:MOST]]
