"""Rows of traces, read, closed and removed; `storage.trace_rows` writes them.

A row is a mapping with the names of the columns. Rows are read by organization and user; what belongs to others is never
among what is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from prowess.storage.run_tables import traces

Row = Mapping[str, Any]
Place = tuple[str, str]
"""When a run started and its id: where its row stands among others."""

LARGE = frozenset({"detail", "inputs", "rendered_input", "raw_output"})
"""The columns that a list leaves out."""

RUNNING = traces.c.status == sa.literal_column("'running'")  # written out, so that the partial index is used
_BRIEF = [column for column in traces.columns if column.name not in LARGE]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Which traces: those of an organization and of one of its users (None for all users), narrowed by what is not ''."""

    organization_id: str
    user_id: str | None
    run: str = ""
    skill: str = ""
    """The slug or the id."""
    artifact: str = ""
    """The name or the id."""
    status: str = ""
    session: str = ""
    model: str = ""
    since: str = ""
    """A moment as the clock writes it: runs that started then or later."""

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """What a row must fulfil, for a query."""
        columns = traces.c
        found = [columns.organization_id == self.organization_id]
        if self.user_id is not None:
            found.append(columns.user_id == self.user_id)
        if self.skill:
            found.append(sa.or_(columns.skill_slug == self.skill, columns.skill_id == self.skill))
        if self.artifact:
            found.append(sa.or_(columns.artifact_name == self.artifact, columns.artifact_id == self.artifact))
        exact = {
            columns.run_id: self.run,
            columns.status: self.status,
            columns.session_id: self.session,
            columns.model_id: self.model,
        }
        found += [column == value for column, value in exact.items() if value]
        if self.since:
            found.append(columns.started_at >= self.since)
        return found


def place_of(row: Row) -> Place:
    """Where a row stands."""
    return row["started_at"], row["id"]


def get(connection: sa.Connection, which: TraceFilter, id: str) -> Row | None:
    """One whole row by its id; None also where the filter does not let it through."""
    query = sa.select(traces).where(traces.c.id == id, *which.conditions())
    found = connection.execute(query).mappings().first()
    return {**found} if found else None


def read_newest(
    connection: sa.Connection, which: TraceFilter, *, limit: int, after: Place | None = None, whole: bool = False
) -> list[Row]:
    """Rows from the newest on, or those that follow a place in that order; without the large columns unless `whole`."""
    query = sa.select(traces) if whole else sa.select(*_BRIEF)
    query = query.where(*which.conditions())
    if after is not None:
        query = query.where(sa.tuple_(traces.c.started_at, traces.c.id) < sa.tuple_(*after))
    query = query.order_by(traces.c.started_at.desc(), traces.c.id.desc()).limit(limit)
    return [{**row} for row in connection.execute(query).mappings()]


def read_oldest(
    connection: sa.Connection, which: TraceFilter, *, limit: int, after: Place | None = None, whole: bool = False
) -> list[Row]:
    """The same from the oldest on: to follow what happens, or to walk through everything."""
    query = sa.select(traces) if whole else sa.select(*_BRIEF)
    query = query.where(*which.conditions())
    if after is not None:
        query = query.where(sa.tuple_(traces.c.started_at, traces.c.id) > sa.tuple_(*after))
    query = query.order_by(traces.c.started_at, traces.c.id).limit(limit)
    return [{**row} for row in connection.execute(query).mappings()]


def read_running(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Id, process and deadline of every run that has not ended, of whomever."""
    query = sa.select(traces.c.id, traces.c.process, traces.c.deadline_at).where(RUNNING)
    return [(row.id, row.process, row.deadline_at) for row in connection.execute(query)]


def close_running(connection: sa.Connection, ids: Sequence[str], *, moment: str, error: str, code: str) -> int:
    """End these as interrupted, those that still have not ended; how many that were."""
    closed = 0
    for start in range(0, len(ids), 500):
        change = (
            sa.update(traces)
            .where(RUNNING, traces.c.id.in_(ids[start : start + 500]))
            .values(status="interrupted", completed_at=moment, error=error, error_code=code)
        )
        closed += connection.execute(change).rowcount
    return closed


def has_before(connection: sa.Connection, moment: str) -> bool:
    """Whether there is a run that `delete_before` would remove."""
    old = sa.select(traces.c.id).where(traces.c.started_at < moment, traces.c.status != sa.literal_column("'running'"))
    return connection.execute(old.limit(1)).first() is not None


def delete_before(connection: sa.Connection, moment: str, *, limit: int) -> int:
    """Remove up to `limit` rows of runs that started before a moment and do not run; how many that were."""
    oldest = (
        sa.select(traces.c.id)
        .where(traces.c.started_at < moment, traces.c.status != sa.literal_column("'running'"))
        .limit(limit)
    )
    return connection.execute(sa.delete(traces).where(traces.c.id.in_(oldest))).rowcount
