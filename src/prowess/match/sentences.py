"""Split a message into sentences, each of which may ask for another skill.

The vector of a long message is a mean: a request of one sentence in it, or one of several requests, is lost. Measured on
messages with two or three requests, and on requests inside a story: see `SENTENCE_GAIN` in `candidates.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

MAX_SENTENCES = 24
"""Of a longer message, the first half and the second half of these."""
_SHORTEST, _LONGEST = 25, 200
"""The letters of the shortest sentence, and of one that is too long to be a single one."""
_STRETCH = 20
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n+")


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text; short ones are joined to the one before or after.

    Of a text without punctuation, stretches of 20 words.
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
    for first in range(0, len(words), _STRETCH):
        yield " ".join(words[first : first + _STRETCH])


def _without_middle(sentences: Sequence[str]) -> list[str]:
    half = MAX_SENTENCES // 2
    return [*sentences] if len(sentences) <= MAX_SENTENCES else [*sentences[:half], *sentences[-half:]]
