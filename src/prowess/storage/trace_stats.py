"""Count traces in the database: their number, status, cost and duration.

Percentiles are computed from the frequency of each duration: counting durations is several times faster than ranking every row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from prowess.lazy_dataclass import dataclass
from prowess.storage.rows import LazyStatements
from prowess.storage.traces import TraceFilter

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import traces as sql
else:
    sql = LazyStatements("traces")

GroupBy = Literal["skill", "artifact", "model", "user", "day"]
GROUPINGS: tuple[GroupBy, ...] = get_args(GroupBy)
Bucket = Literal["hour", "day"]
"""How long a part of time is that runs are counted in, by their start."""

# As many characters of a time as name the part of time: `2026-03-01T09` is an hour.
BUCKET_CHARS: dict[Bucket, int] = {"hour": 13, "day": 10}


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
    """Return counts by group and status, unordered. With a bucket, names start with its `BUCKET_CHARS` characters."""
    if _is_plain(which, by, bucket):
        plain = sql.COUNTS if which.user_id is None else sql.COUNTS_OF_USER
        rows = plain.rows(connection, {**which.owner_key, "since": which.since})
    else:
        rows = connection.execute(sql.counts(which, by, bucket))
    return [
        TraceCount(
            name=name,
            status=status,
            many=many,
            replaced=int(replaced),
            assertions_run=int(checked),
            assertions_passed=int(passed),
            input_tokens=int(tokens_in),
            output_tokens=int(tokens_out),
            cost=float(cost),
            priced=priced,
        )
        for name, status, many, checked, passed, tokens_in, tokens_out, cost, priced, replaced in rows
    ]


def count_durations(
    connection: sa.Connection, which: TraceFilter, by: GroupBy, bucket: Bucket | None = None
) -> list[tuple[str, int, int]]:
    """Return group, duration in milliseconds, and how many runs took that long, for each group and duration."""
    if _is_plain(which, by, bucket):
        plain = sql.DURATIONS if which.user_id is None else sql.DURATIONS_OF_USER
        rows = plain.rows(connection, {**which.owner_key, "since": which.since})
    else:
        rows = connection.execute(sql.durations(which, by, bucket))
    return [(name, duration, many) for name, duration, many in rows]


def _is_plain(which: TraceFilter, by: GroupBy, bucket: Bucket | None) -> bool:
    """Return True for a report by skill on all runs, or on those since a time, which needs no SQLAlchemy."""
    return by == "skill" and bucket is None and not replace(which, since="").is_narrowed
