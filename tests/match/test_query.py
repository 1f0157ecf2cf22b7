"""What is said outright: the tags that are asked for, a skill by its name, and what was said before."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.ranking import MAX_RESULTS, list_tagged, rank

INVOICE = "please extract the totals and due dates from this supplier invoice"


def slugs(found):
    return [one.slug for one in found]


# Tags


def test_only_skills_with_all_the_tags_are_ranked(index):
    assert set(slugs(rank(index, INVOICE, limit=20, tags=["finance"]))) <= {"invoice-reader", "quotation-writer"}
    assert slugs(rank(index, INVOICE, limit=20, tags=["FINANCE", " pdf "])) == ["invoice-reader"]
    assert rank(index, INVOICE, limit=20, tags=["finance", "garden"]) == []
    assert rank(index, INVOICE, limit=20, tags=["nosuchtag"]) == []


def test_without_a_query_the_skills_with_the_tags_are_listed_by_slug(index, office):
    assert slugs(list_tagged(index, limit=100)) == sorted(document.slug for document in office)
    assert slugs(list_tagged(index, limit=100, tags=["writing"])) == [
        "changelog-writer",
        "meeting-minutes",
        "quotation-writer",
    ]
    assert slugs(list_tagged(index, limit=2)) == ["accessibility-audit", "cafe-menu"]
    assert list_tagged(index, limit=0) == list_tagged(index, limit=-1) == []
    assert {one.score for one in list_tagged(index, limit=100)} == {0.0}


def test_a_skill_without_a_description_is_listed_and_never_ranks(index):
    assert "silent-one" in slugs(list_tagged(index, limit=100, tags=["finance"]))
    for message in ("silent invoices", "/silent-one", "silent-one", "totals of invoices"):
        assert "silent-one" not in slugs(rank(index, message, limit=MAX_RESULTS))


# The name of a skill


@pytest.mark.parametrize(
    "message",
    [
        "/key-rotation",
        "$key-rotation",
        "please run /key-rotation now",
        "use key-rotation",
        "Use Key-Rotation, please.",
        "run `key-rotation` on the supplier invoices with their totals and due dates",
    ],
)
def test_a_skill_that_is_called_by_its_slug_comes_first_and_is_offered(matcher, message):
    best = matcher.match(message)[0]
    assert (best.slug, best.decision) == ("key-rotation", "offer")
    assert "names it" in best.why


@pytest.mark.parametrize("message", ["see src/key-rotation/main.py", "mail me@key-rotation.com", "pre-key-rotation-x"])
def test_a_path_or_an_address_is_no_call(index, message):
    assert all("names it" not in one.why for one in rank(index, message, limit=20))


def test_a_slug_of_one_word_is_a_call_only_with_a_mark():
    index = Index.build([SearchDocument(slug="review", description="Reviews code.")])
    assert "names it" in rank(index, "/review", limit=1)[0].why
    assert "names it" not in rank(index, "please review this", limit=1)[0].why


def test_what_a_message_points_at_is_ranked_among_any_number_of_others():
    crowd = [
        SearchDocument(
            slug=f"invoice-tool-{number}", description="Extracts totals and due dates from supplier invoices."
        )
        for number in range(200)
    ]
    named = SearchDocument(slug="zeta-probe", description="Unrelated words about astronomy.")
    fitting = SearchDocument(slug="omega", description="Something about gardens.", patterns=(r"due dates from",))
    index = Index.build([*crowd, named, fitting])
    found = rank(index, f"{INVOICE} with zeta-probe", limit=2)
    assert set(slugs(found)) == {"zeta-probe", "omega"}
    assert {one.decision for one in found} == {"offer"}


def test_a_call_is_heard_among_many_compound_words(matcher):
    message = " ".join(f"alpha-beta{number}" for number in range(100)) + " /sql-tuner"
    assert "names it" in matcher.rank(message)[0].why


# What was said before


def test_context_tells_apart_what_the_message_leaves_open():
    index = Index.build(
        [
            SearchDocument(slug="tidy-garden", description="Tidies up the garden."),
            SearchDocument(slug="tidy-kitchen", description="Tidies up the kitchen."),
        ]
    )
    assert first_slug_with(index, "tidy up", "the kitchen is a mess") == "tidy-kitchen"
    assert first_slug_with(index, "tidy up", "the garden is a mess") == "tidy-garden"


def first_slug_with(index, message, context):
    return rank(index, message, limit=1, context=context)[0].slug


def test_context_counts_less_than_the_message(index):
    assert first_slug_with(index, "the watering of my greenhouse", INVOICE) == "greenhouse-keeper"
    assert first_slug_with(index, INVOICE, "the watering of my greenhouse") == "invoice-reader"


def test_words_of_the_context_are_no_evidence(index):
    for one in rank(index, "the watering of my greenhouse", limit=20, context=INVOICE):
        assert not {term for item in one.evidence for term in item.terms} & {"totals", "invoice", "supplier"}


def test_context_alone_is_enough_to_be_read_but_never_raises(matcher):
    for context in ("", " ", "\ud800", "x" * 200_000, INVOICE):
        assert matcher.rank("", context=context) == matcher.rank("", context=context)


# Several forms of a word


def test_two_forms_of_a_word_weigh_as_much_as_one_form_twice(index):
    def lexical(message):
        return {one.slug: one.signals["lexical"] for one in rank(index, message, limit=20)}

    assert lexical("invoices quotations quotations") == lexical("invoices quotation quotations")
