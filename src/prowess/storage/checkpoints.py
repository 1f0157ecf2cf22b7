"""Store the checkpoints of runs. A run has one; a newer checkpoint replaces it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.lazy_dataclass import dataclass
from prowess.storage.clock import now
from prowess.storage.owner import Owner
from prowess.storage.rows import LazyStatements, row_values

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import checkpoints as sql
else:
    sql = LazyStatements("checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """The progress of a run of an artifact. `journal` holds its inputs and the answers it received, as compressed JSON."""

    trace_id: str
    organization_id: str = ""
    user_id: str = ""
    skill_slug: str
    skill_digest: str
    artifact_name: str
    created_at: str = ""
    following: list[str]
    """The names of the artifacts to run after it."""
    seed: str
    journal: bytes


def keep(connection: sa.Connection, owner: Owner, row: CheckpointRow) -> None:
    """Store a checkpoint, replacing an earlier one of the same run."""
    sql.KEEP.run(connection, [{**row_values(row), **owner.columns, "created_at": now()}])


def find(connection: sa.Connection, owner: Owner, trace_id: str) -> list[CheckpointRow]:
    """Return the owner's checkpoints whose trace id starts with this prefix; at most two, which make it ambiguous."""
    return [CheckpointRow(**row) for row in connection.execute(sql.find(trace_id).limit(2), owner.key).mappings()]


def find_of_run(connection: sa.Connection, owner: Owner, run_id: str, artifact: str) -> CheckpointRow | None:
    """Return the newest checkpoint of an artifact in a run, which may have been started several times."""
    row = connection.execute(sql.NEWEST_OF_RUN, {**owner.key, "run": run_id, "artifact": artifact}).mappings().first()
    return CheckpointRow(**row) if row else None


def remove_of_run(connection: sa.Connection, owner: Owner, run_id: str, artifact: str) -> None:
    """Delete all checkpoints of an artifact in a run."""
    sql.DELETE_OF_RUN.run(connection, [{**owner.key, "run": run_id, "artifact": artifact}])


def remove(connection: sa.Connection, owner: Owner, trace_ids: list[str]) -> None:
    """Delete the checkpoints of these runs."""
    if trace_ids:
        sql.DELETE.run(connection, [{**owner.key, "which": trace_id} for trace_id in trace_ids])


def has_before(connection: sa.Connection, organization_id: str, moment: str) -> bool:
    """Return True if `delete_before` would delete something."""
    return sql.ANY_OLD.first(connection, {"of": organization_id, "moment": moment}) is not None


def delete_before(connection: sa.Connection, organization_id: str, *, moment: str, limit: int) -> int:
    """Delete up to `limit` checkpoints made before a time; return how many."""
    return connection.execute(sql.delete_old(limit), {"of": organization_id, "moment": moment}).rowcount
