"""Delete old rows of the two logs and idle sessions, in small batches, and keep what metrics need of them.

A log loses rows only from its start, and never its newest row, from which the numbering continues. Every batch is one
transaction that also adds to `pruned_counts`, so that each row counts exactly once for every reader. It is
read and counted before, without the write lock: the rows of a log never change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa

from prowess.storage.compositions import compositions
from prowess.storage.counts import LOADED, NO_BUCKET, bucket_of, files_of
from prowess.storage.people import web_sessions
from prowess.storage.sql.approvals import approvals
from prowess.storage.sql.counts import pruned_counts
from prowess.storage.sql.ledger import audit, events
from prowess.storage.sql.org_settings import org_settings
from prowess.storage.sql.sessions import sessions
from prowess.storage.sql.spend import spend
from prowess.storage.sql.traces import RUNNING, traces
from prowess.storage.tables import count_rows, dialect_insert

Log = Literal["events", "audit"]

_LOGS: dict[Log, sa.Table] = {"events": events, "audit": audit}
_COUNTED_COLUMNS: dict[Log, tuple[sa.Column[Any], ...]] = {
    "events": tuple(events.c[name] for name in ("number", "at", "name", "subject", "source", "seconds", "data")),
    "audit": tuple(audit.c[name] for name in ("number", "at", "action", "outcome")),
}
_LOCK_NAME = "retention"
_add_counts = dialect_insert(
    pruned_counts,
    lambda insert: insert.on_conflict_do_update(
        index_elements=list(pruned_counts.primary_key),
        set_={
            "total": pruned_counts.c.total + insert.excluded.total,
            "seconds": pruned_counts.c.seconds + insert.excluded.seconds,
            "last_at": insert.excluded.last_at,
        },
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The rows of a log that may be pruned: the first row, the last of them, and their number."""

    first: int = 0
    upto: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are. Numbers have no gaps."""
        return self.upto - self.first + 1 if self.upto else 0


class _Key(NamedTuple):
    log: str
    name: str
    subject: str
    source: str = ""
    bucket: int = NO_BUCKET


_Count = tuple[int, float, str]
"""The number of rows, the sum of their seconds, and the time of the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """Rows to delete together, by the numbers of the first and the last, with what they count."""

    log: Log
    first: int
    last: int
    rows: int
    counted: dict[_Key, _Count]


def try_lock(connection: sa.Connection) -> bool:
    """Return True if nobody else prunes this database. The lock ends with the transaction; PostgreSQL only."""
    query = sa.func.pg_try_advisory_xact_lock(sa.func.hashtextextended(_LOCK_NAME, 0))
    return connection.execute(sa.select(query)).scalar_one()


def list_organizations(connection: sa.Connection) -> list[str]:
    """Return every organization that has rows which could be pruned, or settings."""
    tables = (events, audit, sessions, traces, web_sessions, compositions, org_settings)
    return sorted({name for table in tables for name in _distinct(connection, table.c.organization_id)})


def list_audited(connection: sa.Connection) -> list[str]:
    """Return every organization that has audit rows."""
    return list(_distinct(connection, audit.c.organization_id))


def _distinct(connection: sa.Connection, column: sa.Column[str]) -> Iterator[str]:
    """Yield the values of an indexed column, from one to the next along the index: DISTINCT would read every row."""
    query, last = sa.select(sa.func.min(column)), None
    while (last := connection.execute(query if last is None else query.where(column > last)).scalar()) is not None:
        yield last


def find_old_rows(connection: sa.Connection, log: Log, organization_id: str, before: str) -> LogRange:
    """Return the rows of a log that are older than a time, without the newest row of the log."""
    table = _LOGS[log]
    of = table.c.organization_id == organization_id
    numbers = sa.select(table.c.number, table.c.at).where(of).limit(1)
    oldest = connection.execute(numbers.order_by(table.c.number)).first()
    newest = connection.execute(numbers.order_by(table.c.number.desc())).first()
    if oldest is None or newest is None or oldest.at >= before:
        return LogRange()
    # Times follow the numbers, so the last old row is found in a few steps, without an index by time.
    low, high = oldest.number, newest.number - 1
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(numbers.where(table.c.number >= middle).order_by(table.c.number)).one()
        low, high = (middle, high) if row.at < before else (low, middle - 1)
    return LogRange(first=oldest.number, upto=high) if high >= oldest.number else LogRange()


