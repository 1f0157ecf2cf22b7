"""Spell misspelt words as they were meant, for an encoder.

An index has only the hashes of words, and a search by words needs no more. An encoder reads letters: "restrat the dokcer"
means nothing to it. It gets the corrected word only where an error is likely, because most words that no skill has are
correct: searching for "form" as well does no harm to a message about foam, reading it so does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np

from prowess.match.lexicon import OTHER_LETTERS, Word, hash_neighbours

# Measured on 260 words of messages that no skill has and that resemble one that a skill has: of those with two letters
# swapped nearly all are errors, of those with a letter missing all but the shortest, of the others only the long ones.
_SHORTEST_MISSING, _SHORTEST_SLIP, _SHORTEST_DOUBLE, _SHORTEST_ANY = 5, 5, 6, 8
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_PLACES = {letter: (row, place + row / 2) for row, keys in enumerate(_KEYS) for place, letter in enumerate(keys)}
_LATIN_WORD = re.compile(r"(?<!\w)[A-Za-z]+(?!\w)")


def correct(text: str, meanings: Mapping[str, Sequence[Word]]) -> str:
    """Return a text with its misspelt words corrected, given the known words that unknown ones may mean."""
    corrected = {word: better for word, found in meanings.items() if (better := _find_spelling(word, found))}
    if not corrected:
        return text
    return _LATIN_WORD.sub(lambda found: corrected.get(found[0].lower(), found[0]), text)


def _find_spelling(word: str, meanings: Sequence[Word]) -> str:
    """Return the first meaning of a word that is likely a correction of it, or ''."""
    spelt = (spell_neighbour(word, meaning.number) for meaning in meanings)
    return next((other for other in spelt if other and _is_likely(word, other)), "")


@lru_cache(maxsize=4_096)
def spell_neighbour(word: str, number: int) -> str:
    """Return the word with this hash that is one typing error away from another; '' if there is none."""
    found = np.flatnonzero(np.concatenate(hash_neighbours(word)) == np.uint64(number))
    if not len(found):
        return ""
    # The order of `hash_neighbours`: another letter, two letters swapped, one more, one less.
    size, letters, place = len(word), len(OTHER_LETTERS), int(found[0])
    ends = list(accumulate((size * letters, size - 1, (size + 1) * letters)))
    kind = bisect_right(ends, place)
    place -= ends[kind - 1] if kind else 0
    if kind == 1:
        return f"{word[:place]}{word[place + 1]}{word[place]}{word[place + 2 :]}"
    if kind == 3:
        return word[:place] + word[place + 1 :]
    at, letter = divmod(place, letters)
    return word[:at] + OTHER_LETTERS[letter] + word[at + (kind == 0) :]


def _is_likely(word: str, other: str) -> bool:
    """Return True if a word is more likely a typing error for another word than a word itself."""
    size = len(word)
    if size >= _SHORTEST_ANY or sorted(word) == sorted(other):
        return True
    if len(other) > size:
        return size >= _SHORTEST_MISSING
    place = next((place for place, (one, two) in enumerate(zip(word, other, strict=False)) if one != two), size - 1)
    if len(other) < size:
        # A letter typed twice.
        return size >= _SHORTEST_DOUBLE and word[place] == word[place - 1]
    return size >= _SHORTEST_SLIP and _are_adjacent(word[place], other[place])


def _are_adjacent(letter: str, other: str) -> bool:
    """Return True for letters whose keys touch."""
    if letter not in _PLACES or other not in _PLACES:
        return False
    (row, place), (other_row, other_place) = _PLACES[letter], _PLACES[other]
    return abs(row - other_row) <= 1 and abs(place - other_place) <= 1
