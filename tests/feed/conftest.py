"""Feeds of events on each kind of database, and ways to write to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from prowess.feed.event_feed import EventFeed
from prowess.storage import ledger
from prowess.storage.database import Connections, Database, open_database
from prowess.storage.ledger import EventEntry

ORGANIZATION = "acme"
PATIENCE_SECONDS = 60.0


def write_events(database: Connections, *notes: Any, organization: str = ORGANIZATION, **about: str) -> None:
    """One transaction with an event for each note."""
    name = about.pop("name", "skill_loaded")
    entries = [EventEntry(name=name, data={"note": note}, **about) for note in notes]
    with database.write() as connection:
        ledger.append(connection, organization, events=entries)


@pytest.fixture
def write() -> Callable[..., None]:
    """`write_events`, for tests."""
    return write_events


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Waits until something is true, and fails when that does not happen; the answer is what it gave."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not happen"
            threading.Event().wait(0.01)
        return found

    return wait


@pytest.fixture
def feed(database: Database) -> Iterator[EventFeed]:
    opened = EventFeed(database, ORGANIZATION)
    yield opened
    opened.close()


@pytest.fixture
def other_database(database: Database, database_url: str) -> Iterator[Database]:
    """The same database, opened as another process would."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def other_feed(other_database: Database) -> Iterator[EventFeed]:
    opened = EventFeed(other_database, ORGANIZATION)
    yield opened
    opened.close()


@pytest.fixture
def only_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by themselves, so that what arrives was rung for."""
    monkeypatch.setattr("prowess.feed.event_log.FALLBACK_POLL_SECONDS", 3600.0)


@pytest.fixture
def listeners() -> Callable[[str], list[int]]:
    """The backends of a PostgreSQL database that serve wake-ups."""

    def find(url: str) -> list[int]:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity"
                " WHERE application_name = 'prowess events' AND datname = current_database()"
            )
            return [pid for (pid,) in found]

    return find


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := [t for t in threading.enumerate() if t not in before and t.name.startswith("prowess-")]:
        assert time.monotonic() < deadline, left
        left[0].join(0.1)
