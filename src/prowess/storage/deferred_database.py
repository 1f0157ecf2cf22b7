"""A database that is opened on first use, and reopened if its file was replaced."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from prowess.errors import Refused, Unavailable
from prowess.storage.database import Database, open_database
from prowess.storage.database_url import display_url, sqlite_path
from prowess.storage.seals import PROCESS_SEALS, Seals

if TYPE_CHECKING:
    import sqlalchemy as sa

_FileIdentity = tuple[int, int] | None


class DeferredDatabase:
    """A database that is opened on first use, and reopened if its file was replaced.

    A SQLite file that is removed or replaced while open would silently accept writes that can never be read, so the file is
    checked before each use and after each write.
    """

    def __init__(self, url: str, seals: Seals = PROCESS_SEALS, *, ours_only: bool = False) -> None:
        self.location = display_url(url)
        self.url = url
        self._seals = seals
        self._ours_only = ours_only
        self._path = sqlite_path(url)
        self._lock = threading.Lock()
        self._opened: tuple[Database, _FileIdentity] | None = None
        self._refused: tuple[object, Refused] | None = None
        _databases.add(self)

    def read(self) -> AbstractContextManager[sa.Connection]:
        """Return a connection that sees one state of the database throughout."""
        opened = self._opened
        # A snapshot stays on the file that was checked when it started.
        database = opened[0] if opened is not None and opened[0].has_snapshot else self._current()[0]
        return database.read()

    def write(self) -> AbstractContextManager[sa.Connection]:
        """Return a transaction: committed when the block ends, rolled back if it raises."""
        database, identity = self._current()

        def check_replaced() -> None:
            if self._identity() != identity:
                raise Unavailable(
                    f"The database {self.location} was removed or replaced during a write.",
                    hint="Repeat the change; it is then written to the current database.",
                )

        return database.write(after=check_replaced)

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all reads that this thread makes inside the block share one transaction."""
        return self._current()[0].snapshot()

    def refusal(self) -> Refused | None:
        """Return why the file must not or cannot be used; None if it can be used, or does not exist yet."""
        found = None
        try:
            found = os.stat(self._path) if self._path else None  # noqa: PTH116  (as in `_identity`)
            is_denied = found is not None and not os.access(self._path, os.R_OK)
        except PermissionError:
            is_denied = True
        except OSError:
            return None
        if is_denied:
            return Refused(
                f"You may not read the database {self.location!r}, so it is not used.",
                hint="Change its permissions or those of its folder, or pass another workspace with `--workspace DIR`.",
            )
        # Judging a file may take half a second, so that is not repeated while it stays the same.
        state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size) if found else None
        if self._refused is None or self._refused[0] != state:
            self._refused = None
            try:
                self._current()
            except Refused as error:
                self._refused = (state, error)
        return self._refused[1] if self._refused else None

    @property
    def is_open(self) -> bool:
        """True if the database was used before."""
        return self._opened is not None

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            if self._opened:
                self._opened[0].close()
            self._opened = None

    def _current(self) -> tuple[Database, _FileIdentity]:
        with self._lock:
            if self._opened is None or self._opened[1] != self._identity():
                if self._opened:
                    self._opened[0].close()
                self._opened = None
                database = open_database(self.url, self._seals, ours_only=self._ours_only)
                self._opened = (database, self._identity())  # only now: opening creates a missing file
            return self._opened

    def _identity(self) -> _FileIdentity:
        """Return the device and inode of the file; None for a server or a missing file."""
        try:
            found = os.stat(self._path) if self._path else None  # noqa: PTH116  (called at each use, and faster than pathlib)
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None

    def renew_lock(self) -> None:
        """Replace the lock with a free one, even if it is held."""
        self._lock = threading.Lock()


_databases: weakref.WeakSet[DeferredDatabase] = weakref.WeakSet()


def _renew_locks() -> None:
    """Free all locks in a forked child: the threads that held them exist only in the parent."""
    for database in _databases:
        database.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
