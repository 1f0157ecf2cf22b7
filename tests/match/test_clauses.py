"""What a description says a skill is not for."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.match.words import MAX_CLAUSES, extract_words, remove_exclusions, split_clauses, split_words

PROSE = st.lists(
    st.sampled_from(
        [
            *["reads", "bills", "totals", "and", "dates", "not", "for", "a", "quotes"],
            ",",
            ".",
            ";",
            ":",
            " — ",
            "\n",
            " - ",
            "! ",
            "? ",
            "  ",
        ]
    ),
    max_size=60,
).map(" ".join)


@pytest.mark.parametrize(
    "clause",
    [
        "Not for quotations.",
        "NOT FOR quotations!",
        "Not suitable for quotations;",
        "Not intended for quotations.",
        "Not meant for quotations.",
        "Do not use for quotations.",
        "Do NOT trigger on quotations.",
        "Don't use it for quotations.",
        "Don’t use it for quotations.",
        "Does not apply to quotations.",
        "Never use for quotations.",
        "Avoid using for quotations.",
        "Skip this for quotations.",
        "Skip when there are quotations.",
        "Should not be used for quotations.",
        "Must not be used for quotations.",
        "Unsuitable for quotations.",
        "**Not for** quotations.",
        "(not for quotations).",
        "Not to be used with quotations.",
        "This skill is not for quotations.",
        "It is NOT intended for quotations.",
        "This isn't meant for quotations.",
        "Please do not use for quotations.",
        "You should not use it for quotations.",
        "When not to use: quotations.",
        "Not recommended for quotations.",
        "Does not cover quotations.",
        "Not for .docx files, version 2.0 or quotations.",
        "Not for offers (e.g. quotations).",
    ],
)
def test_what_a_skill_is_not_for_is_left_out_and_what_follows_stays(clause):
    text = f"Reads bills. {clause} Also converts currencies."
    words = extract_words(remove_exclusions(text))
    assert "quotations" not in words
    assert {"bills", "converts", "currencies"} <= set(words)


@pytest.mark.parametrize(
    "text",
    [
        "Reads bills, not for quotations",
        "Reads bills but not for quotations",
        "Reads bills — not for quotations",
        "Reads bills - not for quotations",
        "Reads bills\nNot for quotations\n",
        "Reads bills (not for quotations)",
        "Not for quotations. Reads bills",
    ],
)
def test_the_clause_may_stand_anywhere(text):
    assert extract_words(remove_exclusions(text)) == ["reads", "bills"]


@pytest.mark.parametrize(
    "text",
    [
        "Use when something is not found or does not work.",
        "Explains why tests do not pass.",
        "Finds what is not formatted.",
        "Knots for sailors.",
        "Helps to avoid mistakes.",
        "Shows what the user does not see.",
        "Knows when it is not safe.",
    ],
)
def test_an_ordinary_not_stays(text):
    assert extract_words(remove_exclusions(text)) == extract_words(text)


def test_a_description_without_such_a_clause_stays_as_it_is():
    text = "Reads bills, totals and due dates. Use it for suppliers: all of them — always!"
    assert remove_exclusions(text) == text


def test_sentences_and_list_members_are_parts_of_their_own():
    assert split_clauses("Reads supplier bills. Use it for invoices, credit notes - and reminders: everything") == [
        "Reads supplier bills.",
        "Use it for invoices",
        "credit notes",
        "and reminders",
        "everything",
    ]


def test_what_is_too_short_to_stand_alone_joins_the_part_before():
    assert split_clauses("Reads bills, PDF, CSV") == ["Reads bills PDF CSV"]


def test_no_text_has_more_than_so_many_parts():
    text = ". ".join(f"This is sentence number {number}" for number in range(100))
    assert len(split_clauses(text)) == MAX_CLAUSES
    assert split_words(" ".join(split_clauses(text))) == split_words(text)


@given(PROSE | st.text(st.characters(codec=None)))
def test_no_word_is_lost_in_parts(text):
    assert Counter(word for part in split_clauses(text) for word in split_words(part)) == Counter(split_words(text))


@given(st.text(st.characters(codec=None)) | PROSE)
def test_leaving_clauses_out_adds_nothing(text):
    assert not Counter(split_words(remove_exclusions(text))) - Counter(split_words(text))
