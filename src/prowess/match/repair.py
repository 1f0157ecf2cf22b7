"""What an unknown word may mean: a known one that is a typing error away, or the parts of a compound."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from prowess.match.arrays import Array, locate
from prowess.match.hashing import LONGEST, number_of, one_edit_away
from prowess.match.index import Index
from prowess.match.lexicon import Word, static

MOST = 3
_SHORTEST = 4
_SHORTEST_COMPOUND = 9
_LINKS = ("", "s", "es", "n", "en", "e")
"""What German puts between the parts of a compound."""


def meanings_of(index: Index, word: str) -> list[Word]:
    """What a word that no skill has may mean, likeliest first; at most three terms."""
    if len(word) < _SHORTEST or len(word) > LONGEST or not word.isascii() or not word.isalpha() or static().knows(word):
        return []
    same, other = one_edit_away(word)
    found = _known(index, same)
    if len(found) < MOST:
        found += [meaning for meaning in _known(index, other) if meaning.term not in {known.term for known in found}]
    return found[:MOST] or _parts(index, word)


def _known(index: Index, numbers: Array) -> list[Word]:
    """Of these words those that skills have, the most used first, one for each term."""
    ranked: list[tuple[int, int, Word]] = []
    for part in index.parts:
        segment = part.segment
        places, there = locate(segment.words, numbers)
        for place in np.unique(
            places[there & (part.word_count[places] > 0)] if len(segment.words) else places[:0]
        ).tolist():
            term = int(segment.terms[segment.word_term[place]])
            meaning = Word(
                int(segment.words[place]), term, segment.word_vectors[place], int(segment.word_weight[place])
            )
            ranked.append((index.count(term), meaning.number, meaning))
    ranked.sort(key=lambda entry: (-entry[0], entry[1]))
    found: dict[int, Word] = {}
    for _, _, meaning in ranked:
        found.setdefault(meaning.term, meaning)
    return list(found.values())


def _parts(index: Index, word: str) -> list[Word]:
    """The two known words that a long word is made of, cut where the shorter of them is longest."""
    if len(word) < _SHORTEST_COMPOUND:
        return []
    cuts = range(_SHORTEST, len(word) - _SHORTEST + 1)
    for cut in sorted(cuts, key=lambda place: abs(2 * place - len(word))):
        tail = _known(index, _numbers([word[cut:]]))
        head = _known(index, _numbers(_heads(word[:cut]))) if tail else []
        if head:
            return [head[0], tail[0]]
    return []


def _heads(text: str) -> Iterable[str]:
    """The first part of a compound with and without what links it."""
    return (text.removesuffix(link) for link in _LINKS if text.endswith(link) and len(text) - len(link) >= _SHORTEST)


def _numbers(words: Iterable[str]) -> Array:
    return np.array([number_of(word) for word in words], np.uint64)
