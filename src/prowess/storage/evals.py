"""Store runs of evaluations, their results, and the scores of skills."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from prowess.storage.clock import now
from prowess.storage.owner import Owner
from prowess.storage.rows import decode_object, row_values
from prowess.storage.scores import SkillScore
from prowess.storage.tables import (
    belongs_to,
    count_rows,
    dialect_insert,
    insert_or_update,
    insert_row,
    is_older,
    make_table,
    metadata,
    read_row,
    read_rows,
    texts,
)

RunState = Literal["running", "done", "stopped", "interrupted"]
"""`interrupted` is never stored: it is a run that says `running`, and whose process shows no sign of life."""

_KEYS_AT_ONCE = 500
"""SQLite takes 32,766 parameters in a statement, PostgreSQL 65,535; more keys at once are not faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRunRow:
    """One run of an evaluation."""

    id: str
    organization_id: str = ""
    user_id: str = ""
    skill_slug: str
    skill_digest: str
    state: RunState = "running"
    created_at: str = field(default_factory=now)
    finished_at: str | None = None
    """When it ended. While it runs: the last sign of life of its process."""
    total: int = 0
    done: int = 0
    """Including those that failed and those with an error."""
    failed: int = 0
    errors: int = 0
    cost: float | None = None
    plan: dict[str, Any] = field(default_factory=dict[str, Any])
    arms: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    summary: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """One result of a run at its position, as JSON."""

    position: int
    key: str
    result: dict[str, Any]


eval_runs = make_table("eval_runs", EvalRunRow)
eval_scores = make_table("eval_scores", SkillScore, key=("organization_id", "skill_slug", "skill_digest"))
eval_results = sa.Table(
    "eval_results",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    *texts("organization_id", "user_id"),
    sa.Column("cache_key", sa.Text, nullable=False),  # '' if the result must not be used again
    sa.Column("result", sa.Text, nullable=False),  # as JSON
)

_R, _C, _S = eval_runs.c, eval_results.c, eval_scores.c
sa.Index("ix_eval_runs_created", _R.organization_id, _R.created_at)
sa.Index("ix_eval_results_cache", _C.organization_id, _C.user_id, _C.cache_key)
_SUMMARY = [column for column in eval_runs.c if column.name != "plan"]
_put_result = dialect_insert(eval_results, lambda insert: insert.on_conflict_do_nothing())
_put_score = insert_or_update(eval_scores, "created_at", "run_id", "score", "detail")


def add_run(connection: sa.Connection, row: EvalRunRow) -> None:
    """Store a run that starts."""
    insert_row(connection, eval_runs, row)


def change_run(connection: sa.Connection, run_id: str, values: Mapping[str, Any]) -> None:
    """Change a run."""
    connection.execute(sa.update(eval_runs).where(_R.id == run_id).values(**values))


def claim_run(connection: sa.Connection, row: EvalRunRow) -> bool:
    """Mark a run that was interrupted or stopped as running again; return False if another process has done it."""
    still = [_R.id == row.id, _R.state == row.state, _R.finished_at.is_not_distinct_from(row.finished_at)]
    claimed = sa.update(eval_runs).where(*still).values(state="running", finished_at=now(), summary=None)
    return connection.execute(claimed).rowcount == 1


def find_runs(connection: sa.Connection, organization_id: str, user_id: str | None, prefix: str) -> list[EvalRunRow]:
    """Return the runs whose id starts with this prefix; at most two, which make it ambiguous.

    With `user_id`, only runs of this user.
    """
    own = belongs_to(eval_runs, organization_id, user_id)
    query = sa.select(eval_runs).where(own, _R.id.startswith(prefix, autoescape=True)).limit(2)
    return read_rows(connection, query, EvalRunRow)


def get_run(connection: sa.Connection, owner: Owner, run_id: str) -> EvalRunRow | None:
    """Return a run of this owner, or None."""
    own = belongs_to(eval_runs, owner.organization_id, owner.user_id)
    return read_row(connection, sa.select(eval_runs).where(own, _R.id == run_id), EvalRunRow)


