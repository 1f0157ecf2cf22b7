"""The numbers of words, and of those one typing error away."""

from __future__ import annotations

import random
import string

from hypothesis import given
from hypothesis import strategies as st

from prowess.match.lexicon import LONGEST_HASHED, hash_neighbours, hash_word, hash_words

LETTERS = string.ascii_lowercase + string.digits
WORD = st.text(string.ascii_lowercase, min_size=2, max_size=LONGEST_HASHED)


def neighbours(word: str) -> set[int]:
    return {int(number) for numbers in hash_neighbours(word) for number in numbers}


def edited(word: str) -> set[str]:
    """Every word one error away, made letter by letter."""
    cuts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    dropped = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1}
    changed = {head + letter + tail[1:] for head, tail in cuts if tail for letter in LETTERS}
    added = {head + letter + tail for head, tail in cuts for letter in LETTERS}
    return dropped | swapped | changed | added


@given(WORD)
def test_the_neighbours_of_a_word_are_all_words_one_error_away_and_no_others(word):
    assert neighbours(word) == set(map(hash_word, edited(word)))


@given(WORD)
def test_neighbours_of_the_same_length_come_apart_from_the_others(word):
    same, other = hash_neighbours(word)
    assert {int(number) for number in same} == {hash_word(one) for one in edited(word) if len(one) == len(word)}
    assert {int(number) for number in other} == {hash_word(one) for one in edited(word) if len(one) != len(word)}


@given(st.text(string.ascii_lowercase, min_size=5, max_size=20), st.randoms(use_true_random=False))
def test_a_word_two_errors_away_is_no_neighbour(word, chance: random.Random):
    once = edited(word)
    twice = chance.choice(sorted(edited(chance.choice(sorted(once)))))
    assert (hash_word(twice) in neighbours(word)) == (twice in once)


@given(st.lists(st.text(st.characters(codec=None)), unique=True))
def test_different_words_have_different_numbers_of_64_bits(words):
    sound = {word.encode("utf-8", "replace") for word in words}
    numbers = {hash_word(word) for word in words}
    assert len(numbers) == len(sound)
    assert all(0 <= number < 1 << 64 for number in numbers)


def test_a_number_is_the_same_on_every_machine():
    numbers = [0, 98, 15096024902669285712, 9881488149505468583]
    assert [hash_word(word) for word in ("", "a", "invoice", "发票")] == numbers


@given(st.lists(st.text(st.characters(codec=None)), max_size=100))
def test_the_numbers_of_many_words_are_those_of_each(words):
    assert hash_words(words).tolist() == [hash_word(word) for word in words]


def test_the_numbers_of_few_and_of_thousands_of_words_are_those_of_each():
    words = [f"word{number}" * (number % 7) for number in range(3_000)]
    for some in ([], words[:1], words):
        assert hash_words(some).tolist() == [hash_word(word) for word in some]
