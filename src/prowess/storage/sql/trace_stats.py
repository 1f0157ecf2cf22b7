"""The statements of `storage.trace_stats`."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect
from prowess.storage.sql.traces import conditions, traces
from prowess.storage.trace_stats import BUCKET_CHARS, Bucket, GroupBy
from prowess.storage.traces import TraceFilter

_NAME = sa.literal_column("name", sa.Text)
_EMPTY = sa.literal_column("''", sa.Text)
_KEYS: dict[GroupBy, sa.ColumnElement[str]] = {
    "skill": traces.c.skill_slug,
    "artifact": traces.c.skill_slug + sa.literal_column("'/'", sa.Text) + traces.c.artifact_name,
    "model": sa.func.coalesce(traces.c.model_id, _EMPTY),
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
