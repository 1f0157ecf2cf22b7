"""Learn that the event log grew, in this process or another. The events themselves are always read from the table.

One implementation per database: `PostgresWakeups` and `SqliteWakeups`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from prowess.storage.database import Connections
from prowess.storage.database_url import SQLITE_PREFIX, sqlite_path

WakeupCallback = Callable[[], None]


class Wakeups(Protocol):
    """Says that an organization may have new events, whichever process wrote them. Safe for any thread.

    A ring may come for nothing, and several writes may make one ring. A ring that goes astray is no loss of events:
    whoever is rung also looks from time to time by itself. Rings must not block and must not raise.
    """

    def watch(self, organization_id: str, ring: WakeupCallback) -> Callable[[], None]:
        """Ring from now on; what is given back ends that, and may be called more than once.

        `Unavailable` when the driver of the database is not installed.
        """
        ...

    def tell(self, organization_id: str) -> None:
        """Events were committed here: ring those who watch in this process at once, and those in others soon.

        Takes no time and never fails.
        """
        ...

    def close(self) -> None:
        """Say what is not said yet, and end every thread and connection; nothing is rung or told afterwards."""
        ...


def open_wakeups(database: Connections) -> Wakeups:
    """The wake-ups of a database. Nothing is opened or started before somebody watches or tells.

    One is enough for all organizations: it holds at most one connection of its own.
    """
    if database.url.startswith(SQLITE_PREFIX):
        from prowess.feed.sqlite_wakeups import SqliteWakeups

        return SqliteWakeups(sqlite_path(database.url))
    from prowess.feed.postgres_wakeups import PostgresWakeups

    return PostgresWakeups(database.url)


class Watchers:
    """Who watches what, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: dict[str, list[WakeupCallback]] = {}

    def __bool__(self) -> bool:
        return bool(self._rings)

    def add(self, organization_id: str, ring: WakeupCallback) -> None:
        """Ring for this organization from now on."""
        with self._lock:
            self._rings.setdefault(organization_id, []).append(ring)

    def remove(self, organization_id: str, ring: WakeupCallback) -> None:
        """Ring no longer; nothing happens where it was not rung."""
        with self._lock:
            rings = self._rings.get(organization_id, [])
            if ring in rings:
                rings.remove(ring)
            if not rings:
                self._rings.pop(organization_id, None)

    def ring(self, organization_id: str) -> None:
        """Ring all who watch this organization."""
        with self._lock:
            rings = tuple(self._rings.get(organization_id, ()))
        for ring in rings:
            ring()

    def ring_all(self) -> None:
        """Ring all who watch any."""
        with self._lock:
            rings = [ring for group in self._rings.values() for ring in group]
        for ring in rings:
            ring()
