"""Why a skill was found, and what is not told."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prowess.match.ranking import MAX_RESULTS, rank
from prowess.match.recommendation import FIELD_NAMES
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.words import split_words

BODY_WORDS = ("hygrometer", "misting", "nozzles", "whitefly", "encarsia", "wasps", "flumoxscript", "morning")

WORDS = st.sampled_from(
    [
        "invoice",
        "invioce",
        "totals",
        "supplier",
        "bill",
        "query",
        "slow",
        "deadlock",
        "garden",
        "greenhouse",
        "encarsia",
        "hygrometer",
        "timeline",
        "vacaton",
        "rotate",
        "keys",
        "the",
        "for",
        "my",
        "please",
        "C++",
        "naïve",
        "café",
        "发票",
        "敬語",
        "이력서",
        "/sql-tuner",
        "key-rotation",
        "CVE-2024-12345",
    ]
)
MESSAGES = st.lists(WORDS, max_size=12).map(" ".join) | st.text(st.characters(codec=None))
HARD = (
    '"invoice', "-invoice", "tag:finance", "inv*", "(invoice", "invoice)", "NOT invoice", "a AND b", "a OR b",
    "NEAR(invoice, 3)", "invoice^3", "[invoice]", "{x}", "invoice~2", "\\", "%", "_", "'; DROP TABLE skills; --",
    "\x00", "\ud800invoice\udfff", "İstanbul", "ﬃ", "\u202e", "💳" * 50, "a" * 100_000, "/", "$", "/-", "/.", "$$", "//x",
)  # fmt: skip


def test_the_text_of_a_body_is_never_disclosed(index, office):
    for message in (*BODY_WORDS, " ".join(BODY_WORDS), "encarsai hygrometr"):
        for one in rank(index, message, limit=MAX_RESULTS):
            said = set(split_words(message))
            told = json.dumps(one.as_json(explain=True), ensure_ascii=False).lower()
            assert not [word for word in BODY_WORDS if word in told], (message, one.slug, said)


def test_no_text_of_a_body_is_written_to_disk(index, tmp_path):
    assert Snapshot(tmp_path).save(SavedIndex(index=index, positions={}, record=b""))
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"greenhouse" in written
    assert not [word for word in BODY_WORDS if word.encode() in written]


def test_a_body_gives_a_count_and_no_words(first):
    best = first("encarsia wasps against whitefly")
    assert [(item.field, item.count, item.terms) for item in best.evidence] == [("body", 3, ())]
    assert "3 words of its text" in best.why


def test_the_words_of_the_message_are_told_by_field_in_their_order(first):
    best = first("supplier invoice, totals of the invoice as PDF")
    told = {item.field: item.terms for item in best.evidence}
    assert best.slug == "invoice-reader"
    assert told["name"] == ("invoice",)
    assert told["description"] == ("supplier", "invoice", "totals", "pdf")
    assert told["tags"] == ("pdf",)
    assert [item.field for item in best.evidence] == [name for name in FIELD_NAMES if name in told]
    assert all(item.count == len(item.terms) for item in best.evidence)


def test_json_holds_the_figures_only_where_they_are_asked_for(first):
    best = first("supplier invoice")
    plain, explained = best.as_json(), best.as_json(explain=True)
    assert explained.pop("signals")
    assert explained == plain
    assert json.loads(json.dumps(plain)) == plain


@given(MESSAGES)
@example("encarsia hygrometer invioce")
def test_evidence_is_made_of_words_of_the_message_and_every_result_has_a_reason(index, message):
    said = set(split_words(message))
    for one in rank(index, message, limit=MAX_RESULTS):
        assert one.why
        for item in one.evidence:
            assert item.count > 0
            assert set(item.terms) <= said
            assert item.field != "body" or item.terms == ()


@given(MESSAGES, MESSAGES)
def test_any_message_is_answered_and_twice_the_same(matcher, message, context):
    for ask in (matcher.match, matcher.rank):
        found = ask(message, context=context)
        assert found == ask(message, context=context)
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
    assert matcher.search(message) == matcher.search(message)
    assert matcher.match(message, context=context, tags=["no such tag"]) == []


@pytest.mark.parametrize("message", HARD)
def test_no_sign_in_a_message_is_syntax(matcher, message):
    for ask in (matcher.match, matcher.rank, matcher.search):
        assert ask(message) == ask(message)
        ask(message, tags=[message])


@pytest.mark.parametrize(
    "signs", ['"{}"', "-{}", "({})", "{}*", "AND {} OR", "NEAR/{}", "x:{}", "^{}$", "[{}]", "\\{}", "{}\x00"]
)
def test_signs_around_a_word_do_not_change_what_is_found(matcher, signs):
    assert matcher.search(signs.format("deadlock"))[0].slug == "sql-tuner"
