"""Misspelt words, as an encoder reads them."""

from __future__ import annotations

import numpy as np
import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.lexicon import Word, hash_neighbours, hash_word
from prowess.match.ranking import rank
from prowess.match.spelling import correct, spell_neighbour


@pytest.mark.parametrize("word", ["dokcer", "abcd"])
def test_every_neighbour_can_be_spelt(word: str):
    for number in np.concatenate(hash_neighbours(word)).tolist():
        assert hash_word(spell_neighbour(word, number)) == number


def test_a_word_that_is_no_neighbour_is_not_spelt():
    assert spell_neighbour("dokcer", hash_word("container")) == ""


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("nmae", "name"),
        ("dokcer", "docker"),
        ("sript", "script"),
        ("allways", "always"),
        ("dicker", "docker"),
        ("seperate", "separate"),
        ("plattform", "platform"),
    ],
)
def test_likely_errors_are_corrected(word: str, meaning: str):
    assert correct(f"My {word.title()}, {word}s!", {word: [_word(meaning)]}) == f"My {meaning}, {word}s!"


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("foam", "form"), ("otel", "hotel"), ("baking", "making"), ("wetter", "better"), ("gradle", "grade")],
)
def test_words_that_are_probably_meant_as_they_are_stay(word: str, meaning: str):
    assert correct(f"a {word}", {word: [_word(meaning)]}) == f"a {word}"


def test_the_first_likely_meaning_counts():
    assert correct("the lable", {"lable": [_word("table"), _word("label")]}) == "the label"


def test_a_misspelt_message_means_what_the_correct_one_means():
    index = Index.build(
        [
            SearchDocument(slug="docker-manager", description="Restart and manage Docker containers and images."),
            SearchDocument(slug="poems", description="Write poems about the sea."),
        ]
    )
    right, wrong = (rank(index, text, limit=1)[0] for text in ("restart docker", "restrat dokcer"))
    assert right.slug == wrong.slug == "docker-manager"
    assert right.signals["cosine"] == wrong.signals["cosine"]


def _word(text: str) -> Word:
    return Word(hash_word(text), hash_word(text), 1000)
