"""Find a request inside a long message: a few of its sentences are ranked on their own, too.

The vector of a long message is a mean. Measured on 240 requests of one sentence, inside 150 words about other things: the
right skill was first for 24 %, and offered for 3 %; with passages, for about 50 % and 28 %.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from prowess.errors import Unavailable
from prowess.match.index import Index
from prowess.match.lexicon import shared_lexicon
from prowess.match.query import Query, build_query
from prowess.match.vectors.embedder import SCALE
from prowess.match.words import extract_words

LEAST_WORDS = 12
"""A message with fewer different words has no passages."""
MAX_SENTENCES = 16
"""Of a longer message, the first half and the second half of these."""
MAX_COMPARED = 6
"""The sentences with the most informative words, whose vectors are compared: vectors take most of the time."""
MAX_PASSAGES = 3
"""How many of these are ranked: those that differ most from the others."""
_SHORTEST, _LONGEST = 25, 200
"""The letters of the shortest sentence, and of one that is too long to be a single one."""
_STRETCH, _STEP = 20, 10
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n+")

# In log odds. Among more sentences, one resembles a skill by chance. And a sentence that says the same as the whole message
# is not its request, but a part of it: the whole message then says more.
_LENGTH_PENALTY, _LIKENESS_PENALTY, _USUAL_LIKENESS = 0.3, 7.0, 0.25


class Passage(NamedTuple):
    """A sentence of a message."""

    query: Query
    penalty: float
    """What its scores lose, in log odds."""


def find_passages(index: Index, query: Query) -> list[Passage]:
    """Return the sentences of a long message to be ranked on their own."""
    if not query.has_vector or len(query.words) < LEAST_WORDS:
        return []
    sentences = split_sentences(query.asked)
    if len(sentences) < 2:
        return []
    base = _LENGTH_PENALTY * math.log(len(sentences))
    sentences = _most_telling(sentences)
    try:
        rows = index.embedder.embed(sentences)
    except Unavailable:
        return []
    # Integers, so that the sums are the same on every machine.
    wide = rows.astype(np.int64)
    others = wide @ wide.sum(axis=0) - np.square(wide).sum(axis=1)
    chosen: list[int] = sorted(np.argsort(others, kind="stable")[:MAX_PASSAGES].tolist())
    likeness: list[float] = (wide @ query.embedded.astype(np.int64) / float(SCALE**2)).tolist()
    return [
        Passage(
            build_query(index, sentences[place], vector=rows[place]),
            base + _LIKENESS_PENALTY * max(likeness[place] - _USUAL_LIKENESS, 0.0),
        )
        for place in chosen
        if rows[place].any()
    ]


def _most_telling(sentences: Sequence[str]) -> Sequence[str]:
    if len(sentences) <= MAX_COMPARED:
        return sentences
    lexicon = shared_lexicon()
    weights = [sum([known.weight for known in lexicon.words(extract_words(sentence))]) for sentence in sentences]
    chosen = sorted(range(len(sentences)), key=lambda place: -weights[place])[:MAX_COMPARED]
    return [sentences[place] for place in sorted(chosen)]


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text; short ones are joined to the one before or after.

    Of a text without punctuation, overlapping stretches of words.
    """
    found: list[str] = []
    for sentence in chain.from_iterable(map(_split_unpunctuated, map(str.strip, _SENTENCE_END.split(text)))):
        if found and len(found[-1]) < _SHORTEST:
            found[-1] += f" {sentence}"
        elif sentence:
            found.append(sentence)
    if len(found) > 1 and len(found[-1]) < _SHORTEST // 2:
        found[-2:] = [" ".join(found[-2:])]
    return _without_middle(found)


def _split_unpunctuated(sentence: str) -> Iterator[str]:
    """Yield a sentence, or stretches of one that is too long to be one: of dictated text, for example."""
    words = sentence.split() if len(sentence) > _LONGEST else []
    if len(words) <= 2 * _STRETCH:
        yield sentence
        return
    for first in range(0, len(words) - _STEP, _STEP):
        yield " ".join(words[first : first + _STRETCH])


def _without_middle(sentences: Sequence[str]) -> list[str]:
    half = MAX_SENTENCES // 2
    return [*sentences] if len(sentences) <= MAX_SENTENCES else [*sentences[:half], *sentences[-half:]]
