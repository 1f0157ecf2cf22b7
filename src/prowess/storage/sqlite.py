"""SQLite as Prowess uses it: write-ahead log, foreign keys, nothing lost, and transactions that begin as they must.

The two dialects differ from SQLAlchemy's own only in how they begin: the driver would begin by itself, deferred, and a
transaction that begins with a read cannot wait for the write lock later. They are dialects and not event listeners
because listeners cost every query a fifth of its time.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.pool import PoolProxiedConnection

from prowess.errors import Invalid, Unavailable
from prowess.storage.faults import URL_HINT

BUSY_SECONDS = 10
CACHE_KIB = 16 * 1024


class ReadingSqlite(SQLiteDialect_pysqlite):
    """A transaction sees one state, from its first query on."""

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Begin without a lock."""
        _raw(dbapi_connection).execute("BEGIN")


class WritingSqlite(SQLiteDialect_pysqlite):
    """A transaction is the only writer, from its beginning on."""

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Begin with the write lock, waiting for it."""
        _raw(dbapi_connection).execute("BEGIN IMMEDIATE")


registry.register("sqlite.prowess_reading", __name__, ReadingSqlite.__name__)
registry.register("sqlite.prowess_writing", __name__, WritingSqlite.__name__)


def sqlite_engines(url: sa.URL, **options: Any) -> tuple[sa.Engine, sa.Engine]:
    """An engine to read with and one to write with, over one pool of connections."""
    if not url.database or url.database == ":memory:":
        raise Invalid("A SQLite database needs a file to live in.", hint=URL_HINT)
    _make_private(Path(url.database))
    reading, writing = (url.set(drivername=f"sqlite+prowess_{which}") for which in ("reading", "writing"))
    arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    writer = sa.create_engine(writing, connect_args=arguments, pool_size=8, max_overflow=24, **options)
    event.listen(writer, "connect", _prepare)
    return sa.create_engine(reading, pool=writer.pool, **options), writer


def _make_private(path: Path) -> None:
    """Make the file, and its folder, for the owner only; SQLite gives its side files the same mode."""
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


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    _use_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; the busy timeout does not cover this, so two first openers meet here."""
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


def _raw(connection: PoolProxiedConnection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.dbapi_connection)
