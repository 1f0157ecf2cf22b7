"""Which trigger phrases are suggested for missed messages, and what is measured about them.

Invented words make a message match nothing but the phrase that has them, however matching weighs the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.matcher import Matcher
from prowess.match.trigger_eval import TriggerReport, evaluate_triggers
from prowess.match.trigger_phrases import (
    MAX_PHRASES,
    Suggestion,
    find_neighbours,
    needs_phrases,
    propose_phrases,
    suggest_phrases,
)
from prowess.skill.evals import TriggerCase

INVOICES = SearchDocument(
    slug="invoice-reader", title="Invoice reader", description="Extracts totals and due dates from supplier invoices."
)
MINUTES = SearchDocument(
    slug="meeting-minutes", title="Meeting minutes", description="Turns the transcript of a meeting into minutes."
)
GARDEN = SearchDocument(
    slug="garden-planner", title="Garden planner", description="Plans when to sow and harvest vegetables in a garden."
)
MATCHER = Matcher.of(Index.build([INVOICES, MINUTES, GARDEN]))


def evaluate(wanted: Sequence[str], unwanted: Sequence[str] = (), document: SearchDocument = INVOICES) -> TriggerReport:
    cases = [
        TriggerCase(query=query, should_trigger=query in wanted, file="evals/triggers.json")
        for query in (*wanted, *unwanted)
    ]
    return evaluate_triggers(MATCHER, document, cases)


def suggest(
    wanted: Sequence[str], unwanted: Sequence[str] = (), neighbours: Mapping[str, Sequence[str]] | None = None
) -> list[Suggestion]:
    return suggest_phrases(MATCHER, INVOICES, evaluate(wanted, unwanted), neighbours or {})


def recall_with(phrases: Sequence[str], wanted: Sequence[str]) -> float:
    document = SearchDocument(
        slug=INVOICES.slug, title=INVOICES.title, description=INVOICES.description, triggers=tuple(phrases)
    )
    cases = [TriggerCase(query=query, should_trigger=True, file="") for query in wanted]
    return evaluate_triggers(MATCHER.with_documents([document]), document, cases).recall


def test_a_phrase_of_a_missed_message_is_suggested_with_the_figures_before_and_after():
    missed = "please could you tremble the quixling gramble for me"
    [first, *_] = suggest([missed])
    assert first.caught == (missed,)
    assert (first.before.found, first.after.found) == (0, 1)
    assert first.taken == ()
    assert not {"please", "could", "you", "for", "me"} & set(first.phrase.split())


def test_the_figures_hold_when_the_phrases_are_added():
    wanted = ["fold the vorpal blanderby", "is there a mimsy snarkle left", "polish seven gyrish wabes"]
    phrases = [one.phrase for one in suggest(wanted)]
    assert recall_with([], wanted) == 0
    assert recall_with(phrases, wanted) == 1


def test_words_that_missed_messages_share_come_first_and_catch_them_all():
    wanted = ["find the quixling of the gramble", "my gramble lost its quixling", "sweep the vorpal yard"]
    first, second, *_ = suggest(wanted)
    assert {"quixling", "gramble"} >= set(first.phrase.split()) - {"of", "the", "lost", "its"}
    assert set(first.caught) == set(wanted[:2])
    assert second.caught == (wanted[2],)
    assert second.before == first.after


def test_nothing_is_suggested_that_a_message_which_should_not_trigger_would_find():
    assert suggest(["feed the quixling"]) != []
    assert suggest(["feed the quixling"], ["feed the quixling", "feeding quixlings"]) == []
    found = suggest(["feed the quixling near the vorpal gate"], ["feed the quixling"])
    assert all("vorpal" in one.phrase for one in found)
    assert all(one.after.false_triggers == 0 for one in found)


def test_a_phrase_that_takes_no_message_of_a_neighbour_is_preferred():
    neighbours = {"garden-planner": ["harvest the quixling gramble"]}
    found = suggest(["quixling gramble, then the vorpal blanderby"], neighbours=neighbours)
    assert found[0].phrase == "vorpal blanderby"
    assert all(one.taken == () for one in found)


def test_a_phrase_that_takes_a_message_of_a_neighbour_names_both():
    neighbours = {"garden-planner": ["harvest the quixling gramble"]}
    [only] = suggest(["the quixling gramble"], neighbours=neighbours)
    assert only.phrase == "quixling gramble"
    assert [(one.slug, one.message) for one in only.taken] == [("garden-planner", "harvest the quixling gramble")]


def test_a_message_that_both_skills_ship_is_not_taken():
    message = "the quixling gramble"
    [only] = suggest([message], neighbours={"garden-planner": [message]})
    assert only.taken == ()


def test_a_skill_that_is_offered_for_all_its_messages_needs_no_phrases():
    good = evaluate(["extract totals and due dates from supplier invoices"])
    assert not needs_phrases(good)
    assert suggest_phrases(MATCHER, INVOICES, good, {}) == []
    assert needs_phrases(evaluate(["feed the quixling"]))


def test_a_message_that_is_only_a_maybe_may_become_an_offer():
    report = evaluate_triggers(
        MATCHER, INVOICES, [TriggerCase(query="the quixling gramble", should_trigger=True, file="")], at="offer"
    )
    [only] = suggest_phrases(MATCHER, INVOICES, report, {}, at="offer")
    assert (only.before.offered, only.after.offered) == (0, 1)


def test_neighbours_are_the_skills_that_compete_and_those_near_its_messages():
    bills = SearchDocument(slug="bills", title="Bills", description="Extracts totals and due dates from invoices.")
    matcher = MATCHER.with_documents([bills])
    cases = [TriggerCase(query="sow vegetables after the meeting", should_trigger=True, file="")]
    found = find_neighbours(matcher, INVOICES, evaluate_triggers(matcher, INVOICES, cases))
    assert found[0] == "bills"
    assert {"garden-planner", "meeting-minutes"} <= set(found)
    assert "invoice-reader" not in found


@pytest.mark.parametrize(("message", "phrase"), [
    ("Could you please trim this video", "trim this video"),
    ("rename `foo bar` in /etc/hosts: the spare host table", "spare host table"),
    ("kannst du das Video kürzen", "Video kürzen"),
    ("请帮我剪短视频", "剪短视频"),
    ("quixling", "quixling"),
])  # fmt: skip
def test_a_phrase_is_the_informative_part_of_a_message(message, phrase):
    assert propose_phrases(INVOICES, [message])[0] == phrase


def test_quotes_paths_and_numbers_are_not_part_of_a_phrase():
    phrases = propose_phrases(INVOICES, ['translate "hello there" in docs/guide.md to Klingon, 20 lines a page'])
    assert phrases
    assert not any(word in phrase for phrase in phrases for word in ("hello", "docs", "guide", "20"))


def test_a_single_word_is_a_phrase_only_if_it_looks_like_a_name():
    phrases = propose_phrases(INVOICES, ["shrink my mp4 before the weekend", "a PDF for the weekend", "rewrite in C++"])
    assert {phrase for phrase in phrases if " " not in phrase} == {"mp4", "PDF", "C++"}


def test_the_number_of_phrases_is_bounded_and_every_message_has_its_turn():
    messages = [" ".join(f"quix{row}x{column}" for column in range(50)) for row in range(30)]
    phrases = propose_phrases(INVOICES, messages)
    assert len(phrases) == MAX_PHRASES
    assert {phrase.split()[0].split("x")[1] for phrase in phrases} == {str(row) for row in range(30)}


def test_a_message_without_informative_words_gives_no_phrase():
    assert propose_phrases(INVOICES, ["", "can you do it for me?", "12 34", "und das ist es"]) == []
