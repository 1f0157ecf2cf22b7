"""Wake-ups on PostgreSQL: one connection, outside every transaction, made anew when it is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import ExitStack, aclosing

import psycopg
import pytest

from prowess.errors import Unavailable
from prowess.feed.event_feed import EventFeed
from prowess.feed.postgres_wakeups import CHANNEL, PostgresWakeups
from prowess.feed.wakeups import open_wakeups
from prowess.storage.database import open_database
from prowess.storage.deferred_database import DeferredDatabase

pytestmark = pytest.mark.usefixtures("only_rings")


@pytest.fixture
def opened(postgres_url):
    database = open_database(postgres_url)
    yield database
    database.close()


def run(work):
    async def bounded():
        async with asyncio.timeout(120):
            return await work

    return asyncio.run(bounded())


def tell(database):
    """Say that something was written, as another process does: a new connection hears it, or looks when it listens."""
    teller = EventFeed(database, "acme")
    teller.wake()
    teller.close()


def test_all_who_follow_share_one_connection_and_it_goes_with_them(opened, postgres_url, listeners, until, write):
    wakeups = open_wakeups(opened)
    feeds = [EventFeed(opened, name, wakeups=wakeups) for name in ("one", "two")]

    async def first_of(feed):
        async with aclosing(feed.follow(0)) as events:
            return (await anext(events)).data["note"]

    async def work():
        tasks = [asyncio.create_task(first_of(feed)) for feed in feeds for _ in range(3)]
        await asyncio.to_thread(until, lambda: listeners(postgres_url))
        for feed in feeds:
            await asyncio.to_thread(write, opened, feed.organization_id, organization=feed.organization_id)
            feed.wake()
        assert await asyncio.gather(*tasks) == ["one"] * 3 + ["two"] * 3
        assert len(await asyncio.to_thread(listeners, postgres_url)) == 1

    run(work())
    for feed in feeds:
        feed.close()
    wakeups.close()
    until(lambda: not listeners(postgres_url))


def test_many_wakes_are_one_notification(opened, postgres_url):
    wakeups = PostgresWakeups(opened.url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        for _ in range(2000):
            wakeups.tell("acme")
        wakeups.close()
        told = [notice.payload for notice in connection.notifies(timeout=0.2)]
    assert set(told) == {"acme"}
    assert len(told) < 1000


def test_what_a_short_program_tells_last_is_told(opened, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        wakeups = PostgresWakeups(opened.url)
        wakeups.tell("acme")
        wakeups.close()
        assert [notice.payload for notice in connection.notifies(timeout=60, stop_after=1)] == ["acme"]


def test_a_listener_that_was_killed_is_replaced_and_catches_up(opened, postgres_url, listeners, until, write):
    other = open_database(postgres_url)
    feed = EventFeed(opened, "acme")

    def kill_and_write(note):
        [pid] = until(lambda: found if len(found := listeners(postgres_url)) == 1 else None)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        write(other, note)
        tell(other)

    async def work():
        async with aclosing(feed.follow(0)) as events:
            first = asyncio.ensure_future(anext(events))
            for note in range(3):
                await asyncio.to_thread(kill_and_write, note)
                assert (await first).data["note"] == note
                first = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(write, other, "last")
            await asyncio.to_thread(tell, other)
            assert (await first).data["note"] == "last"

    run(work())
    for each in (feed, other):
        each.close()


@pytest.mark.long
def test_a_server_that_stops_at_once_and_starts_again_costs_no_event(stoppable_postgres, write, until):
    server = stoppable_postgres
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM RESET synchronous_commit")
        connection.execute("SELECT pg_reload_conf()")
    database, other = open_database(server.get_uri()), open_database(server.get_uri())
    feed = EventFeed(database, "acme")

    def restart():
        pid = server.get_pid()
        os.kill(pid, signal.SIGQUIT)
        until(lambda: not server.get_postmaster_info().is_running())
        server.start()
        write(other, "after")
        tell(other)

    async def work():
        async with aclosing(feed.follow(0)) as events, aclosing(feed.follow(0)) as late:
            await asyncio.to_thread(write, database, "before")
            feed.wake()
            assert (await anext(events)).data["note"] == "before"
            await asyncio.to_thread(restart)
            assert (await anext(events)).data["note"] == "after"
            assert [(await anext(late)).data["note"] for _ in range(2)] == ["before", "after"]

    run(work())
    for each in (feed, database, other):
        each.close()


def test_a_database_that_does_not_exist_yet_is_waited_for(postgres_server, write):
    name = f"prowess_later_{os.getpid()}_{threading.get_ident()}"
    head, mark, query = postgres_server.partition("?")
    url = head.rpartition("/")[0] + "/" + name + mark + query
    database = DeferredDatabase(url)
    feed = EventFeed(database, "acme")

    def make():
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        other = open_database(url)
        write(other, "first")
        tell(other)
        other.close()

    async def work():
        async with aclosing(feed.follow(0)) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.wait({first}, timeout=0.2)
            await asyncio.to_thread(make)
            assert (await first).data["note"] == "first"

    with ExitStack() as stack:
        stack.callback(drop, postgres_server, name)
        stack.callback(database.close)
        stack.callback(feed.close)
        run(work())


def drop(server, name):
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def test_a_server_that_cannot_be_reached_delays_neither_telling_nor_closing(tmp_path):
    wakeups = PostgresWakeups(f"postgresql://nobody@/none?host={tmp_path}")
    wakeups.tell("acme")
    leave = wakeups.watch("acme", lambda: None)
    leave()
    wakeups.close()
    wakeups.tell("acme")


def test_without_the_driver_the_follower_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Unavailable) as told:
        PostgresWakeups("postgresql://host/name").watch("acme", lambda: None)
    assert told.value.hint == "Run `pip install 'prowess[postgres]'`."
