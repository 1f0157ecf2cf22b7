"""Set up SQLite: write-ahead log, foreign keys, full durability, explicit transactions, and one writer at a time per process.

This is what a connection needs with or without SQLAlchemy; see `sqlite_dialects` and `sqlite_driver`.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from prowess.errors import Unavailable
from prowess.storage.database_url import check_sqlite_file

if TYPE_CHECKING:
    import sqlalchemy as sa

BUSY_SECONDS = 10
"""How long a connection waits for the lock of another process. With four processes that write to one file all the time,
the longest wait measured was 2 seconds."""

CACHE_KIB = 16 * 1024


READ_SECONDS = 10
WRITE_SECONDS = 30
"""How long one statement may take. None of ours takes a second; with a damaged or hostile file one might never end."""

_STEPS = 500_000
"""How many steps of SQLite's virtual machine lie between two looks at the clock: about 10 ms."""


class Deadline:
    """When the statement that a connection executes must end."""

    __slots__ = ("at", "is_paused")

    def __init__(self) -> None:
        self.at = 0.0
        self.is_paused = False

    def has_passed(self) -> bool:
        """Return True if the statement must end now. SQLite calls this."""
        # A signal to the main thread is handled at the latest when this is called, and its exception ends the statement.
        _state.timed_out = (not self.is_paused and monotonic() > self.at) or _is_stopping
        return _state.timed_out


class _State(threading.local):
    timed_out = False
    held: tuple[WriterLock, ...] = ()
    """The locks that this thread holds while it forks."""


_state = _State()
_is_stopping = False


def was_interrupted() -> bool:
    """Return True if a statement of this thread was ended by the exception of a signal handler, not by its deadline."""
    return not _state.timed_out


def stop_statements() -> None:
    """Cancel statements that have been running for long, in all threads: the process was asked to stop."""
    global _is_stopping  # noqa: PLW0603  (the process ends once)
    _is_stopping = True


class DeadlineConnection(sqlite3.Connection):
    """A connection with a deadline."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.deadline = Deadline()
        self.engines: dict[sa.Engine, sa.Engine] = {}
        """SQLAlchemy's engines over this connection, see `adopt_connection`. They refer to it, until it is closed."""
        # Of the deadline and not of the connection, which would then keep itself alive.
        self.set_progress_handler(self.deadline.has_passed, _STEPS)

    def close(self) -> None:
        """Close the connection."""
        self.engines.clear()
        super().close()


@contextmanager
def no_deadline(connection: sa.Connection) -> Generator[None]:
    """Let statements take as long as they need, for a migration or a check of the whole file."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        yield
        return
    deadline = cast("DeadlineConnection", connection.connection.dbapi_connection).deadline
    deadline.is_paused = True
    try:
        yield
    finally:
        deadline.is_paused = False


def create_private_file(path: Path) -> None:
    """Create the file and its folder for the owner only; SQLite gives its side files the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unavailable(
            f"Cannot create the database {str(path)!r}: {reason}.",
            hint="Change the permissions, or choose another folder with PROWESS_HOME, PROWESS_DATABASE_URL or --workspace.",
        ) from error


def connect_sqlite(path: str) -> DeadlineConnection:
    """Return a new connection to a file, which may go from thread to thread."""
    # It is given to one thread at a time; sqlite3's own check would refuse that.
    options: dict[str, Any] = {"timeout": BUSY_SECONDS, "check_same_thread": False, "factory": DeadlineConnection}
    check_sqlite_file(path)
    connection = cast("DeadlineConnection", sqlite3.connect(Path(path).absolute(), **options))
    try:
        _configure(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _configure(connection: sqlite3.Connection) -> None:
    # We start transactions ourselves; the driver must not start others.
    connection.isolation_level = None
    # The file may come from anyone: its schema may not call functions with side effects, and damaged pages are noticed.
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    if sys.version_info >= (3, 12):  # earlier ones cannot set these; the check of the schema does not depend on them
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW, False)
    # With NORMAL, a power cut may undo the last commits, although they were acknowledged. FULL syncs
    # at every commit: about 4 ms instead of 40 µs.
    connection.execute("PRAGMA synchronous=FULL")
    # SQLite ignores foreign keys unless each connection asks for them.
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")  # negative: in KiB, not in pages


def use_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to write-ahead logging. This changes it, so it must be known to be ours.

    SQLite's busy timeout does not cover this statement, so two processes that open a new file at once retry here.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            [mode] = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            if mode != "wal":
                raise Unavailable(
                    f"SQLite could not enable its write-ahead log (it stays in {mode!r} mode).",
                    hint="Check that the disk is healthy and that its file system supports shared memory, "
                    "then try again.",
                )
            return


WRITER_WAIT_SECONDS = 60.0
"""How long a writer waits for the other writers of this process."""

LONG_WAIT_SECONDS = 5.0
"""A writer that waited longer than this fails at once if the one before it found the file locked by another program."""


class WriterLock:
    """A reentrant lock with a timeout for the writers of one process; a forked child starts with a free one.

    SQLite lets waiting writers retry at random, so among many threads some would starve until they time out.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._was_busy = False
        _writer_locks.add(self)

    def __enter__(self) -> None:
        began = monotonic()
        if not self._lock.acquire(timeout=WRITER_WAIT_SECONDS):
            raise Unavailable(
                f"Other threads of this process held the database for more than {WRITER_WAIT_SECONDS:.0f} seconds.",
                hint="Try again when there is less load.",
            )
        # The writer before this one waited for the other program in vain. Everyone in the queue would do the same, one
        # after the other, and the last would wait for minutes.
        if self._was_busy and monotonic() > began + LONG_WAIT_SECONDS:
            self._lock.release()
            raise Unavailable(
                "The database is locked by another program.",
                hint="Wait until the other program has finished, then try again.",
            )

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        cause = str(getattr(getattr(error, "orig", error), "sqlite_errorname", ""))
        self._was_busy = cause.startswith("SQLITE_BUSY")
        self._lock.release()

    def hold(self) -> bool:
        """Wait until no other thread writes, but not for long; return True if the lock is held now."""
        return self._lock.acquire(timeout=LONG_WAIT_SECONDS)

    def release(self) -> None:
        """Release the lock after `hold`."""
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock with a free one, even if it is held."""
        self._lock = threading.RLock()


_writer_locks: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _hold_locks() -> None:
    """Let no thread be in a transaction while the process forks.

    SQLite counts the locks of a process in its memory. The child inherits the count, but no thread that would end the
    transaction: it would find the file locked forever.
    """
    _state.held = tuple(lock for lock in list(_writer_locks) if lock.hold())


def _release_locks() -> None:
    for lock in _state.held:
        lock.release()
    _state.held = ()


def _renew_locks() -> None:
    """Free all locks in a forked child: the threads that held them exist only in the parent."""
    _state.held = ()
    for turns in _writer_locks:
        turns.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_renew_locks)
