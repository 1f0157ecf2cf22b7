"""Use SQLite through its driver, with SQLAlchemy only where a statement needs it.

The connections stand in for SQLAlchemy's, whose own take longer than a short transaction, and longer to import than a command
runs. Statements whose text is known need no more: those in `storage.sql`, and others once they were compiled. Any other use
of a connection imports SQLAlchemy, which continues in the same transaction.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from prowess.storage.seals import Seals
from prowess.storage.sqlite import READ_SECONDS, WRITE_SECONDS, DeadlineConnection, connect_sqlite, use_wal

if TYPE_CHECKING:
    import sqlalchemy as sa

_IDLE = 8
"""How many connections are kept for the next transactions."""


class DriverDialect:
    """Executes statements with a deadline, as the dialects of `sqlite_dialects` do."""

    name = "sqlite"

    def __init__(self, begin: str, seconds: float) -> None:
        self.begin = begin
        self.seconds = seconds

    def do_execute(self, cursor: Any, statement: str, parameters: Any) -> None:
        """Execute one statement."""
        cursor.connection.deadline.at = monotonic() + self.seconds
        cursor.execute(statement, parameters)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any) -> None:
        """Execute one statement for many rows."""
        cursor.connection.deadline.at = monotonic() + self.seconds
        cursor.executemany(statement, parameters)


READING = DriverDialect("BEGIN", READ_SECONDS)
WRITING = DriverDialect("BEGIN IMMEDIATE", WRITE_SECONDS)


class DriverPool:
    """The connections to one file. `adopt` returns SQLAlchemy's view of one, for reading or for writing."""

    def __init__(self, path: str, seals: Seals, adopt: Callable[[DeadlineConnection, bool], sa.Connection]) -> None:
        self._path = path
        self.options = {"seals": seals}
        self.adopt = adopt
        self._idle: list[DeadlineConnection] = []
        self._is_closed = False
        _pools.add(self)

    def connect(self, write: bool) -> DriverConnection:
        """Return a separate connection for one transaction."""
        return DriverConnection(self, self.take(), write=write)

    def take(self) -> DeadlineConnection:
        """Return an idle connection, or a new one."""
        try:
            return self._idle.pop()  # the one that was used last has the pages that are needed next
        except IndexError:
            return connect_sqlite(self._path)

    def give_back(self, connection: DeadlineConnection) -> None:
        """Keep a connection for the next transaction, or close it."""
        if self._is_closed or len(self._idle) >= _IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def use_wal(self) -> None:
        """Switch the file to write-ahead logging; all connections to it use that then."""
        connection = self.take()
        try:
            use_wal(connection)
        finally:
            self.give_back(connection)

    def close(self) -> None:
        """Close all idle connections, and from now on each other one as soon as it is given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """Forget the parent's connections in a forked child, without closing them."""
        # Referenced for as long as the child lives: dropping the last reference would close them.
        _inherited.append(self._idle)
        self._idle = []


class DriverConnection:
    """Stands in for a connection of SQLAlchemy and for its transaction. Anything not written out here is SQLAlchemy's."""

    def __init__(self, pool: DriverPool, connection: DeadlineConnection, *, write: bool) -> None:
        self._pool = pool
        self._write = write
        self._adopted: sa.Connection | None = None
        self._transaction: sa.RootTransaction | None = None
        self.dbapi_connection = connection
        self.dialect = WRITING if write else READING

    @property
    def connection(self) -> DriverConnection:
        """What SQLAlchemy's connections have in this place: something with the driver's connection and its cursors."""
        return self

    def cursor(self) -> Any:
        """Return a cursor of the driver."""
        return self.dbapi_connection.cursor()

    def get_execution_options(self) -> dict[str, Any]:
        """Return the seals, see `seals_of`."""
        return self._pool.options

    def begin(self) -> DriverConnection:
        """Start the transaction, for writing with the write lock."""
        self.dbapi_connection.execute(self.dialect.begin)
        return self

    @property
    def is_active(self) -> bool:
        """True until the transaction ends."""
        return self._transaction.is_active if self._transaction else self.dbapi_connection.in_transaction

    def commit(self) -> None:
        """Commit the transaction."""
        (self._transaction or self.dbapi_connection).commit()

    def close(self) -> None:
        """Roll back what is not committed, and give the connection back."""
        try:
            if self._adopted is not None:
                self._adopted.close()
            self.dbapi_connection.rollback()
        # Its transaction may still be open, so the connection must not go back to the pool.
        except BaseException:
            self.dbapi_connection.close()
            raise
        self._pool.give_back(self.dbapi_connection)

    def adopted(self) -> sa.Connection:
        """Return SQLAlchemy's view of this connection, in the same transaction."""
        if self._adopted is None:
            self._adopted = self._pool.adopt(self.dbapi_connection, self._write)
            self._transaction = self._adopted.begin()
        return self._adopted

    def __getattr__(self, name: str) -> Any:
        return getattr(self.adopted(), name)


def real_connection(connection: sa.Connection) -> sa.Connection:
    """Return SQLAlchemy's own connection, for what accepts no other."""
    candidate = cast("object", connection)
    return candidate.adopted() if isinstance(candidate, DriverConnection) else connection


_pools: weakref.WeakSet[DriverPool] = weakref.WeakSet()
_inherited: list[list[DeadlineConnection]] = []


def _forget_inherited() -> None:
    for pool in _pools:
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)
