"""SQLAlchemy's side of SQLite: dialects and engines. The connections are those of `sqlite_driver`.

The two dialects differ from SQLAlchemy's own in two ways: each statement has a deadline, and they start transactions. The
driver would start by itself, deferred, and a transaction that starts with a read cannot wait for the write lock later.
They are dialects and not event listeners because listeners cost every query a fifth of its time.
"""

from __future__ import annotations

import sqlite3
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
        """Start without a lock."""
        _begin(dbapi_connection, "BEGIN")


class SqliteWriteDialect(_LimitedDialect):
    """Begins transactions that hold the write lock from the start."""

    supports_statement_cache = True
    seconds = WRITE_SECONDS

    def do_begin(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Wait for the write lock and start.

        A deferred transaction that reads first cannot wait when it wants to write later: SQLite fails it at once.
        """
        _begin(dbapi_connection, "BEGIN IMMEDIATE")


registry.register("sqlite.prowess_reading", __name__, SqliteReadDialect.__name__)
registry.register("sqlite.prowess_writing", __name__, SqliteWriteDialect.__name__)


def sqlite_engines(path: str, **options: Any) -> tuple[sa.Engine, sa.Engine]:
    """Return an engine for reading and one for writing, from which `adopt_connection` takes all but the connection."""
    url = sa.URL.create("sqlite", database=path)
    reader, writer = (
        sa.create_engine(url.set(drivername=f"sqlite+prowess_{which}"), poolclass=sa.NullPool, **options)
        for which in ("reading", "writing")
    )
    # SQLAlchemy completes a dialect with the first connection of its engine. None is made for this: opening one more marks
    # the log of the file as changed, see `fingerprint_sqlite`.
    for engine in (reader, writer):
        scratch = sqlite3.connect(":memory:", factory=DeadlineConnection)
        with closing(scratch), adopt_connection(engine, scratch) as connection:
            engine.dialect.initialize(connection)
    return reader, writer


def adopt_connection(engine: sa.Engine, connection: DeadlineConnection) -> sa.Connection:
    """Return SQLAlchemy's view of a connection, in the transaction that it has started. Closing that leaves it open."""
    # Kept with the connection, because making it takes longer than a short transaction.
    own = connection.engines.get(engine)
    if own is None:
        pool = sa.StaticPool(lambda: cast("Any", connection), reset_on_return=None, dialect=engine.dialect)
        options = dict(engine.get_execution_options())
        own = connection.engines[engine] = sa.Engine(pool, engine.dialect, engine.url, execution_options=options)
    return own.connect()


def _begin(connection: PoolProxiedConnection, statement: str) -> None:
    driver = cast("sqlite3.Connection", connection.dbapi_connection)
    if not driver.in_transaction:  # an adopted connection has started
        driver.execute(statement)
