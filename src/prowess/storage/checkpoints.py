"""Store the checkpoints of runs. A run has one; a newer checkpoint replaces it."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.lazy_dataclass import dataclass
from prowess.storage.clock import now
from prowess.storage.owner import Owner, owner_condition
from prowess.storage.run_tables import checkpoints, traces
from prowess.storage.tables import dialect_insert
from prowess.storage.traces import RUNNING

_T = checkpoints.c
_CHANGES = ("created_at", "journal")
_insert = dialect_insert(
    checkpoints,
    lambda insert: insert.on_conflict_do_update(
        index_elements=[_T.trace_id], set_={name: insert.excluded[name] for name in _CHANGES}
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """The progress of a run of an artifact. `journal` holds its inputs and the answers it received, compressed."""

    trace_id: str
    skill_slug: str
    skill_digest: str
    artifact_name: str
    following: tuple[str, ...]
    seed: str
    journal: bytes


def keep(connection: sa.Connection, owner: Owner, row: CheckpointRow) -> None:
    """Store a checkpoint, replacing an earlier one of the same run."""
    values = {
        "trace_id": row.trace_id,
        **owner.columns,
        "skill_slug": row.skill_slug,
        "skill_digest": row.skill_digest,
        "artifact_name": row.artifact_name,
        "created_at": now(),
        "following": list(row.following),
        "seed": row.seed,
        "journal": row.journal,
    }
    connection.execute(_insert(connection), values)


def find(connection: sa.Connection, owner: Owner, trace_id: str) -> list[CheckpointRow]:
    """Return the owner's checkpoints whose trace id begins with this prefix; at most two, which make it ambiguous."""
    begin = _T.trace_id.startswith(trace_id, autoescape=True)
    rows = connection.execute(sa.select(checkpoints).where(begin, owner_condition(checkpoints)).limit(2), owner.key)
    return [_to_checkpoint(row) for row in rows]


def _of_run(owner: Owner, run_id: str, artifact: str) -> sa.ColumnElement[bool]:
    run = sa.exists().where(traces.c.id == _T.trace_id, traces.c.run_id == run_id)
    own = sa.and_(_T.organization_id == owner.organization_id, _T.user_id == owner.user_id)
    return sa.and_(own, _T.artifact_name == artifact, run)


def find_of_run(connection: sa.Connection, owner: Owner, run_id: str, artifact: str) -> CheckpointRow | None:
    """Return the newest checkpoint of an artifact in a run, which may have been started several times."""
    query = sa.select(checkpoints).where(_of_run(owner, run_id, artifact)).order_by(_T.created_at.desc()).limit(1)
    row = connection.execute(query).first()
    return _to_checkpoint(row) if row else None


def remove_of_run(connection: sa.Connection, owner: Owner, run_id: str, artifact: str) -> None:
    """Delete all checkpoints of an artifact in a run."""
    connection.execute(sa.delete(checkpoints).where(_of_run(owner, run_id, artifact)))


def remove(connection: sa.Connection, owner: Owner, trace_ids: list[str]) -> None:
    """Delete the checkpoints of these runs."""
    connection.execute(
        sa.delete(checkpoints).where(_T.trace_id.in_(trace_ids), owner_condition(checkpoints)), owner.key
    )


def _made_before(organization_id: str, moment: str) -> sa.ColumnElement[bool]:
    # A run that takes longer than its trace is kept still needs its checkpoint.
    is_running = sa.exists().where(traces.c.id == _T.trace_id, RUNNING)
    return sa.and_(_T.organization_id == organization_id, _T.created_at < moment, ~is_running)


def has_before(connection: sa.Connection, organization_id: str, moment: str) -> bool:
    """Return True if `delete_before` would delete something."""
    old = sa.select(_T.trace_id).where(_made_before(organization_id, moment)).limit(1)
    return connection.execute(old).first() is not None


def delete_before(connection: sa.Connection, organization_id: str, *, moment: str, limit: int) -> int:
    """Delete up to `limit` checkpoints made before a time; return how many."""
    # A subquery, because PostgreSQL has no DELETE with a LIMIT.
    oldest = sa.select(_T.trace_id).where(_made_before(organization_id, moment)).limit(limit)
    return connection.execute(sa.delete(checkpoints).where(_T.trace_id.in_(oldest))).rowcount


def _to_checkpoint(row: sa.Row[tuple[object, ...]]) -> CheckpointRow:
    return CheckpointRow(
        trace_id=row.trace_id,
        skill_slug=row.skill_slug,
        skill_digest=row.skill_digest,
        artifact_name=row.artifact_name,
        following=tuple(row.following),
        seed=row.seed,
        journal=bytes(row.journal),
    )