def list_runs(
    connection: sa.Connection,
    organization_id: str,
    user_id: str | None,
    *,
    skill: str = "",
    digest: str = "",
    before: tuple[str, str] | None = None,
    limit: int,
) -> list[EvalRunRow]:
    """Return runs without their plans, newest first; with `before`, those older than that time and id."""
    query = sa.select(*_SUMMARY).where(belongs_to(eval_runs, organization_id, user_id))
    if skill:
        query = query.where(_R.skill_slug == skill)
    if digest:
        query = query.where(_R.skill_digest == digest)
    if before is not None:
        query = query.where(is_older(eval_runs, before))
    return read_rows(connection, query.order_by(_R.created_at.desc(), _R.id.desc()).limit(limit), EvalRunRow)


def count_runs(connection: sa.Connection, organization_id: str, user_id: str | None, *, skill: str = "") -> int:
    """Return the number of runs."""
    of_skill = [_R.skill_slug == skill] if skill else []
    return count_rows(connection, eval_runs, belongs_to(eval_runs, organization_id, user_id), *of_skill)


def add_results(connection: sa.Connection, run_id: str, owner: Owner, results: Iterable[StoredResult]) -> None:
    """Store results of a run. A position that has one keeps it."""
    rows = [
        {
            "run_id": run_id,
            **owner.columns,
            "position": result.position,
            "cache_key": result.key,
            "result": json.dumps(result.result, ensure_ascii=True),
        }
        for result in results
    ]
    if rows:
        connection.execute(_put_result(connection), rows)


def keep_results(connection: sa.Connection, run_id: str, keys: Mapping[int, str]) -> dict[int, dict[str, Any]]:
    """Return the results of a run whose key is the one of their position, and delete the others."""
    rows = connection.execute(sa.select(_C.position, _C.cache_key, _C.result).where(_C.run_id == run_id)).all()
    matching = {row.position: json.loads(row.result) for row in rows if keys.get(row.position) == row.cache_key}
    rest = [row.position for row in rows if row.position not in matching]
    for start in range(0, len(rest), _KEYS_AT_ONCE):
        some = rest[start : start + _KEYS_AT_ONCE]
        connection.execute(sa.delete(eval_results).where(_C.run_id == run_id, _C.position.in_(some)))
    return matching


def read_results(connection: sa.Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the results of a run, in order."""
    query = sa.select(_C.result).where(_C.run_id == run_id).order_by(_C.position)
    return [json.loads(row.result) for row in connection.execute(query)]


def find_cached(connection: sa.Connection, owner: Owner, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return results of earlier runs of the same owner, by key."""
    own = belongs_to(eval_results, owner.organization_id, owner.user_id)
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[start : start + _KEYS_AT_ONCE]
        rows = connection.execute(sa.select(_C.cache_key, _C.result).where(own, _C.cache_key.in_(some)))
        found |= {row.cache_key: json.loads(row.result) for row in rows}
    return found


def put_score(connection: sa.Connection, row: SkillScore) -> None:
    """Store the score of a version, replacing an older one of the same version."""
    connection.execute(_put_score(connection), row_values(row))


def read_scores(
    connection: sa.Connection, organization_id: str, digests: Collection[str] | None = None
) -> list[SkillScore]:
    """Return all scores of an organization, or those of these digests, which must be few.

    Raise `Unavailable` if another program changed the detail of one.
    """
    query = sa.select(eval_scores).where(_S.organization_id == organization_id)
    if digests is not None:
        query = query.where(_S.skill_digest.in_(digests))
    rows = read_rows(connection, query, SkillScore)
    for row in rows:
        decode_object(row.detail, f"The detail of the score of the skill {row.skill_slug!r}")
    return rows


def remove_runs(connection: sa.Connection, organization_id: str, before: str, *, limit: int) -> int:
    """Delete runs that started before a time, with their results; return how many. Scores stay."""
    old = sa.select(_R.id).where(_R.organization_id == organization_id, _R.created_at < before).limit(limit)
    ids = list(connection.execute(old).scalars())
    connection.execute(sa.delete(eval_results).where(_C.run_id.in_(ids)))
    connection.execute(sa.delete(eval_runs).where(_R.id.in_(ids)))
    return len(ids)
