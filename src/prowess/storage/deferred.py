"""A database that is opened when it is first used, and again when its file has been replaced."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

import sqlalchemy as sa

from prowess.errors import Unavailable
from prowess.storage.database import Database, open_database
from prowess.storage.location import shown, sqlite_path

_Identity = tuple[int, int] | None


class DeferredDatabase:
    """Stands for a database by its URL, so that one that does not answer is found out only when it is needed.

    A SQLite file that somebody removes or replaces while it is open would go on taking writes that nobody can ever
    read; so the file is looked at before each use and after each write.
    """

    def __init__(self, url: str) -> None:
        self.location = shown(url)
        self.url = url
        self._path = sqlite_path(url)
        self._lock = threading.Lock()
        self._opened: tuple[Database, _Identity] | None = None

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """A connection that sees one state of the database throughout."""
        with self._current()[0].read() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """A transaction: all of it is kept when the block ends, nothing of it when the block raises."""
        database, identity = self._current()
        with database.write() as connection:
            yield connection
        if self._identity() != identity:
            raise Unavailable(
                f"The database {self.location} was removed or replaced while it was written to.",
                hint="Repeat the change; it goes to the database that is there now.",
            )

    def close(self) -> None:
        """Close every connection that is not in use."""
        with self._lock:
            if self._opened:
                self._opened[0].close()
            self._opened = None

    def _current(self) -> tuple[Database, _Identity]:
        with self._lock:
            if self._opened is None or self._opened[1] != self._identity():
                if self._opened:
                    self._opened[0].close()
                self._opened = None
                database = open_database(self.url)
                self._opened = (database, self._identity())
            return self._opened

    def _identity(self) -> _Identity:
        """Which file it is; None for a server, and for a file that is not there."""
        try:
            found = os.stat(self._path) if self._path else None  # noqa: PTH116  (it is asked for at each use)
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None
