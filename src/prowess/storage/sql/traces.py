"""The table and statements of `storage.traces`, and those of `storage.trace_stats`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, raw_columns
from prowess.storage.tables import make_table
from prowess.storage.trace_stats import BUCKET_CHARS, Bucket, GroupBy
from prowess.storage.traces import SMALL_COLUMNS, TABLE, Trace, TraceFilter, TracePosition, TraceSort

traces = make_table(TABLE, Trace)
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
    sa.select(*raw_columns(traces.c[name] for name in SMALL_COLUMNS))
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
        columns.actor: which.actor,
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


def newest(which: TraceFilter, *, after: TracePosition | None, sort: TraceSort) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of rows without the large columns, the highest values first."""
    query = sa.select(*(traces.c[name] for name in SMALL_COLUMNS)).where(*conditions(which))
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
    """Return a select of the ids that start with a prefix."""
    return sa.select(traces.c.id).where(traces.c.id.startswith(start, autoescape=True), *conditions(which))


def close(ids: Sequence[str]) -> sa.Update:
    """Return an update of those of these runs that are still running: one may have ended since it was listed."""
    return sa.update(traces).where(RUNNING, traces.c.id.in_(ids)).values(status="interrupted")


def delete_old(limit: int) -> sa.Delete:
    """Return a delete of so many ended runs that started before a time."""
    # A subquery, because PostgreSQL has no DELETE with a LIMIT.
    return sa.delete(traces).where(traces.c.id.in_(sa.select(traces.c.id).where(_OLD).limit(limit)))


_NAME = sa.literal_column("name", sa.Text)
_EMPTY = sa.literal_column("''", sa.Text)
_KEYS: dict[GroupBy, sa.ColumnElement[str]] = {
    "skill": traces.c.skill_slug,
    "artifact": traces.c.skill_slug + sa.literal_column("'/'", sa.Text) + traces.c.artifact_name,
    "model": sa.func.coalesce(traces.c.model_id, _EMPTY),
    "user": traces.c.user_id,
    "day": sa.func.substr(traces.c.started_at, sa.literal_column("1", sa.Integer), sa.literal_column("10", sa.Integer)),
}
_other = traces.alias()


def _key(by: GroupBy, bucket: Bucket | None) -> sa.Label[str]:
    """Return the name of a group; with a bucket, the part of time before it."""
    if bucket is None:
        return _KEYS[by].label("name")
    # Constants, not parameters: PostgreSQL takes the expression of a column and that of its group for the same.
    length = sa.literal_column(str(BUCKET_CHARS[bucket]), sa.Integer)
    start = sa.func.substr(traces.c.started_at, sa.literal_column("1", sa.Integer), length)
    return (start + _KEYS[by]).label("name")


def _sum(column: sa.Column[Any], name: str) -> sa.Label[Any]:
    return sa.func.coalesce(sa.func.sum(column), 0).label(name)


_SUMS: tuple[sa.Label[Any], ...] = (
    sa.func.count().label("many"),
    _sum(traces.c.assertions_run, "run"),
    _sum(traces.c.assertions_passed, "passed"),
    _sum(traces.c.input_tokens, "tokens_in"),
    _sum(traces.c.output_tokens, "tokens_out"),
    _sum(traces.c.estimated_cost, "cost"),
    sa.func.count(traces.c.estimated_cost).label("priced"),
)


def counts(which: TraceFilter, by: GroupBy, bucket: Bucket | None) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of the counts of each group and status."""
    # Not narrowed by artifact, model or status, because the fallback may have others.
    fallback_conditions = [_other.c.organization_id == which.organization_id]
    if which.user_id is not None:
        fallback_conditions.append(_other.c.user_id == which.user_id)
    if which.since:
        fallback_conditions.append(_other.c.started_at >= which.since)
    return _counts(_key(by, bucket), conditions(which), fallback_conditions)


def _counts(
    key: sa.Label[str], where: list[sa.ColumnElement[bool]], fallback_conditions: list[sa.ColumnElement[bool]]
) -> sa.Select[*tuple[Any, ...]]:
    """Return the select. The last column counts those that were unavailable and have a fallback among `fallback_conditions`."""
    found = sa.select(_other.c.fallback_of).where(*fallback_conditions, _other.c.fallback_of.is_not(None))
    condition = sa.and_(traces.c.status == "unavailable", traces.c.id.in_(found))
    replaced = sa.func.sum(sa.case((condition, 1), else_=0)).label("replaced")
    return sa.select(key, traces.c.status, *_SUMS, replaced).where(*where).group_by(_NAME, traces.c.status)


def durations(which: TraceFilter, by: GroupBy, bucket: Bucket | None) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of group, duration in milliseconds, and how many runs took that long."""
    return _durations(_key(by, bucket), conditions(which))


def _durations(key: sa.Label[str], where: list[sa.ColumnElement[bool]]) -> sa.Select[*tuple[Any, ...]]:
    time = traces.c.duration_ms
    return sa.select(key, time, sa.func.count()).where(*where, time.is_not(None)).group_by(_NAME, time)


def _owned(columns: Any, *, of_user: bool) -> list[sa.ColumnElement[bool]]:
    # Every time is later than '', so the same text serves a report without a start.
    found = [columns.organization_id == sa.bindparam("of"), columns.started_at >= sa.bindparam("since")]
    return [*found, columns.user_id == sa.bindparam("by")] if of_user else found


_SKILL = _key("skill", None)
COUNTS = CompiledSelect(_counts(_SKILL, _owned(traces.c, of_user=False), _owned(_other.c, of_user=False)))
COUNTS_OF_USER = CompiledSelect(_counts(_SKILL, _owned(traces.c, of_user=True), _owned(_other.c, of_user=True)))
DURATIONS = CompiledSelect(_durations(_SKILL, _owned(traces.c, of_user=False)))
DURATIONS_OF_USER = CompiledSelect(_durations(_SKILL, _owned(traces.c, of_user=True)))
