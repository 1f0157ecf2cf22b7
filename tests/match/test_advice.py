"""Which words are worth telling an author."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.collisions import content_words, find_missing_words, is_informative, matched_terms, purpose_stems
from prowess.match.recommendation import Evidence, Recommendation

INVOICES = SearchDocument(slug="acme.invoice-reader", title="Invoices", description="Reads bills.", body="Hygrometer.")


def test_the_words_of_a_slug_are_said_and_those_of_the_body_are_not():
    assert {"acm", "invoic", "reader", "read", "bill"} == purpose_stems(INVOICES)


def test_words_are_known_by_their_stems_and_shown_as_they_stand():
    assert content_words("Tested the tests of invoices") == {"test": "tested", "invoic": "invoices"}


@pytest.mark.parametrize("word", ["2024", "x", "the"])
def test_numbers_single_letters_and_words_of_every_sentence_help_nobody(word):
    assert not is_informative(word)
    assert find_missing_words(INVOICES, [f"{word} greenhouse", word]) == [("greenhouse", 1)]


@pytest.mark.parametrize("word", ["c++", "票", "greenhouse"])
def test_other_words_do(word):
    assert is_informative(word)


def test_the_words_by_which_a_skill_was_found_come_once_and_without_those_of_its_body():
    found = Recommendation(
        slug="a", title="", description="", tags=(), scope="user", digest="", score=1.0, decision="offer",
        evidence=(
            Evidence(field="name", count=2, terms=("Bills", "totals")),
            Evidence(field="description", count=1, terms=("bills",)),
            Evidence(field="body", count=1, terms=("secret",)),
        ),
    )  # fmt: skip
    assert matched_terms(found) == ["bills", "totals"]
