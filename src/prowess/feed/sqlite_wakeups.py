"""Receive wake-ups on SQLite by polling `PRAGMA data_version`, which changes with every write of another connection."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from prowess.feed.wakeups import WakeupCallback, Watchers

POLL_SECONDS = 0.2
_CLOSE_SECONDS = 5.0


class SqliteWakeups:
    """Polls the file while someone watches, with a read-only connection of its own.

    Waits for a file that does not exist yet, and reopens one that was replaced.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self._watchers = Watchers()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._stop.set()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, organization_id: str, ring: WakeupCallback) -> Callable[[], None]:
        """Call back from now on; the file is polled until nobody watches any more."""
        with self._lock:
            self._watchers.add(organization_id, ring)
            if not self._closed:
                self._start()

        def leave() -> None:
            with self._lock:
                self._watchers.remove(organization_id, ring)
                if not self._watchers:
                    self._stop.set()

        return leave

    def tell(self, organization_id: str) -> None:
        """Call back watchers in this process; other processes notice the change of the file."""
        if not self._closed:
            self._watchers.ring(organization_id)

    def close(self) -> None:
        """Stop polling."""
        with self._lock:
            self._closed = True
            self._stop.set()
            thread, self._thread = self._thread, None
        if thread and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)

    def _start(self) -> None:
        if not self._stop.is_set() and self._thread and self._thread.is_alive():
            return
        # A new event: a thread that was stopped just now has not necessarily seen the old one, and must still end.
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(self._stop,), name="prowess-wakeups", daemon=True)
        self._thread.start()

    def _look(self, stop: threading.Event) -> None:
        file = _WatchedFile(self._path)
        seen: object = None
        try:
            while not stop.wait(POLL_SECONDS):
                found = file.state()
                if found != seen:
                    seen = found
                    self._watchers.ring_all()
        finally:
            file.close()


class _WatchedFile:
    """One SQLite file and its change counter, for use by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None

    def state(self) -> object:
        """Return a value that differs after every write by another connection; None while the file cannot be read."""
        try:
            found = self._path.stat()
            identity = (found.st_dev, found.st_ino)
            # A connection stays on the file that it opened, so it would never notice changes of a new file at the path.
            if identity != self._identity or self._connection is None:
                self._open(identity)
            return identity, self._version()
        # The file may be missing or being replaced right now. The next poll looks again.
        except (OSError, sqlite3.Error):
            self.close()
            return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self, identity: tuple[int, int]) -> None:
        self.close()
        self._identity = identity
        # Read-only, because opening it otherwise would create a missing file.
        self._connection = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=1)

    def _version(self) -> int | None:
        # Only comparable with earlier values of the same connection; `state` adds the identity of the file.
        return self._connection.execute("PRAGMA data_version").fetchone()[0] if self._connection else None
