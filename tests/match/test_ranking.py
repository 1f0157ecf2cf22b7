"""What is found for a message, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.ranking import list_tagged, rank

INVOICE = "please extract the totals and due dates from this supplier invoice"

CHIT_CHAT = """
hello
hi there!
good morning
how are you today?
thanks a lot
ok
yes please
no
lol
what time is it
tell me a joke
who are you
I am bored
what is the capital of France
who won the world cup in 1998
happy birthday to you
🙂🙂🙂
...
asdf qwer zxcv
what is the meaning of life
""".strip().splitlines()


def slugs(found):
    return [one.slug for one in found]


# By which words a skill is found


@pytest.mark.parametrize(
    ("message", "slug", "field"),
    [
        ("a reader for invoices", "invoice-reader", "name"),
        ("turn this transcript into action items", "meeting-minutes", "description"),
        ("something for the garden", "greenhouse-keeper", "tags"),
        ("does the timeline add up here", "consistency-checker", "triggers"),
        ("we ran into a deadlock", "sql-tuner", "keywords"),
        ("what do encarsia wasps eat", "greenhouse-keeper", "body"),
        ("please rotate the api keys", "key-rotation", "patterns"),
    ],
)
def test_a_skill_is_found_by_each_of_its_fields(first, message, slug, field):
    best = first(message)
    assert best.slug == slug
    assert field in [item.field for item in best.evidence]


@pytest.mark.parametrize(
    ("message", "slug"),
    [
        (INVOICE, "invoice-reader"),
        ("what do we owe this supplier", "invoice-reader"),
        ("are there any contradictions in my manuscript", "consistency-checker"),
        ("why is this database query so slow", "sql-tuner"),
        ("write the release notes from the merged pull requests", "changelog-writer"),
        ("check the contrast of these web pages for screen readers", "accessibility-audit"),
    ],
)
def test_a_plain_request_is_offered_the_right_skill(matcher, message, slug):
    best = matcher.match(message)[0]
    assert (best.slug, best.decision) == (slug, "offer")


def test_endings_of_words_do_not_matter(first):
    assert first("extracting a total from invoicing suppliers").slug == "invoice-reader"


def test_a_whole_trigger_phrase_counts_more_than_its_words_apart(first):
    whole = first("does the timeline of my novel add up")
    apart = first("timeline")
    assert whole.slug == apart.slug == "consistency-checker"
    assert whole.score > apart.score


def test_what_a_skill_is_not_for_does_not_find_it(index):
    for message in ("writing payslips", "payslips", "help me write a payslip"):
        best = {one.slug: one for one in rank(index, message, limit=20)}
        assert best.get("invoice-reader") is None or "payslip" not in " ".join(best["invoice-reader"].why.split())
    assert first_slug(index, "draft a quotation for this customer") == "quotation-writer"


def test_what_follows_such_a_clause_does(first):
    best = first("convert currencies")
    assert best.slug == "invoice-reader"
    assert best.decision != "no"


def first_slug(index, message):
    return rank(index, message, limit=1)[0].slug


def test_not_for_invoices_leaves_the_invoices_to_others(digested):
    documents = [
        SearchDocument(slug="quotes", description="Writes quotes for customers. Not for invoices, bills or reminders."),
        SearchDocument(slug="bills", description="Writes invoices, bills and reminders for customers."),
    ]
    plain = replace(documents[0], description="Writes quotes for customers.")
    found = rank(Index.build(map(digested, documents)), "write invoices and bills", limit=2)
    assert slugs(found) == ["bills", "quotes"]
    without = rank(Index.build(map(digested, [plain, documents[1]])), "write invoices and bills", limit=2)
    assert [(one.slug, one.score, one.evidence) for one in found] == [
        (one.slug, one.score, one.evidence) for one in without
    ]


# Typing errors


@pytest.mark.parametrize(
    ("typed", "slug"),
    [
        ("vaction planner", "vacation-planner"),
        ("vacatoin planner", "vacation-planner"),
        ("vaccation planner", "vacation-planner"),
        ("vacatiom planner", "vacation-planner"),
        ("my greenhuose", "greenhouse-keeper"),
        ("acessibility of web pages", "accessibility-audit"),
        ("inconsistent manuscrpit", "consistency-checker"),
        ("supplier invioces", "invoice-reader"),
        ("tranzcript of a meeting", "meeting-minutes"),
    ],
)
def test_one_typing_error_in_a_word_is_forgiven(first, typed, slug):
    assert first(typed).slug == slug


def test_the_evidence_of_a_mistyped_word_is_the_word_as_it_was_typed(first):
    best = first("vacatoin")
    assert best.slug == "vacation-planner"
    assert [(item.field, item.terms) for item in best.evidence] == [("name", ("vacatoin",))]


def test_a_word_that_skills_have_is_never_taken_for_another():
    documents = [
        SearchDocument(slug="form", description="Fills out the form."),
        SearchDocument(slug="farm", description="Runs the farm."),
    ]
    index = Index.build(documents)
    assert [item.terms for item in rank(index, "farm", limit=2)[0].evidence] == [("farm",), ("farm",)]
    assert all(one.evidence == () for one in rank(index, "farm", limit=2)[1:])


# None


@pytest.mark.parametrize("message", CHIT_CHAT)
def test_a_message_that_no_skill_fits_gives_none(matcher, message):
    assert matcher.match(message) == []


@pytest.mark.parametrize("message", ["", "   ", "\n\t", "?!", "\x00", "……"])
def test_a_message_without_words_gives_none(matcher, message):
    assert matcher.match(message) == matcher.match(message, context=INVOICE) == matcher.search(f"{message}?") == []


@pytest.mark.parametrize(
    "message",
    [
        "",
        "   ",
        *(pytest.param(text) for text in ("?!", "……")),
    ],
)
def test_a_message_without_words_ranks_nothing(matcher, message):
    assert matcher.rank(message) == []


def test_an_empty_catalog_finds_nothing():
    empty = Index.build([])
    assert rank(empty, INVOICE, limit=5) == list_tagged(empty, limit=5) == []
    assert empty.size == 0


def test_a_match_is_the_ranking_without_the_skills_that_do_not_fit(matcher):
    ranked = matcher.rank(INVOICE, limit=20)
    fitting = [one for one in ranked if one.decision != "no"]
    assert 0 < len(fitting) < len(ranked)
    assert matcher.match(INVOICE, limit=20) == fitting


def test_a_catalog_that_became_empty_finds_nothing(index, office):
    empty = index.updated([], [document.slug for document in office])
    assert rank(empty, INVOICE, limit=5) == list_tagged(empty, limit=5) == []
    assert empty.digest == Index.build([]).digest


@pytest.mark.parametrize("message", ["zorbamat", "can you set up zorbamat for me"])
def test_a_name_that_only_one_skill_has_finds_it(office, message):
    named = SearchDocument(slug="kitchen-timer", description="Times the kitchen. Works with Zorbamat.")
    found = rank(Index.build([*office, named]), message, limit=3)
    assert found[0].slug == "kitchen-timer"
    assert found[0].decision != "no"


def test_an_everyday_word_that_only_one_skill_has_is_no_reason_to_offer_it(office):
    working = SearchDocument(slug="kitchen-timer", description="Times the kitchen while you work.")
    found = rank(Index.build([*office, working]), "thanks, that worked", limit=3)
    assert {one.decision for one in found} == {"no"}


def test_a_keyword_counts_by_its_share_of_the_message(office):
    billing = SearchDocument(slug="ledger", description="Closes the books of the month.", keywords=("invoicing",))
    index = Index.build([*office, billing])
    (alone,) = [one for one in rank(index, "invoicing", limit=9) if one.slug == "ledger"]
    longer = [
        one for one in rank(index, "plant tulips, roses and herbs, not invoicing", limit=9) if one.slug == "ledger"
    ]
    assert alone.decision == "offer"
    assert all(one.score < alone.score for one in longer)
