"""Intent patterns of authors, as patterns."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.ranking import rank


def ask(message: str, *patterns: str):
    """The one skill of a catalog, whose patterns are the only thing it shares with the message."""
    documents = [
        SearchDocument(slug="patterned", description="Zebra umbrella quartz.", patterns=patterns),
        SearchDocument(slug="plain", description="Another thing altogether."),
    ]
    return {one.slug: one for one in rank(Index.build(documents), message, limit=5)}.get("patterned")


def fits(message: str, *patterns: str) -> bool:
    found = ask(message, *patterns)
    return found is not None and any(item.field == "patterns" for item in found.evidence)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("check consistency", "please check consistency of this"),
        ("(find|list) contradictions", "list contradictions now"),
        (r"CVE-\d{4}-\d+", "what about cve-2024-31337?"),
        (r"\d+", "give me 12345"),
        ("rotate.*keys?", "ROTATE all the keys"),
        ("ÜBERWEISUNG", "eine überweisung ausführen"),
        ("发票|收据", "帮我整理收据"),
        ("^deploy", "Deploy it"),
        ("finished$", "the work is finished"),
        (r"\bship\b", "ship it"),
        ("a+b+c", "xx aabbcc yy"),
        ("(?i)Ready", "ready or not, steady"),
        ("[a-z]{3}-[0-9]{2}", "ticket abc-42"),
    ],
)
def test_a_message_that_fits_a_pattern_is_offered_its_skill(pattern, message):
    found = ask(message, pattern)
    assert found is not None
    assert found.decision == "offer"
    assert [item.field for item in found.evidence] == ["patterns"]
    assert "intent pattern" in found.why


def test_a_pattern_of_words_that_mean_little_counts_too():
    assert ask("what can you do?", "what can you do").decision == "offer"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("check consistency", "check the consistency"),
        (r"CVE-\d{4}-\d+", "a cve of the year"),
        (r"\bship\b", "a shipment"),
        ("^deploy", "please deploy"),
        ("rotate keys", "rotate\tkeys"),
    ],
)
def test_a_message_that_does_not_fit_is_not(pattern, message):
    assert not fits(message, pattern)


@pytest.mark.parametrize("pattern", ["", ".*", "x*", "(a|)", "^", r"\b|x", "(?:ship)?"])
def test_a_pattern_that_fits_nothing_at_all_says_nothing(pattern):
    assert not fits("please ship it", pattern)


@pytest.mark.parametrize("pattern", [".", ".+", r"\w+", "[a-z]", r"\S", ".{3,}"])
def test_a_pattern_that_fits_every_message_does_not_grab_them_all(pattern):
    found = ask("good morning, what is the weather like in Paris", pattern)
    assert found is None or found.decision == "no"


@pytest.mark.parametrize("pattern", ["(", "[z-a]", r"(?=ship)ship", r"(ship)\1", "*", "a{5000}", "\\", "(?P<x>"])
def test_a_pattern_that_cannot_be_read_is_passed_over_and_the_others_count(pattern):
    assert not fits("please ship it", pattern)
    assert fits("please ship it", pattern, "ship")


def test_a_pattern_that_takes_other_engines_forever_takes_no_time():
    assert not fits("a" * 20_000, "(a+)+b", "(a|aa)+$b", "(.*)*x")


def test_text_that_is_hardly_text_is_matched_like_any_other():
    assert fits("\ud800 ship \x00 it", "ship")
    assert not fits("\ud800\udfff", "\ud800")


def test_the_evidence_is_what_fitted_in_words_of_the_message():
    found = ask("please Rotate the API keys of staging", "rotate .* keys")
    assert [(item.field, item.terms) for item in found.evidence] == [("patterns", ("rotate", "api", "keys"))]


def test_a_pattern_that_fits_a_part_of_a_word_gives_the_word_as_evidence():
    found = ask("a shipment of tea", "ship")
    assert [(item.field, item.terms) for item in found.evidence] == [("patterns", ("shipment",))]


def test_a_pattern_counts_for_its_own_skill_only(matcher):
    found = matcher.rank("please rotate the api keys", limit=20)
    fitting = [one.slug for one in found if any(item.field == "patterns" for item in one.evidence)]
    assert fitting == ["key-rotation"]


def test_patterns_hold_after_a_change_and_go_with_their_skill(index, office):
    other = SearchDocument(slug="other", description="Nothing of it.", patterns=("ship it",))
    more = index.updated([other])
    for message, slug in (("ship it", "other"), ("rotate the api keys", "key-rotation")):
        assert rank(more, message, limit=1)[0].slug == slug
    fewer = more.updated([], ["other"])
    assert all(item.field != "patterns" for one in rank(fewer, "ship it", limit=20) for item in one.evidence)
