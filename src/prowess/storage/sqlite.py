"""Set up SQLite: write-ahead log, foreign keys, full durability, explicit transactions, and one writer at a time per process.

The two dialects differ from SQLAlchemy's own only in how they begin a transaction: the driver would begin by itself,
deferred, and a transaction that begins with a read cannot wait for the write lock later. They are dialects and not event
listeners because listeners cost every query a fifth of its time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from pathlib import Path
from time import monotonic
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.pool import PoolProxiedConnection

from prowess.errors import Invalid, Unavailable
from prowess.storage.driver_errors import URL_HINT

BUSY_SECONDS = 10
"""How long a connection waits for the lock of another process. With four processes that write to one file all the time,
the longest wait measured was 2 seconds."""

CACHE_KIB = 16 * 1024


class SqliteReadDialect(SQLiteDialect_pysqlite):
    """Begins transactions that see one state from their first query on."""

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Begin without a lock."""
        _driver_connection(dbapi_connection).execute("BEGIN")


class SqliteWriteDialect(SQLiteDialect_pysqlite):
    """Begins transactions that hold the write lock from the start."""

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Wait for the write lock and begin.

        A deferred transaction that reads first cannot wait when it wants to write later: SQLite fails it at once.
        """
        _driver_connection(dbapi_connection).execute("BEGIN IMMEDIATE")


registry.register("sqlite.prowess_reading", __name__, SqliteReadDialect.__name__)
registry.register("sqlite.prowess_writing", __name__, SqliteWriteDialect.__name__)


def sqlite_engines(url: sa.URL, **options: Any) -> tuple[sa.Engine, sa.Engine]:
    """Return an engine for reading and one for writing, over one pool of connections."""
    if not url.database or url.database == ":memory:":
        raise Invalid("A SQLite database needs a file to live in.", hint=URL_HINT)
    _create_private_file(Path(url.database))
    reading, writing = (url.set(drivername=f"sqlite+prowess_{which}") for which in ("reading", "writing"))
    # The pool gives a connection to whichever thread asks, and to one at a time; sqlite3's own check would refuse that.
    arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    writer = sa.create_engine(writing, connect_args=arguments, pool_size=8, max_overflow=24, **options)
    event.listen(writer, "connect", _configure)
    return sa.create_engine(reading, pool=writer.pool, **options), writer


def _create_private_file(path: Path) -> None:
    """Create the file and its folder for the owner only; SQLite gives its side files the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unavailable(
            f"The database {str(path)!r} cannot be made: {reason}.",
            hint="Name a file in a folder that you may write to.",
        ) from error


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    # The dialects begin transactions; the driver must not begin others by itself.
    connection.isolation_level = None
    _use_wal(connection)
    # With NORMAL, a power cut may undo the last commits, although they were acknowledged. FULL syncs
    # at every commit: about 4 ms instead of 40 µs.
    connection.execute("PRAGMA synchronous=FULL")
    # SQLite ignores foreign keys unless each connection asks for them.
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")  # negative: in KiB, not in pages


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging.

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
                    f"SQLite could not switch to its write-ahead log (it stays in {mode!r} mode).",
                    hint="See that the disk is healthy and its file system allows shared memory, then try again.",
                )
            return


def _driver_connection(connection: PoolProxiedConnection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.dbapi_connection)


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
                f"Other writers of this process did not let go of the database for {WRITER_WAIT_SECONDS:.0f} seconds.",
                hint="Try again when there is less to do.",
            )
        # The writer before this one waited for the other program in vain. Everyone in the queue would do the same, one
        # after the other, and the last would wait for minutes.
        if self._was_busy and monotonic() > began + LONG_WAIT_SECONDS:
            self._lock.release()
            raise Unavailable(
                "The database is locked by another program.", hint="Let the other one finish, then try again."
            )

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        cause = str(getattr(getattr(error, "orig", error), "sqlite_errorname", ""))
        self._was_busy = cause.startswith("SQLITE_BUSY")
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock with a free one, even if it is held."""
        self._lock = threading.RLock()


_writer_locks: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _renew_locks() -> None:
    """Free all locks in a forked child: the threads that held them exist only in the parent."""
    for turns in _writer_locks:
        turns.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
