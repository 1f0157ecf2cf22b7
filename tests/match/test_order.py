"""How many skills are given for a message, and in what order."""

from __future__ import annotations

import numpy as np
import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.ranking import MAX_RESULTS, rank
from prowess.match.recommendation import DECISIONS
from prowess.match.words import STOP_WORDS

INVOICE = "please extract the totals and due dates from this supplier invoice"


def slugs(found):
    return [one.slug for one in found]


def test_the_limit_bounds_the_results(index, matcher):
    whole = rank(index, INVOICE, limit=MAX_RESULTS)
    assert len(whole) > 3
    for limit in (1, 2, 3):
        assert slugs(rank(index, INVOICE, limit=limit)) == slugs(whole)[:limit]
    assert rank(index, INVOICE, limit=0) == rank(index, INVOICE, limit=-7) == []
    assert matcher.match(INVOICE, limit=0) == matcher.search("", limit=-1) == []
    assert slugs(rank(index, INVOICE, limit=10**30)) == slugs(whole)


@pytest.mark.parametrize("message", [INVOICE, "writing", "check the pages", "/sql-tuner for the greenhouse", "发票"])
def test_scores_run_from_one_to_zero_down_the_list_and_agree_with_the_decisions(index, message):
    found = rank(index, message, limit=MAX_RESULTS)
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
    same = [SearchDocument(slug=f"{word}-plants", description=text) for word in sorted(STOP_WORDS)[:count]]
    others = [SearchDocument(slug=f"other-{number}", description="Something else.") for number in range(2 * count)]
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


@pytest.mark.parametrize("query", ["morning", "nozzles"])
def test_the_limit_of_a_search_counts_what_has_a_word_of_the_query(matcher, query):
    assert slugs(matcher.search(query)) == slugs(matcher.search(query, limit=1)) == ["greenhouse-keeper"]


def test_a_search_without_words_lists_by_tag(matcher):
    assert slugs(matcher.search(tags=["writing"])) == slugs(matcher.search("  ", tags=["Writing"]))
