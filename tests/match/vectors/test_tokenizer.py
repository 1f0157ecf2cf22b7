"""Many words cut into pieces at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.match.vectors.static import VECTOR_FILE, VectorTable
from prowess.match.vectors.tokenizer import BATCH_FROM, LONGEST_BATCHED, WORD_START, BatchTokenizer, Tokenizer

LETTERS = [WORD_START, *"abcdefgh"]
LEARNT = ["ab", "cd", "abc", f"{WORD_START}a", "bc", f"{WORD_START}ab", "abcd", "ee", "eee", "gh", "fgh", "hg"]


@pytest.fixture(scope="module")
def numbers():
    pieces = VectorTable.open(VECTOR_FILE).pieces
    return dict(zip(pieces, range(len(pieces)), strict=True))


@pytest.fixture(scope="module")
def joining(numbers):
    return BatchTokenizer(numbers)


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=LONGEST_BATCHED - 1), max_size=20, unique=True))
def test_words_have_the_pieces_that_each_has_alone(words):
    vocabulary = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *LEARNT, *LETTERS]
    pieces, numbers = Tokenizer(vocabulary), dict(zip(vocabulary, range(len(vocabulary)), strict=True))
    found = dict(BatchTokenizer(numbers).cut([WORD_START + word for word in words]))
    expected = {WORD_START + word: pieces.of(word) for word in words}
    assert {word: cut for word, cut in expected.items() if word not in numbers} == {
        word: cut for word, cut in found.items() if word not in numbers
    }
    assert found.keys() == expected.keys()


def test_words_of_the_vocabulary_that_ships_do_too(numbers, joining):
    words = [
        f"{one}{two}" for one in ("hygro", "(Nozzle", "x2", "micro-", "Straße") for two in ("meters", "ing).", "7")
    ]
    pieces = Tokenizer(list(numbers))
    found = dict(joining.cut([WORD_START + word for word in words]))
    assert found == {WORD_START + word: pieces.of(word) for word in words}


def test_long_words_and_those_with_unknown_characters_are_left_out(joining):
    words = [WORD_START + word for word in ("x" * LONGEST_BATCHED, "\U0001f9ff", "a\0b", "\ud800", "plain")]
    assert [word for word, _ in joining.cut(words)] == [f"{WORD_START}plain"]


def test_what_is_learnt_at_once_is_what_each_word_gives_alone(numbers):
    together, alone = Tokenizer(list(numbers)), Tokenizer(list(numbers))
    words = [f"quux{number}zot," for number in range(BATCH_FROM)] + ["", "a\0b", "é" * 40, "日本"]
    together.learn(words)
    assert len(together._words) >= BATCH_FROM
    assert [together.of(word) for word in words] == [alone.of(word) for word in words]
