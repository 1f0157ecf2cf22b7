"""Send and receive wake-ups on PostgreSQL with LISTEN and NOTIFY, on its own connection.

A NOTIFY inside the writing transaction would make all commits of the server wait for each other, so it is sent after
the commit, once for everything written in the meantime.
"""

from __future__ import annotations

import importlib.util
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from prowess.errors import Unavailable
from prowess.feed.wakeups import WakeupCallback, Watchers
from prowess.storage.database_url import display_url

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

CHANNEL = "prowess_events"
CONNECT_SECONDS = 5
IDLE_SECONDS = 30.0
"""After this long without traffic the connection is tested, or closed if nobody watches."""

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 5.0
_CLOSE_SECONDS = CONNECT_SECONDS + 2.0
_NOTIFY = "SELECT pg_notify(%s, organization) FROM unnest(%s::text[]) AS organization"
# Detect a connection that died silently (a pulled cable, a paused container) within seconds; the URL can override this.
_CONNECTION_OPTIONS: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "prowess events",
}


class PostgresWakeups:
    """Runs one thread with one connection while someone watches or there is something to send.

    After a lost connection it reconnects with growing delays, and then calls back everyone: notifications sent in between
    are lost, and all must catch up from the table.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._watchers = Watchers()
        self._lock = threading.Lock()
        self._pending: set[str] = set()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._nudge: socket.socket | None = None
        self._delay = _FIRST_DELAY

    def watch(self, organization_id: str, ring: WakeupCallback) -> Callable[[], None]:
        """Call back from now on, as soon as the connection is open."""
        if importlib.util.find_spec("psycopg") is None:
            raise Unavailable(
                "PostgreSQL needs the psycopg driver, which is not installed.",
                hint="Run `pip install 'prowess[postgres]'`.",
            )
        with self._lock:
            self._watchers.add(organization_id, ring)
            self._ensure_thread()
        return lambda: self._watchers.remove(organization_id, ring)

    def tell(self, organization_id: str) -> None:
        """Call back watchers in this process, and have the connection notify other processes."""
        self._watchers.ring(organization_id)
        with self._lock:
            self._pending.add(organization_id)
            self._ensure_thread()

    def close(self) -> None:
        """Send what is pending, unless the server cannot be reached, and close the connection."""
        with self._lock:
            self._closed.set()
            thread = self._thread
            self._wake()
        if thread and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)

    def _ensure_thread(self) -> None:
        if self._closed.is_set():
            return
        if self._thread and self._thread.is_alive():
            self._wake()
            return
        try:
            # A socket, not a `threading.Event`: the thread waits for it and for the server at the same time.
            nudged, self._nudge = socket.socketpair()
            nudged.setblocking(False)
            self._nudge.setblocking(False)
            self._thread = threading.Thread(target=self._work, args=(nudged,), name="prowess-wakeups", daemon=True)
            self._thread.start()
        except (OSError, RuntimeError) as error:  # out of files or threads; subscribers still poll by themselves
            log.warning("Cannot notify subscribers of new events: %s", error)

    def _wake(self) -> None:
        if self._nudge:
            with suppress(BlockingIOError):  # its buffer is full, so the thread wakes anyway
                self._nudge.send(b".")

    def _work(self, nudged: socket.socket) -> None:
        import psycopg

        with nudged:
            while self._is_needed():
                try:
                    with closing(self._connect()) as connection, selectors.DefaultSelector() as selector:
                        selector.register(connection, selectors.EVENT_READ)
                        selector.register(nudged, selectors.EVENT_READ)
                        self._serve(connection, nudged, selector)
                except (psycopg.Error, exc.SQLAlchemyError, OSError) as error:
                    self._pause(error)

    def _pause(self, error: Exception) -> None:
        level = logging.WARNING if self._delay == _FIRST_DELAY else logging.DEBUG
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        log.log(level, "Lost the event connection to %s, reconnecting: %s", display_url(self._url), reason)
        # Closed while the server cannot be reached: drop what is pending, so that the thread can end.
        if self._closed.wait(self._delay):
            self._pending.clear()
        self._delay = min(self._delay * 2, _LONGEST_DELAY)

    def _is_needed(self) -> bool:
        """Return True if there is work. If not, give up the thread's place, so that the next call starts another one."""
        with self._lock:
            if self._pending or (self._watchers and not self._closed.is_set()):
                return True
            if self._nudge:
                self._nudge.close()
            self._thread = self._nudge = None
            return False

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        dialect = cast("Any", PGDialect_psycopg())
        # Let SQLAlchemy read the URL, so that this connection goes to the same server as all others.
        _, arguments = dialect.create_connect_args(sa.make_url(self._url))
        return psycopg.connect(**{**_CONNECTION_OPTIONS, **arguments}, autocommit=True, prepare_threshold=None)

    def _serve(
        self, connection: psycopg.Connection[Any], nudged: socket.socket, selector: selectors.BaseSelector
    ) -> None:
        # Nothing is stored, so a notification need not wait for the disk.
        connection.execute("SET synchronous_commit = off")
        listens = False
        while True:
            if self._watchers and not listens:
                connection.execute(f"LISTEN {CHANNEL}")
                listens = True
                self._watchers.ring_all()  # what was sent before LISTEN did not arrive
            self._tell(connection)
            self._hear(connection)
            self._delay = _FIRST_DELAY
            if self._closed.is_set():
                return
            ready = selector.select(IDLE_SECONDS)
            if any(key.fileobj is nudged for key, _ in ready):
                nudged.recv(4096)
            if not ready:
                if not self._watchers:
                    return
                connection.execute("SELECT 1")

    def _tell(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            pending, self._pending = self._pending, set()
        try:
            if pending:
                connection.execute(_NOTIFY, (CHANNEL, sorted(pending)))
        except BaseException:
            with self._lock:  # not sent: the next connection must do it
                self._pending |= pending
            raise

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        # The server returns this connection's own notifications, too; `tell` has called back the watchers here already.
        own = connection.info.backend_pid
        for notice in connection.notifies(timeout=0):
            if notice.pid != own:
                self._watchers.ring(notice.payload)
