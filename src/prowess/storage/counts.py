"""Count loads, uses, events, decisions, approvals and sessions in the database.

A log is counted between two numbers. It only grows, in the order of its numbers, so the counts of adjoining ranges add up
and no range has to be counted twice. What pruned rows counted is kept in `pruned_counts`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prowess.storage.clock import now
from prowess.storage.rows import LazyStatements

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import counts as sql
else:
    sql = LazyStatements("counts")

LOADED, CHANGED, RAN = "skill_loaded", "skills_state_changed", "run_finished"

LOAD_SECONDS_BUCKETS: tuple[float, ...] = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
"""Upper bounds of the load time histogram in seconds; the last bucket is unbounded. `pruned_counts` keeps their indexes, so
a change needs a migration."""

NO_BUCKET = -1
"""The bucket of events without a duration in `pruned_counts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCount:
    """The number of events of one name, skill, scope and duration bucket.

    `bucket` is the index of the first bound that is not exceeded; None without a duration.
    """

    name: str
    slug: str
    scope: str
    bucket: int | None
    count: int
    seconds: float


def bucket_of(seconds: float) -> int:
    """Return the bucket of a duration."""
    return bisect_left(LOAD_SECONDS_BUCKETS, seconds)


def events_by_kind(connection: sa.Connection, organization_id: str, *, after: int, upto: int) -> Iterator[EventCount]:
    """Yield event counts by name, skill, scope and duration."""
    import sqlalchemy as sa

    events = sql.events
    bounds = ((events.c.seconds <= bound, index) for index, bound in enumerate(LOAD_SECONDS_BUCKETS))
    bucket = sa.case((events.c.seconds.is_(None), None), *bounds, else_=len(LOAD_SECONDS_BUCKETS)).label("bucket")
    group = (events.c.name, events.c.subject, events.c.source)
    total = sa.func.coalesce(sa.func.sum(events.c.seconds), 0.0).label("total")
    query = sa.select(*group, bucket, sql.MANY, total).where(*sql.EVENTS).group_by(*group, "bucket")
    for row in connection.execute(query, {"of": organization_id, "after": after, "upto": upto}):
        yield EventCount(
            name=row.name, slug=row.subject, scope=row.source, bucket=row.bucket, count=row.many, seconds=row.total
        )


def pruned_events(connection: sa.Connection, organization_id: str) -> Iterator[EventCount]:
    """Yield the counts of the events that were pruned."""
    for row in connection.execute(sql.PRUNED, {"of": organization_id, "log": "events"}):
        yield EventCount(
            name=row.name,
            slug=row.subject,
            scope=row.source,
            bucket=None if row.bucket == NO_BUCKET else row.bucket,
            count=row.total,
            seconds=row.seconds,
        )


def pruned_files(connection: sa.Connection, organization_id: str) -> dict[tuple[str, str], int]:
    """Return slug and file of the references and scripts that pruned events loaded, and how often."""
    rows = connection.execute(sql.PRUNED, {"of": organization_id, "log": "files"})
    return {(row.subject, row.source): row.total for row in rows}


def pruned_decisions(connection: sa.Connection, organization_id: str) -> dict[tuple[str, str], int]:
    """Return how many audit rows of each action and outcome were pruned."""
    rows = connection.execute(sql.PRUNED, {"of": organization_id, "log": "audit"})
    return {(row.name, row.subject): row.total for row in rows}


def decisions(connection: sa.Connection, organization_id: str, *, after: int, upto: int) -> dict[tuple[str, str], int]:
    """Return how many audit rows there are of each action and outcome."""
    rows = connection.execute(sql.DECIDED, {"of": organization_id, "after": after, "upto": upto})
    return {(row.action, row.outcome): row.many for row in rows}


def last_audit(connection: sa.Connection, organization_id: str) -> int:
    """Return the number of the newest audit row, or 0."""
    [(number,)] = sql.LAST_AUDIT.rows(connection, {"of": organization_id})
    return number or 0


def first_audit(connection: sa.Connection, organization_id: str) -> int:
    """Return the number of the oldest audit row that is kept, or 1 if there is none."""
    return connection.execute(sql.FIRST_AUDIT, {"of": organization_id}).scalar() or 1


def approvals_by_state(connection: sa.Connection, organization_id: str) -> dict[str, int]:
    """Return how many approvals are in each state; an overdue request counts as expired, stored as such or not."""
    rows = connection.execute(sql.APPROVALS, {"of": organization_id, "now": now()})
    return {row.now_is: row.many for row in rows}


def open_sessions(connection: sa.Connection, organization_id: str) -> int:
    """Return how many sessions of the organization are open."""
    return connection.execute(sql.OPEN, {"of": organization_id}).scalar_one()


def recent_uses(connection: sa.Connection, organization_id: str, *, since: str) -> dict[str, int]:
    """Return how often each skill was loaded or run, or entered or left a prompt, since a time."""
    return dict(sql.RECENT.rows(connection, {"of": organization_id, "since": since}))


def last_uses(connection: sa.Connection, organization_id: str) -> list[tuple[str, str, int, str]]:
    """Return event name, slug, count and last time for each skill that was loaded or run, or entered or left a prompt."""
    used: dict[tuple[str, str], tuple[int, str]] = {}
    for row in (
        *connection.execute(sql.PRUNED_USES, {"of": organization_id}),
        *connection.execute(sql.LAST_USES, {"of": organization_id}),
    ):
        many, last = used.get((row.name, row.subject), (0, ""))
        used[row.name, row.subject] = (many + int(row.many), max(last, row.last))
    return [(name, subject, many, last) for (name, subject), (many, last) in used.items()]


def loaded_files(
    connection: sa.Connection, organization_id: str, *, since: str
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield slug, session and files of each successful load since a time; instructions count as no file.

    A skill that entered a prompt was loaded, too.
    """
    of = {"of": organization_id, "since": since}
    for row in connection.execute(sql.LOADED_SINCE, of):
        yield row.subject, row.session_id, files_of(row.data)
    for row in connection.execute(sql.CHANGED_SINCE, of):
        if any(skill["slug"] == row.subject for skill in row.data["enabled_skills"]):
            yield row.subject, row.session_id, ()


def files_by_skill(
    connection: sa.Connection, organization_id: str, *, after: int, upto: int
) -> Iterator[tuple[str, str]]:
    """Yield slug and file of each reference and script that was loaded between two numbers."""
    for row in connection.execute(sql.LOADED_BETWEEN, {"of": organization_id, "after": after, "upto": upto}):
        for file in files_of(row.data):
            yield row.subject, file


def files_of(data: Mapping[str, object]) -> tuple[str, ...]:
    """Return the reference and the script that a load asked for."""
    # Read here and not in SQL: the two databases extract fields of JSON differently.
    return tuple(str(data[name]) for name in ("reference", "script") if data.get(name))
