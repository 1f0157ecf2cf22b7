"""Typing errors: one edit in some of the longer words, the same ones in every run."""

from __future__ import annotations

import random
import re

SHARE = 0.3
LEAST_LETTERS = 5
LONG_WORD = re.compile(rf"[A-Za-z]{{{LEAST_LETTERS},}}")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def with_typos(message: str, seed: str) -> str:
    """The message with one edit (a letter dropped, added, replaced or swapped) in three of ten longer words."""
    chance = random.Random(seed)
    return LONG_WORD.sub(lambda word: edited(word[0], chance) if chance.random() < SHARE else word[0], message)


def edited(word: str, chance: random.Random) -> str:
    """The word after one edit, which always changes it."""
    place = chance.randrange(1, len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    other = chance.choice([candidate for candidate in LETTERS if candidate != letter.lower()])
    swapped = before + after[0] + letter + after[1:]
    kinds = [before + after, before + other + letter + after, before + other + after]
    return chance.choice([*kinds, swapped] if after[0] != letter else kinds)
