"""Count traces in the database: their number, status, cost and duration.

Percentiles are computed from the frequency of each duration: counting durations is several times faster than ranking every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa

from prowess.storage.run_tables import traces
from prowess.storage.sql.traces import conditions
from prowess.storage.traces import TraceFilter

GroupBy = Literal["skill", "artifact", "model", "day"]
GROUPINGS: tuple[GroupBy, ...] = get_args(GroupBy)
Bucket = Literal["hour", "day"]
"""How long a part of time is that runs are counted in, by their start."""

_NAME = sa.literal_column("name", sa.Text)
_EMPTY = sa.literal_column("''", sa.Text)
_KEYS: dict[GroupBy, sa.ColumnElement[str]] = {
    "skill": traces.c.skill_slug,
    "artifact": traces.c.skill_slug + sa.literal_column("'/'", sa.Text) + traces.c.artifact_name,
    "model": sa.func.coalesce(traces.c.model_id, _EMPTY),
    "day": sa.func.substr(traces.c.started_at, sa.literal_column("1", sa.Integer), sa.literal_column("10", sa.Integer)),
}

# As many characters of a time as name the part of time: `2026-03-01T09` is an hour.
BUCKET_CHARS: dict[Bucket, int] = {"hour": 13, "day": 10}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCount:
    """The traces of one group and status. `cost` is the sum over the `priced` ones; `replaced` had a fallback run."""

    name: str
    status: str
    many: int
    replaced: int
    assertions_run: int
    assertions_passed: int
    input_tokens: int
    output_tokens: int
    cost: float
    priced: int


def count_traces(
    connection: sa.Connection, which: TraceFilter, by: GroupBy, bucket: Bucket | None = None
) -> list[TraceCount]:
    """Return counts by group and status, unordered. With a bucket, names begin with its `BUCKET_CHARS` characters."""
    columns = (_key(by, bucket), traces.c.status, *_SUMS, _replaced(which))
    counted = sa.select(*columns).where(*conditions(which))
    return [
        TraceCount(
            name=row.name,
            status=row.status,
            many=row.many,
            replaced=int(row.replaced),
            assertions_run=int(row.run),
            assertions_passed=int(row.passed),
            input_tokens=int(row.tokens_in),
            output_tokens=int(row.tokens_out),
            cost=float(row.cost),
            priced=row.priced,
        )
        for row in connection.execute(counted.group_by(_NAME, traces.c.status))
    ]


def _replaced(which: TraceFilter) -> sa.Label[int]:
    """Return how many were unavailable and have the trace of a fallback."""
    other = traces.alias()
    # Not narrowed by artifact, model or status, because the fallback may have others.
    theirs = [other.c.organization_id == which.organization_id, other.c.fallback_of.is_not(None)]
    if which.user_id is not None:
        theirs.append(other.c.user_id == which.user_id)
    if which.since:
        theirs.append(other.c.started_at >= which.since)
    found = sa.select(other.c.fallback_of).where(*theirs)
    condition = sa.and_(traces.c.status == "unavailable", traces.c.id.in_(found))
    return sa.func.sum(sa.case((condition, 1), else_=0)).label("replaced")


def count_durations(
    connection: sa.Connection, which: TraceFilter, by: GroupBy, bucket: Bucket | None = None
) -> list[tuple[str, int, int]]:
    """Return group, duration in milliseconds, and how many runs took that long, for each group and duration."""
    time = traces.c.duration_ms
    counted = sa.select(_key(by, bucket), time, sa.func.count()).where(*conditions(which), time.is_not(None))
    return [(name, taken, many) for name, taken, many in connection.execute(counted.group_by(_NAME, time))]
