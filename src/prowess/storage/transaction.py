"""One database transaction, and the snapshot that several reads of a thread share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.pool import ConnectionPoolEntry


class Transaction:
    """One transaction on its own connection. `translate` raises the matching `ProwessError` for an error, if any.

    A class, because the three nested generators of `contextlib` that this replaces took as long as SQLAlchemy does to
    check out a connection, and a run has many small transactions.
    """

    __slots__ = ("_after", "_connect", "_connection", "_lock", "_transaction", "_translate")

    def __init__(
        self,
        connect: Callable[[], sa.Connection],
        translate: Callable[[BaseException], None],
        lock: AbstractContextManager[None] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        self._connect = connect
        self._translate = translate
        self._lock = lock
        self._after = after

    def __enter__(self) -> sa.Connection:
        if self._lock is not None:
            self._lock.__enter__()
        try:
            connection = self._connect()
            try:
                self._transaction = connection.begin()
            except BaseException:
                connection.close()
                raise
        except BaseException as error:
            self._release(error)
            self._translate(error)
            raise
        self._connection = connection
        return connection

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        try:
            try:
                if error is None and self._transaction.is_active:  # the block may have rolled back by itself
                    self._transaction.commit()
            finally:
                self._connection.close()  # rolls back what is not committed
        except BaseException as failure:
            self._release(failure)
            # An interrupt may come while a connection is being set up, which cannot even be closed then. It is what counts.
            if isinstance(error, KeyboardInterrupt):
                return
            self._translate(failure)
            raise
        self._release(error)
        if error is not None:
            self._translate(error)
        elif self._after is not None:
            self._after()

    def _release(self, error: BaseException | None) -> None:
        if self._lock is not None:
            self._lock.__exit__(type(error) if error else None, error, None)


class SharedRead:
    """A read inside `Database.snapshot`: lends the connection of the snapshot."""

    __slots__ = ("_snapshot", "_translate")

    def __init__(self, snapshot: Snapshot, translate: Callable[[BaseException], None]) -> None:
        self._snapshot = snapshot
        self._translate = translate

    def __enter__(self) -> sa.Connection:
        return self._snapshot.connection()

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error is not None:
            self._translate(error)


class SnapshotOfThread(threading.local):
    """The snapshot of each thread; None outside one."""

    current: Snapshot | None = None


class Snapshot:
    """The transaction that the reads of a thread inside the block share. It starts with the first of them."""

    __slots__ = ("_connection", "_of_thread", "_transaction")

    def __init__(self, transaction: Transaction, of_thread: SnapshotOfThread) -> None:
        self._transaction = transaction
        self._of_thread = of_thread
        self._connection: sa.Connection | None = None

    def __enter__(self) -> None:
        self._of_thread.current = self

    def __exit__(self, *_: object) -> None:
        self._of_thread.current = None
        if self._connection is not None:
            self._transaction.__exit__(None, None, None)

    def connection(self) -> sa.Connection:
        """Return the connection; start the transaction if nothing was read before."""
        if self._connection is None:
            self._connection = self._transaction.__enter__()
        return self._connection


def close_returned(_connection: object, record: ConnectionPoolEntry) -> None:
    """Close a connection that comes back to a closed database, as a listener of its pool. Nobody else would."""
    record.invalidate()
