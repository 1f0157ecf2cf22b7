"""The key terms of a body: the few words that tell what a long text is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from prowess.match.words import words_of

MOST = 30
READ_CHARACTERS = 4_000
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)

Weigh = Callable[[Sequence[str]], NDArray[np.int64]]


def key_terms(body: str, weigh: Weigh) -> list[str]:
    """At most thirty words, the most telling first: frequent ones, weighed by how much a word means.

    Code is left out. The choice depends on this body alone, so that a change elsewhere never changes it.
    """
    counts = Counter(words_of(_FENCE.sub(" ", body[:READ_CHARACTERS])))
    words = sorted(word for word in counts if len(word) > 2 and not word.isdigit())
    if len(words) <= MOST:
        return words
    # √count × weight, squared: whole numbers, so that the order is the same everywhere.
    weights = np.array([counts[word] for word in words], np.int64) * np.square(weigh(words))
    order = np.lexsort((np.arange(len(words)), -weights))
    return [words[place] for place in order[:MOST].tolist()]
