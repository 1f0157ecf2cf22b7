"""A feed gives every event once and in order: those that were, and those to come."""

from __future__ import annotations

import asyncio
import shutil
import threading
from contextlib import aclosing

import pytest

from prowess.errors import Unavailable
from prowess.feed.event_feed import PAGE_EVENTS, EventFeed
from prowess.feed.event_log import TAIL_EVENTS
from prowess.storage.database import open_database
from prowess.storage.deferred_database import DeferredDatabase
from prowess.storage.retention import delete_batch, read_batch


class Silent:
    """Wake-ups that all go astray."""

    def watch(self, _organization_id, _ring):
        return lambda: None

    def tell(self, _organization_id):
        pass

    def close(self):
        pass


def run(work):
    async def bounded():
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


async def take(events, count):
    return [(await anext(events)).data["note"] for _ in range(count)]


def test_what_was_and_what_is_to_come_arrives_once_and_in_order(feed, database, write):
    write(database, *range(3))

    async def work():
        async with aclosing(feed.follow(0)) as events:
            assert await take(events, 3) == [0, 1, 2]
            await asyncio.to_thread(write, database, 3, 4)
            feed.wake()
            assert await take(events, 2) == [3, 4]

    run(work())


def test_a_follower_goes_on_where_another_one_stopped(feed, database, write):
    write(database, *range(5))

    async def work():
        async with aclosing(feed.follow(2)) as events:
            assert [(await anext(events)).number for _ in range(3)] == [3, 4, 5]

    run(work())


def test_without_a_number_only_what_is_to_come_arrives(feed, database, write):
    write(database, "old")

    async def work():
        async with aclosing(feed.follow()) as events:
            first = asyncio.ensure_future(anext(events))
            while not first.done():
                await asyncio.to_thread(write, database, "new")
                feed.wake()
                await asyncio.wait({first}, timeout=0.05)
            assert (await first).data["note"] == "new"

    run(work())


def test_a_feed_is_read_back_in_pages(feed, database, write):
    write(database, *range(5))
    write(database, "named", name="approval_required", session_id="s", user_id="ada")

    assert [event.number for event in feed.read(1, 3)] == [2, 3, 4]
    assert [event.data["note"] for event in feed.read(names=("approval_required",))] == ["named"]
    assert [event.data["note"] for event in feed.read(session_id="s", user="ada")] == ["named"]
    assert feed.read(user="bob") == []
    assert feed.read(limit=0) == []
    assert feed.last() == 6


@pytest.mark.parametrize(
    "wanted", [{"names": ("approval_required",)}, {"session_id": "s"}, {"user": "ada"}], ids=["name", "session", "user"]
)
def test_only_what_is_wanted_arrives_whether_it_was_or_is_to_come(feed, database, write, wanted):
    marked = {"name": "approval_required", "session_id": "s", "user_id": "ada"}
    write(database, *range(PAGE_EVENTS + 1))
    write(database, "first", **marked)

    async def work():
        async with aclosing(feed.follow(0, **wanted)) as events:
            assert await take(events, 1) == ["first"]
            await asyncio.to_thread(write, database, *range(3))
            await asyncio.to_thread(write, database, "second", **marked)
            feed.wake()
            assert await take(events, 1) == ["second"]

    run(work())


def test_the_events_of_another_organization_are_not_seen(feed, database, write):
    async def work():
        async with aclosing(feed.follow(0)) as events:
            await asyncio.to_thread(write, database, "theirs", organization="other")
            await asyncio.to_thread(write, database, "ours")
            feed.wake()
            assert await take(events, 1) == ["ours"]

    run(work())


@pytest.mark.usefixtures("only_rings")
def test_what_another_process_wrote_is_rung_for(feed, other_feed, other_database, write):
    async def work():
        async with aclosing(feed.follow(0)) as events:
            for note in range(5):
                await asyncio.to_thread(write, other_database, note)
                other_feed.wake()
                assert await take(events, 1) == [note]

    run(work())


def test_what_nobody_rang_for_arrives_all_the_same(database, other_database, write, monkeypatch):
    monkeypatch.setattr("prowess.feed.event_log.FALLBACK_POLL_SECONDS", 0.02)
    feed = EventFeed(database, "acme", wakeups=Silent())

    async def work():
        async with aclosing(feed.follow(0)) as events:
            for note in range(3):
                await asyncio.to_thread(write, other_database, note)
                assert await take(events, 1) == [note]

    run(work())
    feed.close()


