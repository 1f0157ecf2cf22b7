"""What is found for a message, and what is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prowess.catalog.document import Document
from prowess.match.index import Index
from prowess.match.ranking import MOST, listed, rank
from prowess.match.recommendation import DECISIONS
from prowess.match.stopwords import STOP_WORDS

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
        Document(slug="quotes", description="Writes quotes for customers. Not for invoices, bills or reminders."),
        Document(slug="bills", description="Writes invoices, bills and reminders for customers."),
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
        Document(slug="form", description="Fills out the form."),
        Document(slug="farm", description="Runs the farm."),
    ]
    index = Index.build(documents)
    assert [item.terms for item in rank(index, "farm", limit=2)[0].evidence] == [("farm",), ("farm",)]
    assert all(one.evidence == () for one in rank(index, "farm", limit=2)[1:])


# Tags


def test_only_skills_with_all_the_tags_are_ranked(index):
    assert set(slugs(rank(index, INVOICE, limit=20, tags=["finance"]))) <= {"invoice-reader", "quotation-writer"}
    assert slugs(rank(index, INVOICE, limit=20, tags=["FINANCE", " pdf "])) == ["invoice-reader"]
    assert rank(index, INVOICE, limit=20, tags=["finance", "garden"]) == []
    assert rank(index, INVOICE, limit=20, tags=["nosuchtag"]) == []


def test_without_a_query_the_skills_with_the_tags_are_listed_by_slug(index, office):
    assert slugs(listed(index, limit=100)) == sorted(document.slug for document in office)
    assert slugs(listed(index, limit=100, tags=["writing"])) == [
        "changelog-writer",
        "meeting-minutes",
        "quotation-writer",
    ]
    assert slugs(listed(index, limit=2)) == ["accessibility-audit", "cafe-menu"]
    assert listed(index, limit=0) == listed(index, limit=-1) == []
    assert {one.score for one in listed(index, limit=100)} == {0.0}


def test_a_skill_without_a_description_is_listed_and_never_ranks(index):
    assert "silent-one" in slugs(listed(index, limit=100, tags=["finance"]))
    for message in ("silent invoices", "/silent-one", "silent-one", "totals of invoices"):
        assert "silent-one" not in slugs(rank(index, message, limit=MOST))


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
    index = Index.build([Document(slug="review", description="Reviews code.")])
    assert "names it" in rank(index, "/review", limit=1)[0].why
    assert "names it" not in rank(index, "please review this", limit=1)[0].why


def test_what_a_message_points_at_is_ranked_among_any_number_of_others():
    crowd = [
        Document(slug=f"invoice-tool-{number}", description="Extracts totals and due dates from supplier invoices.")
        for number in range(200)
    ]
    named = Document(slug="zeta-probe", description="Unrelated words about astronomy.")
    fitting = Document(slug="omega", description="Something about gardens.", patterns=(r"due dates from",))
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
            Document(slug="tidy-garden", description="Tidies up the garden."),
            Document(slug="tidy-kitchen", description="Tidies up the kitchen."),
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
    assert rank(empty, INVOICE, limit=5) == listed(empty, limit=5) == []
    assert empty.size == 0


def test_a_catalog_that_became_empty_finds_nothing(index, office):
    empty = index.updated([], [document.slug for document in office])
    assert rank(empty, INVOICE, limit=5) == listed(empty, limit=5) == []
    assert empty.digest == Index.build([]).digest


# How many, and in what order


def test_the_limit_bounds_the_results(index, matcher):
    whole = rank(index, INVOICE, limit=MOST)
    assert len(whole) > 3
    for limit in (1, 2, 3):
        assert slugs(rank(index, INVOICE, limit=limit)) == slugs(whole)[:limit]
    assert rank(index, INVOICE, limit=0) == rank(index, INVOICE, limit=-7) == []
    assert matcher.match(INVOICE, limit=0) == matcher.search("", limit=-1) == []
    assert slugs(rank(index, INVOICE, limit=10**30)) == slugs(whole)


@pytest.mark.parametrize("message", [INVOICE, "writing", "check the pages", "/sql-tuner for the greenhouse", "发票"])
def test_scores_run_from_one_to_zero_down_the_list_and_agree_with_the_decisions(index, message):
    found = rank(index, message, limit=MOST)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    order = [DECISIONS.index(one.decision) for one in found]
    assert order == sorted(order)
    assert len(set(slugs(found))) == len(found)


class Blind:
    """An embedder that sees nothing, so that skills of the same words are equals."""

    name = "blind"
    dimensions = 64

    def embed(self, texts):
        return np.zeros((len(texts), self.dimensions), np.int8)


def equals(count: int) -> Index:
    """Skills that say the same: their slugs differ by words that carry no meaning."""
    text = "Waters the plants of the balcony."
    same = [Document(slug=f"{word}-plants", description=text) for word in sorted(STOP_WORDS)[:count]]
    others = [Document(slug=f"other-{number}", description="Something else.") for number in range(2 * count)]
    return Index.build([*same, *others], Blind())


@pytest.mark.parametrize("limit", [1, 5, 20])
def test_equals_are_told_apart_by_their_slugs(limit):
    found = slugs(rank(equals(20), "water the balcony plants", limit=limit))
    assert found == [f"{word}-plants" for word in sorted(STOP_WORDS)[:limit]]


@pytest.mark.parametrize("limit", [10, 60, 120])
def test_as_many_are_ranked_as_are_asked_for_where_so_many_have_the_words(limit):
    found = slugs(rank(equals(120), "water the balcony plants", limit=limit))
    assert len(set(found)) == limit


FILLER = "well so then I was thinking about it and after that we went on with it " * 70


def test_a_long_message_finds_what_its_few_telling_words_mean(matcher):
    message = f"{FILLER} please extract the totals from the supplier invoice {FILLER}"
    assert len(message.split()) > 2_000
    assert matcher.rank(message)[0].slug == "invoice-reader"


def test_what_is_asked_at_the_end_of_a_long_message_counts(matcher):
    message = f"{FILLER} {FILLER} please extract the totals from the supplier invoice"
    assert matcher.rank(message)[0].slug == "invoice-reader"


def test_search_gives_what_has_a_word_of_the_query(matcher):
    assert slugs(matcher.search("deadlock"))[0] == "sql-tuner"
    assert slugs(matcher.search("writing"))[0] in {"quotation-writer", "changelog-writer", "meeting-minutes"}
    assert all(one.evidence for one in matcher.search("writing"))
    assert matcher.search("xyzzyplugh") == []


@pytest.mark.parametrize("query", ["morning", "agree"])
def test_the_limit_of_a_search_counts_what_has_a_word_of_the_query(matcher, query):
    assert slugs(matcher.search(query)) == slugs(matcher.search(query, limit=1)) == ["greenhouse-keeper"]


def test_a_search_without_words_lists_by_tag(matcher):
    assert slugs(matcher.search(tags=["writing"])) == slugs(matcher.search("  ", tags=["Writing"]))
