"""Cards: the texts of a skill that embedders get, and the keys of their vectors."""

from __future__ import annotations

import numpy as np

from prowess.catalog.store import SearchDocument
from prowess.match.card import MAX_CLAUSES, MAX_PHRASES, card_key, card_of, make_card
from prowess.match.index import Index


def keys(*documents: SearchDocument) -> dict[str, tuple[int, int]]:
    """The key of each document in an index, by slug."""
    segment = Index.build(documents).parts[0].segment
    return {segment.shown(place)["slug"]: tuple(segment.vector_keys[place].tolist()) for place in range(segment.size)}


def test_a_card_is_the_name_then_the_clauses_the_trigger_phrases_and_the_tags() -> None:
    document = SearchDocument(
        slug="invoice-reader",
        title="Invoice Reader Pro",
        description="Reads bills.  Extracts the totals. Not for payslips.",
        triggers=("what do we owe",),
        tags=("billing", "office"),
    )
    segment = Index.build([document]).parts[0].segment
    assert card_of(segment.shown(0)) == [
        "invoice reader pro",
        "Reads bills.",
        "Extracts the totals.",
        "what do we owe",
        "billing office",
    ]


def test_the_card_of_a_saved_skill_has_the_key_that_the_index_holds(office) -> None:
    segment = Index.build(office).parts[0].segment
    made = [card_key(card_of(segment.shown(place))) for place in range(segment.size)]
    assert made == list(map(tuple, segment.vector_keys.tolist()))


def test_keys_survive_a_merge_of_segments(office) -> None:
    whole = Index.build(office)
    grown = Index.build(office[:4])
    for document in office[4:]:
        grown = grown.updated([document])
    pairs = [
        {part.segment.shown(at)["slug"]: part.segment.vector_keys[at].tolist() for at in np.flatnonzero(part.alive)}
        for index in (whole, grown)
        for part in index.parts
    ]
    merged: dict[str, list[int]] = {}
    for pair in pairs[1:]:
        merged.update(pair)
    assert merged == pairs[0]


def test_a_skill_without_a_description_has_no_card() -> None:
    assert keys(SearchDocument(slug="silent", description="  ", triggers=("say it",))) == {"silent": (0, 0)}


def test_only_the_text_of_a_card_decides_about_its_key() -> None:
    one = SearchDocument(slug="a", description="Reads bills.", digest="1", body="One.")
    other = SearchDocument(slug="a", description="Reads  bills.\n", digest="2", body="Two.", scope="account")
    third = SearchDocument(slug="a", description="Reads bills", digest="1")
    assert keys(one) == keys(other) != keys(third)


def test_text_moved_from_one_part_to_the_next_gives_another_key() -> None:
    assert card_key(["ab", "c"]) != card_key(["a", "bc"]) != card_key(["abc"])


def test_many_clauses_and_phrases_are_joined_with_their_neighbours_and_none_is_lost() -> None:
    clauses = [f"clause {number}" for number in range(20)]
    phrases = [f"phrase {number}" for number in range(40)]
    card = make_card("head", clauses, phrases, "tag")
    assert len(card) == 1 + MAX_CLAUSES + MAX_PHRASES + 1
    assert " ".join(card) == " ".join(["head", *clauses, *phrases, "tag"])


def test_a_lone_surrogate_in_a_text_is_no_error() -> None:
    assert card_key(["a", "\ud800"]) != card_key(["a", "\ud801"])
