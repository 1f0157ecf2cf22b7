"""Tell whether anything was committed to a SQLite file, in microseconds and without a transaction."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prowess.storage.database_url import connect_existing

if TYPE_CHECKING:
    import sqlite3


class SqliteWatch:
    """A connection that asks for SQLite's own counter of commits by other connections, and reads. Safe for many threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._opened = 0

    def mark(self) -> tuple[int, int] | None:
        """Return a value that differs from all earlier ones after any commit of any process; None if that is unknown."""
        import sqlite3

        with self._lock:
            try:
                status = os.stat(self._path)  # noqa: PTH116  (no `Path` for every request)
                # Another file in its place, such as a restored backup, would go unnoticed by the open connection.
                if self._connection is None or self._file != (status.st_dev, status.st_ino):
                    self._connection = self._open((status.st_dev, status.st_ino))
                # The counter belongs to the connection, so that a new one may count the same number again.
                return self._opened, self._connection.execute("PRAGMA data_version").fetchone()[0]
            except (OSError, sqlite3.Error):
                self._close()
                return None

    @property
    def is_open(self) -> bool:
        """True between the first successful `mark` and `close`."""
        return self._connection is not None

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query, as of now; None if the file cannot be read. Only for queries that are quick."""
        import sqlite3

        with self._lock:
            if self._connection is None:
                return None
            try:
                return self._connection.execute(sql, parameters).fetchall()
            except sqlite3.Error:
                self._close()
                return None

    def close(self) -> None:
        """Close the connection. The next `mark` opens another one."""
        with self._lock:
            self._close()

    def _open(self, file: tuple[int, int]) -> sqlite3.Connection:
        self._close()
        self._file = file
        self._opened += 1
        return connect_existing(self._path, timeout=0, check_same_thread=False, isolation_level=None)

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
        self._connection = None