def read_batch(connection: sa.Connection, log: Log, organization_id: str, *, upto: int, limit: int) -> LogBatch | None:
    """Return up to `limit` of the oldest rows of a log, up to a number, with what they count; None if there are none."""
    table = _LOGS[log]
    query = sa.select(*_COUNTED_COLUMNS[log]).where(table.c.organization_id == organization_id, table.c.number <= upto)
    rows = connection.execute(query.order_by(table.c.number).limit(limit)).all()
    if not rows:
        return None
    counted: dict[_Key, _Count] = {}
    for row in rows:
        if log == "audit":
            _count(counted, _Key("audit", row.action, row.outcome), row.at)
            continue
        bucket = NO_BUCKET if row.seconds is None else bucket_of(row.seconds)
        _count(counted, _Key("events", row.name, row.subject, row.source, bucket), row.at, row.seconds or 0.0)
        if row.name == LOADED and row.subject and row.seconds is not None:
            for file in files_of(row.data):
                _count(counted, _Key("files", "", row.subject, file), row.at)
    return LogBatch(log=log, first=rows[0].number, last=rows[-1].number, rows=len(rows), counted=counted)


def delete_batch(connection: sa.Connection, organization_id: str, batch: LogBatch) -> bool:
    """Delete the rows of a batch and store what they counted. Return False, with nothing changed, if another process did it.

    Before audit rows are deleted, a row of the chain must have recorded the last of them, see `audit_chain`.
    """
    table = _LOGS[batch.log]
    these = table.c.number.between(batch.first, batch.last)
    deleted = connection.execute(sa.delete(table).where(table.c.organization_id == organization_id, these)).rowcount
    # The rows were read without a lock. Another process has deleted some of them, and has counted those already.
    if deleted != batch.rows:
        connection.rollback()
        return False
    rows: list[dict[str, Any]] = [
        {**key._asdict(), "organization_id": organization_id, "total": total, "seconds": seconds, "last_at": last}
        for key, (total, seconds, last) in sorted(batch.counted.items())
    ]
    connection.execute(_add_counts(connection), rows)
    return True


def _count(counted: dict[_Key, _Count], key: _Key, at: str, seconds: float = 0.0) -> None:
    total, sum_so_far, _ = counted.get(key, (0, 0.0, ""))
    counted[key] = (total + 1, sum_so_far + seconds, at)


def count_idle_sessions(connection: sa.Connection, organization_id: str, before: str) -> int:
    """Return how many sessions `delete_idle_sessions` would delete."""
    return count_rows(connection, sessions, _is_idle(organization_id, before))


def delete_idle_sessions(connection: sa.Connection, organization_id: str, *, before: str, limit: int) -> int:
    """Delete up to `limit` sessions that nobody has used since a time, with their skills and spending; return how many."""
    # Locked rows are in use after all.
    idle = sa.select(sessions.c.id).where(_is_idle(organization_id, before)).limit(limit)
    found = connection.scalars(idle.with_for_update(skip_locked=True)).all()
    if not found:
        return 0
    accounts = [f"session:{session_id}" for session_id in found]
    connection.execute(sa.delete(spend).where(spend.c.organization_id == organization_id, spend.c.purse.in_(accounts)))
    return connection.execute(sa.delete(sessions).where(sessions.c.id.in_(found))).rowcount


def count_ended_web_sessions(connection: sa.Connection, organization_id: str, before: str) -> int:
    """Return how many web sessions `delete_ended_web_sessions` would delete."""
    return count_rows(connection, web_sessions, _has_ended(organization_id, before))


def delete_ended_web_sessions(connection: sa.Connection, organization_id: str, *, before: str, limit: int) -> int:
    """Delete up to `limit` web sessions that expired before a time; return how many."""
    # A subquery, because PostgreSQL has no DELETE with a LIMIT.
    ended = sa.select(web_sessions.c.hash).where(_has_ended(organization_id, before)).limit(limit)
    return connection.execute(sa.delete(web_sessions).where(web_sessions.c.hash.in_(ended))).rowcount


def _has_ended(organization_id: str, before: str) -> sa.ColumnElement[bool]:
    return sa.and_(web_sessions.c.organization_id == organization_id, web_sessions.c.expires_at < before)


def _is_idle(organization_id: str, before: str) -> sa.ColumnElement[bool]:
    """Return the condition that a session was not used since a time, and that nothing waits for it."""
    has_pending = sa.exists().where(
        approvals.c.organization_id == organization_id,
        approvals.c.state == "pending",
        approvals.c.session_id == sessions.c.id,
    )
    ran = sa.exists().where(traces.c.session_id == sessions.c.id, sa.or_(RUNNING, traces.c.started_at >= before))
    return sa.and_(sessions.c.organization_id == organization_id, sessions.c.updated_at < before, ~has_pending, ~ran)
