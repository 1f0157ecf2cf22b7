"""Store jobs, the items of batches, and the workers that do them.

Which steps of a job are done is recorded by DBOS, in tables of its own; see `prowess.jobs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, get_args

import sqlalchemy as sa

from prowess.storage.clock import SKEW_SECONDS, now, seconds_from_now
from prowess.storage.owner import Owner
from prowess.storage.rows import row_values
from prowess.storage.sql.spend import spend
from prowess.storage.tables import (
    belongs_to,
    count_rows,
    dialect_insert,
    is_older,
    make_table,
    metadata,
    read_row,
    read_rows,
    texts,
)

JobKind = Literal["run", "batch", "task"]
JobState = Literal["queued", "running", "waiting", "succeeded", "failed", "stopped", "cancelled"]
OPEN: tuple[JobState, ...] = ("queued", "running", "waiting")
"""States of a job that a worker has to do, or is doing."""

_CHUNK_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job: whose it is, what it does, and how far it is. `name` is unique among the jobs of its user."""

    id: str
    organization_id: str = ""
    user_id: str = ""
    kind: JobKind
    name: str
    state: JobState = "queued"
    skill_slug: str
    skill_digest: str = ""
    place: str = ""
    """The workspace that has the skill; '' if every worker has it."""
    attempt: int = 1
    """Counts the times that it was started. A retry is a new attempt."""
    created_at: str = field(default_factory=now)
    queued_at: str = field(default_factory=now)
    started_at: str | None = None
    finished_at: str | None = None
    total: int = 0
    """Items of a batch, artifacts of a run, or steps of a task."""
    done: int = 0
    failed: int = 0
    cost: float | None = None
    approval_id: str | None = None
    """The approval that it waits for."""
    error_code: str | None = None
    error: str | None = None
    hint: str | None = None
    actor: dict[str, Any] = field(default_factory=dict[str, Any])
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    result: dict[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        """True until the job has ended."""
        return self.state in OPEN


jobs = make_table("jobs", JobRow)
job_items = sa.Table(
    "job_items",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # pending, done or failed
    sa.Column("cost", sa.Float),
    sa.Column("input", sa.Text, nullable=False),
    sa.Column("result", sa.Text),  # the result as JSON on one line
)

job_workers = sa.Table(
    "job_workers",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *texts("process", "place", "started_at", "seen_at"),
    sa.Column("claimed_at", sa.Text),  # when another worker started to take over its jobs
)

_T, _I, _W = jobs.c, job_items.c, job_workers.c
sa.Index("uq_jobs_name", _T.organization_id, _T.user_id, _T.name, unique=True)
sa.Index("ix_jobs_created", _T.organization_id, _T.created_at)
sa.Index("ix_job_items_state", _I.job_id, _I.state)
_insert_once = dialect_insert(jobs, lambda insert: insert.on_conflict_do_nothing().returning(jobs.c.id))
_SUMMARY = [column for column in jobs.c if column.name != "result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCounts:
    """How many items of a batch have ended, and what they cost; None if no price is known."""

    done: int = 0
    failed: int = 0
    cost: float | None = None


def add(connection: sa.Connection, row: JobRow, items: Iterable[str] = ()) -> bool:
    """Store a new job with the inputs of its items, as JSON; return False if the name is taken."""
    values = row_values(row)
    # The driver of PostgreSQL does not report how many rows an INSERT wrote.
    if connection.execute(_insert_once(connection), values).first() is None:
        return False
    numbered = enumerate(items)
    common = {"job_id": row.id, "organization_id": row.organization_id, "state": "pending"}
    while chunk := list(islice(numbered, _CHUNK_ROWS)):
        connection.execute(
            sa.insert(job_items), [{**common, "position": position, "input": text} for position, text in chunk]
        )
    return True


def get(connection: sa.Connection, job_id: str) -> JobRow | None:
    """Return a job of any owner by its id. For workers."""
    return read_row(connection, sa.select(jobs).where(_T.id == job_id), JobRow)


def find(connection: sa.Connection, organization_id: str, user_id: str | None, name: str) -> list[JobRow]:
    """Return the jobs with this name, or whose id starts with this prefix; at most two, which make it ambiguous.

    With `user_id`, only the jobs of this user.
    """
    which = sa.or_(_T.name == name, _T.id.startswith(name, autoescape=True))
    query = sa.select(jobs).where(belongs_to(jobs, organization_id, user_id), which)
    rows = read_rows(connection, query.limit(3), JobRow)
    exact = [row for row in rows if name in (row.name, row.id)]
    return exact[:1] if len(exact) == 1 else rows[:2]


def find_named(connection: sa.Connection, owner: Owner, name: str) -> JobRow | None:
    """Return the owner's job of this name."""
    own = belongs_to(jobs, owner.organization_id, owner.user_id)
    return read_row(connection, sa.select(jobs).where(own, _T.name == name), JobRow)


def list_jobs(
    connection: sa.Connection,
    organization_id: str,
    user_id: str | None,
    *,
    states: Sequence[str] = (),
    before: tuple[str, str] | None = None,
    limit: int,
) -> list[JobRow]:
    """Return jobs without their results, newest first; with `before`, those older than that time and id."""
    query = sa.select(*_SUMMARY).where(belongs_to(jobs, organization_id, user_id))
    if states:
        query = query.where(_T.state.in_(states))
    if before is not None:
        query = query.where(is_older(jobs, before))
    return read_rows(connection, query.order_by(_T.created_at.desc(), _T.id.desc()).limit(limit), JobRow)


def count_jobs(
    connection: sa.Connection, organization_id: str, user_id: str | None, *, states: Sequence[str] = ()
) -> int:
    """Return the number of jobs."""
    in_state = [_T.state.in_(states)] if states else []
    return count_rows(connection, jobs, belongs_to(jobs, organization_id, user_id), *in_state)


def change(
    connection: sa.Connection, job_id: str, values: Mapping[str, Any], *, states: Sequence[str], attempt: int = 0
) -> JobRow | None:
    """Change a job that is in one of these states, and return it; None if it is in another. One caller of many succeeds.

    With `attempt`, only in that attempt: a worker that was believed dead must not end a newer one.
    """
    guard = [_T.id == job_id, _T.state.in_(states), *([_T.attempt == attempt] if attempt else [])]
    if connection.execute(sa.update(jobs).where(*guard).values(**values)).rowcount != 1:
        return None
    return get(connection, job_id)


def read_attempts(connection: sa.Connection, job_ids: Sequence[str]) -> dict[str, int]:
    """Return the present attempt of each of these jobs that was not cancelled."""
    present = sa.select(_T.id, _T.attempt).where(_T.id.in_(job_ids), _T.state != "cancelled")
    return {row.id: row.attempt for row in connection.execute(present)}


def list_lost(connection: sa.Connection, *, places: Sequence[str], before: str) -> list[JobRow]:
    """Return jobs that have been queued since before a time, and no worker has started."""
    # Another program may have written a kind that no worker knows.
    lost = sa.and_(_T.kind.in_(get_args(JobKind)), _T.state == "queued", _T.place.in_(places), _T.queued_at < before)
    return read_rows(connection, sa.select(jobs).where(lost).limit(100), JobRow)


def requeue(connection: sa.Connection, job_ids: Sequence[str]) -> None:
    """Mark jobs that were interrupted as queued."""
    values = {"state": "queued", "queued_at": now(), "approval_id": None}
    connection.execute(sa.update(jobs).where(_T.id.in_(job_ids), _T.state.in_(OPEN)).values(**values))


def read_pending(
    connection: sa.Connection, job_id: str, first: int, count: int, *, limit: int
) -> list[tuple[int, str]]:
    """Return the position and input of the first items in a range that have not ended."""
    inside = _I.position.between(first, first + count - 1)
    query = sa.select(_I.position, _I.input).where(_I.job_id == job_id, inside, _I.state == "pending")
    return [(row.position, row.input) for row in connection.execute(query.order_by(_I.position).limit(limit))]


def finish_item(
    connection: sa.Connection, job_id: str, position: int, *, failed: bool, cost: float | None, result: str
) -> bool:
    """Store the result of an item; return False if it has one already, which then stays."""
    own = [_I.job_id == job_id, _I.position == position, _I.state == "pending"]
    values = {"state": "failed" if failed else "done", "cost": cost, "result": result}
    return connection.execute(sa.update(job_items).where(*own).values(**values)).rowcount == 1


def count_items(connection: sa.Connection, job_id: str) -> ItemCounts:
    """Return how many items of a job have ended."""
    query = sa.select(_I.state, sa.func.count().label("many"), sa.func.sum(_I.cost).label("cost"))
    rows = connection.execute(query.where(_I.job_id == job_id).group_by(_I.state)).all()
    many = {row.state: row.many for row in rows}
    costs = [row.cost for row in rows if row.cost is not None]
    return ItemCounts(done=many.get("done", 0), failed=many.get("failed", 0), cost=sum(costs) if costs else None)


def with_counts(connection: sa.Connection, row: JobRow) -> JobRow:
    """Return a job as far as it is now: the row of a batch is written when a part of its items has ended."""
    if row.kind != "batch" or not row.is_open:
        return row
    counts = count_items(connection, row.id)
    return replace(row, done=counts.done, failed=counts.failed, cost=counts.cost)


def list_unfinished_ranges(connection: sa.Connection, job_id: str, size: int) -> list[int]:
    """Return the first position of each range of this size that has an item to do."""
    start = _I.position - _I.position % size
    query = sa.select(start.label("start")).where(_I.job_id == job_id, _I.state == "pending").distinct()
    return sorted(row.start for row in connection.execute(query))


def reset_failed(connection: sa.Connection, job_id: str) -> int:
    """Make the failed items of a job pending again; return how many."""
    failed = sa.and_(_I.job_id == job_id, _I.state == "failed")
    return connection.execute(sa.update(job_items).where(failed).values(state="pending", result=None)).rowcount


def read_results(
    connection: sa.Connection, job_id: str, *, after: int, limit: int, failed_only: bool = False
) -> list[tuple[int, str | None]]:
    """Return the position and result of items, in input order; the result is None for an item that has not ended."""
    query = sa.select(_I.position, _I.result).where(_I.job_id == job_id, _I.position > after)
    if failed_only:
        query = query.where(_I.state == "failed")
    return [(row.position, row.result) for row in connection.execute(query.order_by(_I.position).limit(limit))]


def list_ended_before(connection: sa.Connection, moment: str) -> list[JobRow]:
    """Return up to 100 jobs, without their results, that ended before a time."""
    old = sa.and_(_T.finished_at < moment, _T.state.not_in(OPEN))
    return read_rows(connection, sa.select(*_SUMMARY).where(old).limit(100), JobRow)


def remove(connection: sa.Connection, job_ids: Sequence[str]) -> None:
    """Delete jobs with their items and what they have spent."""
    owners = sa.select(_T.organization_id).where(_T.id.in_(job_ids))
    accounts = [f"job:{job_id}" for job_id in job_ids]
    connection.execute(sa.delete(spend).where(spend.c.organization_id.in_(owners), spend.c.purse.in_(accounts)))
    connection.execute(sa.delete(job_items).where(_I.job_id.in_(job_ids)))
    connection.execute(sa.delete(jobs).where(_T.id.in_(job_ids)))


def add_worker(connection: sa.Connection, worker_id: str, *, process: str, place: str) -> None:
    """Record a worker that has started."""
    moment = now()
    values = {"id": worker_id, "process": process, "place": place, "started_at": moment, "seen_at": moment}
    connection.execute(sa.insert(job_workers).values(**values))


def beat(connection: sa.Connection, worker_id: str) -> bool:
    """Record that a worker is alive; return False if it was given up in the meantime."""
    return connection.execute(sa.update(job_workers).where(_W.id == worker_id).values(seen_at=now())).rowcount == 1


def list_workers(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Return the id, process and last heartbeat of each worker."""
    return [(row.id, row.process, row.seen_at) for row in connection.execute(sa.select(job_workers))]


def claim_worker(connection: sa.Connection, worker_id: str, *, lease_seconds: float) -> bool:
    """Claim a dead worker, so that one caller alone takes over its jobs. The claim ends by itself."""
    earliest, latest = seconds_from_now(-lease_seconds), seconds_from_now(SKEW_SECONDS)
    free = sa.or_(_W.claimed_at.is_(None), _W.claimed_at < earliest, _W.claimed_at > latest)
    claimed = sa.update(job_workers).where(_W.id == worker_id, free).values(claimed_at=now())
    return connection.execute(claimed).rowcount == 1


def remove_worker(connection: sa.Connection, worker_id: str) -> None:
    """Forget a worker that has ended."""
    connection.execute(sa.delete(job_workers).where(_W.id == worker_id))
