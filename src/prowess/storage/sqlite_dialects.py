"""SQLAlchemy's side of SQLite: dialects and engines.

The two dialects differ from SQLAlchemy's own in two ways: each statement has a deadline, and they begin transactions. The
driver would begin by itself, deferred, and a transaction that begins with a read cannot wait for the write lock later.
They are dialects and not event listeners because listeners cost every query a fifth of its time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.pool import PoolProxiedConnection

from prowess.storage.sqlite import READ_SECONDS, WRITE_SECONDS, DeadlineConnection


class _LimitedDialect(SQLiteDialect_pysqlite):
    """Sets the deadline before each statement."""

    supports_statement_cache = True
    seconds = READ_SECONDS

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:  # noqa: ARG002
        """Execute one statement."""
        cursor.connection.deadline.at = monotonic() + self.seconds
        cursor.execute(statement, parameters)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:  # noqa: ARG002
        """Execute one statement for many rows."""
        cursor.connection.deadline.at = monotonic() + self.seconds
        cursor.executemany(statement, parameters)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:  # noqa: ARG002
        """Execute one statement without parameters."""
        cursor.connection.deadline.at = monotonic() + self.seconds
        cursor.execute(statement)


class SqliteReadDialect(_LimitedDialect):
    """Begins transactions that see one state from their first query on."""

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Begin without a lock."""
        _begin(dbapi_connection, "BEGIN")


class SqliteWriteDialect(_LimitedDialect):
    """Begins transactions that hold the write lock from the start."""

    supports_statement_cache = True
    seconds = WRITE_SECONDS

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Wait for the write lock and begin.

        A deferred transaction that reads first cannot wait when it wants to write later: SQLite fails it at once.
        """
        _begin(dbapi_connection, "BEGIN IMMEDIATE")


registry.register("sqlite.prowess_reading", __name__, SqliteReadDialect.__name__)
registry.register("sqlite.prowess_writing", __name__, SqliteWriteDialect.__name__)


class _LendingDialect(_LimitedDialect):
    """Leaves a connection open, for a pool that was lent it."""

    supports_statement_cache = True

    def do_close(self, dbapi_connection: Any) -> None:
        """Do nothing."""


def sqlite_engines(path: str, take: Callable[[], Any], **options: Any) -> tuple[sa.Engine, sa.Engine]:
    """Return an engine for reading and one for writing, over one pool of connections, which `take` returns."""
    url = sa.URL.create("sqlite", database=path)
    reading, writing = (url.set(drivername=f"sqlite+prowess_{which}") for which in ("reading", "writing"))
    writer = sa.create_engine(
        writing,
        creator=take,
        pool_size=8,
        max_overflow=24,
        # The connection that was used last. What one connection writes empties the page cache of all others, so in turn
        # each of them would read its pages anew in every transaction.
        pool_use_lifo=True,
        **options,
    )
    reader = sa.create_engine(reading, pool=writer.pool, **options)
    # SQLAlchemy completes its dialects with the first connection, which may come after the first that is adopted. None is
    # made for this: opening one more marks the log of the file as changed, see `fingerprint_sqlite`.
    for engine in (reader, writer):
        scratch = sqlite3.connect(":memory:", factory=DeadlineConnection)
        with closing(scratch), adopt_connection(engine, scratch) as connection:
            engine.dialect.initialize(connection)
    return reader, writer


def adopt_connection(engine: sa.Engine, connection: sqlite3.Connection) -> sa.Connection:
    """Return SQLAlchemy's view of a connection, in the transaction that it has begun. Closing that leaves it open."""
    pool = sa.NullPool(lambda: cast("Any", connection), reset_on_return=None, dialect=_LendingDialect())
    options = dict(engine.get_execution_options())
    return sa.Engine(pool, engine.dialect, engine.url, execution_options=options).connect()


def _begin(connection: PoolProxiedConnection, statement: str) -> None:
    driver = cast("sqlite3.Connection", connection.dbapi_connection)
    if not driver.in_transaction:  # an adopted connection has begun
        driver.execute(statement)
