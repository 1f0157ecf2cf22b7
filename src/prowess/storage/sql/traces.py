"""The table and statements of `storage.traces`.

`skill_execution_traces` has the columns of the Inklings schema and more; large ones come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, raw_json
from prowess.storage.tables import ORDERED_JSON, metadata, texts
from prowess.storage.traces import DOCUMENTS, SMALL_COLUMNS, TraceFilter, TracePosition, TraceSort

traces = sa.Table(
    "skill_execution_traces",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *texts(
        "run_id",
        "organization_id",
        "user_id",
        "actor",
        "session_id",
        "skill_id",
        "skill_slug",
        "skill_digest",
        "artifact_id",
        "artifact_name",
        "artifact_kind",
    ),
    sa.Column("fallback_of", sa.Text),
    *texts("status", "started_at", "deadline_at", "process"),
    sa.Column("completed_at", sa.Text),
    sa.Column("duration_ms", sa.Integer),
    sa.Column("model_id", sa.Text),
    sa.Column("input_tokens", sa.Integer),
    sa.Column("output_tokens", sa.Integer),
    sa.Column("estimated_cost", sa.Float),
    sa.Column("assertions_run", sa.Integer, nullable=False),
    sa.Column("assertions_passed", sa.Integer, nullable=False),
    sa.Column("error_code", sa.Text),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("verdicts", ORDERED_JSON, nullable=False),
    sa.Column("detail", ORDERED_JSON, nullable=False),
    sa.Column("inputs", ORDERED_JSON, nullable=False),
    sa.Column("rendered_input", sa.Text),
    sa.Column("raw_output", sa.Text),
)

sa.Index("idx_traces_session_id", traces.c.session_id)
sa.Index("idx_traces_skill_id", traces.c.skill_id)
sa.Index("idx_traces_artifact_id", traces.c.artifact_id)
sa.Index("ix_traces_organization_started", traces.c.organization_id, traces.c.started_at)
sa.Index("ix_traces_owner_started", traces.c.organization_id, traces.c.user_id, traces.c.started_at)
# Partial: nearly all runs have ended, and finding the few others must not depend on their number.
sa.Index(
    "ix_traces_running",
    traces.c.deadline_at,
    sqlite_where=traces.c.status == "running",
    postgresql_where=traces.c.status == "running",
)

RUNNING = traces.c.status == sa.literal_column("'running'")  # a literal, so that the planner uses the partial index
ALL_RUNNING = CompiledSelect(sa.select(traces.c.id, traces.c.process, traces.c.deadline_at).where(RUNNING))
_OURS = traces.c.organization_id == sa.bindparam("of")
_OF_USER = traces.c.user_id == sa.bindparam("by")
_NEWEST = (
    sa.select(*(raw_json(traces.c[name]) if name in DOCUMENTS else traces.c[name] for name in SMALL_COLUMNS))
    .where(_OURS)
    .order_by(traces.c.started_at.desc(), traces.c.id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
NEWEST = CompiledSelect(_NEWEST)
NEWEST_OF_USER = CompiledSelect(_NEWEST.where(_OF_USER))
_COUNT = sa.select(sa.func.count()).select_from(traces).where(_OURS)
COUNT = CompiledSelect(_COUNT)
COUNT_OF_USER = CompiledSelect(_COUNT.where(_OF_USER))
_OLD = sa.and_(_OURS, traces.c.started_at < sa.bindparam("moment"), ~RUNNING)
COUNT_OLD = CompiledSelect(sa.select(sa.func.count()).select_from(traces).where(_OLD))
# Runs without a value come last: no value is below zero.
_SORT_KEYS: dict[TraceSort, sa.ColumnElement[Any]] = {
    "started_at": traces.c.started_at,
    "duration_ms": sa.func.coalesce(traces.c.duration_ms, -1),
    "estimated_cost": sa.func.coalesce(traces.c.estimated_cost, -1.0),
}


def conditions(which: TraceFilter) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of a filter."""
    columns = traces.c
    found = [columns.organization_id == which.organization_id]
    if which.user_id is not None:
        found.append(columns.user_id == which.user_id)
    if which.skill:
        found.append(sa.or_(columns.skill_slug == which.skill, columns.skill_id == which.skill))
    if which.artifact:
        found.append(sa.or_(columns.artifact_name == which.artifact, columns.artifact_id == which.artifact))
    exact = {
        columns.run_id: which.run,
        columns.status: which.status,
        columns.session_id: which.session,
        columns.model_id: which.model,
        columns.artifact_kind: which.kind,
    }
    found += [column == value for column, value in exact.items() if value]
    if which.since:
        found.append(columns.started_at >= which.since)
    return found


def one(which: TraceFilter, id: str) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of one whole row."""
    return sa.select(traces).where(traces.c.id == id, *conditions(which))


def newest(
    which: TraceFilter, *, after: TracePosition | None, whole: bool, sort: TraceSort
) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of rows, the highest values first."""
    query = _select(whole).where(*conditions(which))
    if after is not None:
        query = query.where(sa.tuple_(_SORT_KEYS[sort], traces.c.id) < sa.tuple_(*after))
    return query.order_by(_SORT_KEYS[sort].desc(), traces.c.id.desc())


def oldest(which: TraceFilter, *, after: TracePosition | None, whole: bool) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of rows, oldest first."""
    query = _select(whole).where(*conditions(which))
    if after is not None:
        query = query.where(sa.tuple_(traces.c.started_at, traces.c.id) > sa.tuple_(*after))
    return query.order_by(traces.c.started_at, traces.c.id)


def _select(whole: bool) -> sa.Select[*tuple[Any, ...]]:
    return sa.select(traces) if whole else sa.select(*(traces.c[name] for name in SMALL_COLUMNS))


def count(which: TraceFilter) -> sa.Select[int]:
    """Return a select of how many rows there are."""
    return sa.select(sa.func.count()).select_from(traces).where(*conditions(which))


def ids(which: TraceFilter, start: str) -> sa.Select[str]:
    """Return a select of the ids that begin with a prefix."""
    return sa.select(traces.c.id).where(traces.c.id.startswith(start, autoescape=True), *conditions(which))


def close(ids: Sequence[str]) -> sa.Update:
    """Return an update of those of these runs that are still running: one may have ended since it was listed."""
    return sa.update(traces).where(RUNNING, traces.c.id.in_(ids)).values(status="interrupted")


def delete_old(limit: int) -> sa.Delete:
    """Return a delete of so many ended runs that started before a time."""
    # A subquery, because PostgreSQL has no DELETE with a LIMIT.
    return sa.delete(traces).where(traces.c.id.in_(sa.select(traces.c.id).where(_OLD).limit(limit)))