def test_many_follow_and_a_slow_one_loses_nothing(feed, database, write):
    count = TAIL_EVENTS * 2 + 50

    async def follow():
        async with aclosing(feed.follow(0)) as events:
            return await take(events, count)

    async def follow_slowly(quick):
        async with aclosing(feed.follow(0)) as events:
            first = await take(events, 1)
            await asyncio.wait(quick)
            return first + await take(events, count - 1)

    async def work():
        quick = [asyncio.create_task(follow()) for _ in range(5)]
        slow = asyncio.create_task(follow_slowly(quick))
        for start in range(0, count, 10):
            await asyncio.to_thread(write, database, *range(start, min(start + 10, count)))
            feed.wake()
        assert await asyncio.gather(*quick, slow) == [list(range(count))] * 6

    run(work())


def test_followers_of_several_loops_share_one_feed(feed, database, write):
    results = []

    async def follow():
        async with aclosing(feed.follow(0)) as events:
            return await take(events, 20)

    threads = [threading.Thread(target=lambda: results.append(run(follow()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for note in range(20):
        write(database, note)
        feed.wake()
    for thread in threads:
        thread.join(60)
    assert results == [list(range(20))] * 3


def test_a_cancelled_follower_leaves_the_others_alone(feed, database, write):
    async def follow(count):
        async with aclosing(feed.follow(0)) as events:
            return await take(events, count)

    async def work():
        kept, cancelled = asyncio.create_task(follow(2)), asyncio.create_task(follow(2))
        await asyncio.to_thread(write, database, 0)
        feed.wake()
        await asyncio.wait({kept, cancelled}, timeout=0.01)
        cancelled.cancel()
        await asyncio.wait({cancelled})
        assert cancelled.cancelled()
        await asyncio.to_thread(write, database, 1)
        feed.wake()
        assert await kept == [0, 1]

    run(work())


def test_one_who_stops_in_the_middle_leaves_no_thread_behind(feed, database, write, until):
    write(database, *range(3))

    async def work():
        async for event in feed.follow(0):
            if event.number == 2:
                break

    run(work())
    until(lambda: not [t for t in threading.enumerate() if t.name == "prowess-events"])
    run(work())


def test_closing_a_feed_ends_those_who_follow_it(feed, database, write):
    write(database, 0)

    async def follow(begun):
        found = []
        async for event in feed.follow(0):
            found.append(event.data["note"])
            begun.set()
        return found

    async def work():
        begun = asyncio.Event()
        task = asyncio.create_task(follow(begun))
        await begun.wait()
        await asyncio.to_thread(feed.close)
        assert await task == [0]
        with pytest.raises(Unavailable, match="closed"):
            await anext(feed.follow(0))

    run(work())


def test_a_file_that_is_not_there_yet_is_waited_for_and_not_made(tmp_path, write):
    path = tmp_path / "later" / "agents.db"
    database = DeferredDatabase(f"sqlite:///{path}")
    feed = EventFeed(database, "acme")

    async def work():
        async with aclosing(feed.follow()) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.wait({first}, timeout=0.5)
            assert not path.parent.exists()
            other = await asyncio.to_thread(open_database, path)
            await asyncio.to_thread(write, other, "first")
            assert (await first).data["note"] == "first"
            other.close()

    assert (feed.read(), feed.last()) == ([], 0)
    run(work())
    feed.close()
    database.close()


def test_a_log_put_in_the_place_of_another_is_followed_from_its_beginning(tmp_path, write):
    path, newer = tmp_path / "home" / "agents.db", tmp_path / "newer.db"
    database, elsewhere = DeferredDatabase(f"sqlite:///{path}"), open_database(newer)
    feed = EventFeed(database, "acme")
    write(database, *range(10))
    write(elsewhere, "new")
    elsewhere.close()

    async def work():
        async with aclosing(feed.follow(0)) as events:
            assert await take(events, 10) == list(range(10))
            shutil.rmtree(path.parent)
            path.parent.mkdir()
            newer.rename(path)
            assert await take(events, 1) == ["new"]

    run(work())
    feed.close()
    database.close()


def test_a_subscriber_whose_events_were_pruned_is_told_and_gets_the_rest(database, feed, write):
    write(database, *range(10))
    with database.write() as connection:
        delete_batch(
            connection,
            feed.organization_id,
            read_batch(connection, "events", feed.organization_id, upto=6, limit=100),
        )

    async def follow():
        async with aclosing(feed.follow(after=3, names=["skill_loaded"])) as events:
            told, *rest = [await anext(events) for _ in range(5)]
        async with aclosing(feed.follow(after=told.number)) as events:
            return told, rest, await anext(events)

    told, rest, resumed = run(follow())
    assert (told.name, told.number, told.data) == ("events_pruned", 6, {"after": 3, "first": 7})
    assert [event.number for event in rest] == [7, 8, 9, 10]
    assert resumed.number == 7
    assert (feed.first(), feed.last()) == (7, 10)
    assert [event.number for event in feed.read(after=3)] == [7, 8, 9, 10]
