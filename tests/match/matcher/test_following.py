"""The matcher follows its catalog, and reads no more of it than changed."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.matcher import FRESHNESS_SECONDS, Matcher
from prowess.match.ranking import rank
from prowess.match.snapshot import Snapshot


def test_nothing_is_opened_before_something_is_asked(counting):
    def never():
        raise AssertionError("opened")

    Matcher(never, counting()).close()


def test_for_a_moment_after_a_look_the_catalog_is_not_looked_at(matcher, catalog, clock, best):
    for _ in range(5):
        assert best(matcher, "slow database queries") == "sql-tuner"
        clock.now += FRESHNESS_SECONDS / 10
    assert catalog.looked == 1
    clock.now += FRESHNESS_SECONDS
    best(matcher, "slow database queries")
    assert catalog.looked == 2


def test_an_unchanged_catalog_is_never_read_again(matcher, catalog, clock, best):
    for _ in range(5):
        best(matcher, "slow database queries")
        clock.now += 10 * FRESHNESS_SECONDS
    assert catalog.looked == 5
    assert catalog.read == [None]
    assert catalog.served_all == 0


def test_a_change_is_seen_after_that_moment_and_only_what_changed_is_read(matcher, catalog, near, clock, pack, best):
    assert best(matcher, "water the balcony plants") == ""
    near.save(pack("plant-care", "Waters the plants of the balcony."))
    assert best(matcher, "water the balcony plants") == ""
    clock.now += FRESHNESS_SECONDS
    assert best(matcher, "water the balcony plants") == "plant-care"
    assert catalog.read == [None, {"plant-care"}]


def test_who_changed_something_need_not_wait(matcher, near, pack, best):
    assert best(matcher, "water the balcony plants") == ""
    near.save(pack("plant-care", "Waters the plants of the balcony."))
    matcher.look_again()
    assert best(matcher, "water the balcony plants") == "plant-care"


@pytest.mark.parametrize("kept", [False, True])
def test_skills_that_change_or_go_are_followed_one_by_one(
    catalog, near, clock, tmp_path, caplog, kept, pack, best, built
):
    snapshot = Snapshot(tmp_path / "snapshot") if kept else None
    matcher = Matcher(lambda: catalog, catalog, clock=clock, snapshot=snapshot)
    with caplog.at_level(logging.WARNING):
        assert best(matcher, "slow database queries") == "sql-tuner"
        near.delete_skill(near.get_skill_by_name("sql-tuner").id)
        clock.now += FRESHNESS_SECONDS
        assert best(matcher, "slow database queries") == ""
        old = near.get_skill_by_name("invoice-reader")
        near.save(pack("invoice-reader", "Explains slow database queries."), expected=old.digest)
        clock.now += FRESHNESS_SECONDS
        assert best(matcher, "slow database queries") == "invoice-reader"
    assert catalog.read == [None, {"sql-tuner"}, {"invoice-reader"}]
    assert caplog.records == []
    assert matcher.rank("slow database queries") == rank(built(catalog), "slow database queries", limit=10)


def test_a_nearer_skill_hides_a_farther_one_until_it_goes(clock, pack, store, counting, best):
    near = store(pack("sql-tuner"))
    far = store(pack("sql-tuner", "Composes music for the clarinet."), pack("invoice-reader"), scope="account")
    catalog = counting(near, far)
    matcher = Matcher(lambda: catalog, catalog, clock=clock)
    assert matcher.match("slow database queries")[0].scope == "workspace"
    assert best(matcher, "music for the clarinet") == ""
    assert matcher.match("totals of supplier invoices")[0].scope == "account"
    near.delete_skill(near.get_skill_by_name("sql-tuner").id)
    clock.now += FRESHNESS_SECONDS
    assert best(matcher, "slow database queries") == ""
    found = matcher.match("music for the clarinet")[0]
    assert (found.slug, found.scope) == ("sql-tuner", "account")
    near.save(pack("sql-tuner"))
    clock.now += FRESHNESS_SECONDS
    assert best(matcher, "music for the clarinet") == ""
    assert matcher.match("slow database queries")[0].scope == "workspace"
    assert catalog.read == [None, {"sql-tuner"}, {"sql-tuner"}]


def test_many_threads_ask_while_the_catalog_changes_and_each_gets_a_whole_answer(
    near, tmp_path, pack, counting, best, built
):
    catalog = counting(near)
    matcher = Matcher(lambda: catalog, catalog, freshness=0.0, snapshot=Snapshot(tmp_path))
    done = Event()

    def ask(_: int) -> int:
        count = 0
        while not done.is_set() or not count:
            assert best(matcher, "slow database queries") == "sql-tuner"
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask, number) for number in range(3)]
        for number in range(30):
            near.save(pack(f"plant-{number}", f"Waters plant number {number} of the balcony."))
            if number % 2:
                near.delete_skill(near.get_skill_by_name(f"plant-{number - 1}").id)
            matcher.look_again()
        done.set()
        assert all(one.result() for one in asking)
    matcher.look_again()
    assert matcher.index().digest == built(catalog).digest
    message = "water plants of the balcony"
    assert matcher.rank(message, limit=50) == rank(built(catalog), message, limit=50)


def test_a_matcher_with_more_documents_leaves_the_first_as_it_is(matcher, best):
    more = matcher.with_documents([SearchDocument(slug="plant-care", description="Waters the plants of the balcony.")])
    assert best(more, "water the balcony plants") == "plant-care"
    assert best(more, "slow database queries") == "sql-tuner"
    assert best(matcher, "water the balcony plants") == ""


def test_closing_closes_what_was_opened(catalog, clock, best):
    closed: list[int] = []
    with Matcher(lambda: catalog, catalog, clock=clock, close=lambda: closed.append(1)) as matcher:
        best(matcher, "slow queries")
    assert closed == [1]
