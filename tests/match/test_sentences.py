"""A request of one sentence inside a long message about other things."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.ranking import rank
from prowess.match.sentences import MAX_SENTENCES, split_sentences
from prowess.match.vectors.embedder import WordsOnly

BEFORE = (
    "The trams were not running this morning, so I came in late, and then the coffee machine was broken. "
    "Priya has finished the new desks on the third floor, and everybody is happy with them. "
    "After lunch we talked about the holidays and about who waters the plants in July."
)
AFTER = (
    "Tomorrow I am at the dentist until eleven, so leave me a note if there is anything. "
    "And the cake in the kitchen is for everybody, Tom turned forty yesterday."
)
REQUEST = "Please restart the containers that hang."


@pytest.fixture(scope="module")
def documents() -> list[SearchDocument]:
    return [
        SearchDocument(slug="merge-pdfs", description="Merge several PDF files into one document."),
        SearchDocument(slug="docker-manager", description="Restart and manage Docker containers and images."),
        SearchDocument(slug="invoice-writer", description="Write invoices for customers from a list of hours."),
        SearchDocument(slug="slide-maker", description="Make slides for a presentation from an outline."),
    ]


@pytest.fixture(scope="module")
def skills(documents: list[SearchDocument]) -> Index:
    return Index.build(documents)


def test_a_sentence_of_a_long_message_is_enough_for_an_offer(skills: Index):
    (found,) = rank(skills, f"{BEFORE} {REQUEST} {AFTER}", limit=1, fitting=True)
    assert (found.slug, found.decision) == ("docker-manager", "offer")
    assert found.signals["sentence"] > 0


def test_it_counts_less_than_a_message_of_its_own(skills: Index):
    (alone,) = rank(skills, REQUEST, limit=1)
    (inside,) = rank(skills, f"{BEFORE} {REQUEST} {AFTER}", limit=1)
    assert inside.score < alone.score
    assert alone.signals["sentence"] == 0


def test_a_long_message_without_a_request_gets_no_offer(skills: Index):
    assert rank(skills, f"{BEFORE} {AFTER}", limit=5, fitting=True) == []


def test_each_request_of_a_long_message_finds_its_skill(skills: Index):
    message = f"{BEFORE} {REQUEST} {AFTER} Then merge the PDF files of the surveyor into one document."
    found = rank(skills, message, limit=4)
    assert {one.slug for one in found[:2]} == {"docker-manager", "merge-pdfs"}
    assert len({one.slug for one in found}) == len(found) == 4
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_request_in_dictated_text_is_found(skills: Index):
    spoken = f"{BEFORE} {REQUEST} {AFTER}".lower()
    spoken = "".join(letter for letter in spoken if letter.isalnum() or letter == " ")
    assert rank(skills, spoken, limit=1)[0].slug == "docker-manager"


def test_the_limit_holds(skills: Index):
    assert len(rank(skills, f"{BEFORE} {REQUEST} {AFTER}", limit=1)) == 1


def test_without_vectors_words_decide(documents: list[SearchDocument]):
    found = rank(Index.build(documents, WordsOnly()), f"{BEFORE} {REQUEST} {AFTER}", limit=4)
    assert found[0].slug == "docker-manager"
    assert not any(one.signals["sentence"] for one in found)


def test_short_sentences_are_joined_and_no_text_is_lost():
    assert split_sentences("Hi there. How are you today, my dear friend? Fine.") == [
        "Hi there. How are you today, my dear friend? Fine."
    ]
    parts = split_sentences(f"{BEFORE}\n- {REQUEST}\n\n{AFTER}")
    assert " ".join(parts).split() == f"{BEFORE} - {REQUEST} {AFTER}".split()


def test_only_the_beginning_and_the_end_of_a_very_long_message_are_split():
    sentences = [f"This is the sentence with number {number} of a very long story." for number in range(100)]
    half = MAX_SENTENCES // 2
    assert split_sentences(" ".join(sentences)) == sentences[:half] + sentences[-half:]


def test_a_text_without_punctuation_is_cut_into_stretches():
    words = [f"word{number}" for number in range(95)]
    stretches = split_sentences(" ".join(words))
    assert [word for stretch in stretches for word in stretch.split()] == words
    assert len(stretches) == 5
