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
    """Calls back when an organization may have new events, whichever process wrote them. Safe for any thread.

    A callback may come without new events, and several writes may cause one callback. A lost wake-up loses no event,
    because subscribers also look from time to time by themselves. Callbacks must not block and must not raise.
    """

    def watch(self, organization_id: str, ring: WakeupCallback) -> Callable[[], None]:
        """Call back from now on; return a function that ends it, which may be called more than once.

        Raise `Unavailable` if the driver of the database is not installed.
        """
        ...

    def tell(self, organization_id: str) -> None:
        """Announce that events were committed here: to this process at once, and to other processes soon.

        Never blocks and never fails.
        """
        ...

    def close(self) -> None:
        """Send what is pending, then end every thread and connection; no callback comes afterwards."""
        ...


def open_wakeups(database: Connections) -> Wakeups:
    """Return the wake-ups of a database. Nothing is opened before the first `watch` or `tell`.

    One object serves all organizations and holds at most one connection.
    """
    if database.url.startswith(SQLITE_PREFIX):
        from prowess.feed.sqlite_wakeups import SqliteWakeups

        return SqliteWakeups(sqlite_path(database.url))
    from prowess.feed.postgres_wakeups import PostgresWakeups

    return PostgresWakeups(database.url)


class Watchers:
    """The callbacks of this process, by organization."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: dict[str, list[WakeupCallback]] = {}

    def __bool__(self) -> bool:
        return bool(self._rings)

    def add(self, organization_id: str, ring: WakeupCallback) -> None:
        """Add a callback."""
        with self._lock:
            self._rings.setdefault(organization_id, []).append(ring)

    def remove(self, organization_id: str, ring: WakeupCallback) -> None:
        """Remove a callback, if it is there."""
        with self._lock:
            rings = self._rings.get(organization_id, [])
            if ring in rings:
                rings.remove(ring)
            if not rings:
                self._rings.pop(organization_id, None)

    def ring(self, organization_id: str) -> None:
        """Call back everyone who watches this organization."""
        with self._lock:
            rings = tuple(self._rings.get(organization_id, ()))
        # Without the lock, so that a callback may add or remove watchers.
        for ring in rings:
            ring()

    def ring_all(self) -> None:
        """Call back everyone."""
        with self._lock:
            rings = [ring for group in self._rings.values() for ring in group]
        for ring in rings:
            ring()
