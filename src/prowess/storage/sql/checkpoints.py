"""The table and statements of `storage.checkpoints`."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from prowess.storage.checkpoints import CheckpointRow
from prowess.storage.owner import owner_condition
from prowess.storage.rows import CompiledSelect, CompiledWrite
from prowess.storage.sql.traces import RUNNING, traces
from prowess.storage.tables import insert_or_update, make_table

checkpoints = make_table("run_checkpoints", CheckpointRow, key=("trace_id",))
sa.Index("ix_run_checkpoints_created", checkpoints.c.created_at)

_T = checkpoints.c
_OURS = owner_condition(checkpoints)
_OWNER = ("owner_organization", "owner_user")
KEEP = CompiledWrite(insert_or_update(checkpoints, "created_at", "journal"), values=checkpoints.c.keys())
_RUN = sa.exists().where(traces.c.id == _T.trace_id, traces.c.run_id == sa.bindparam("run"))
_OF_RUN = sa.and_(_OURS, _T.artifact_name == sa.bindparam("artifact"), _RUN)
NEWEST_OF_RUN = sa.select(checkpoints).where(_OF_RUN).order_by(_T.created_at.desc()).limit(1)
DELETE_OF_RUN = CompiledWrite(sa.delete(checkpoints).where(_OF_RUN), values=(*_OWNER, "run", "artifact"))
DELETE = CompiledWrite(
    sa.delete(checkpoints).where(_OURS, _T.trace_id == sa.bindparam("which")), values=(*_OWNER, "which")
)
# A run that takes longer than its trace is kept still needs its checkpoint.
_IS_RUNNING = sa.exists().where(traces.c.id == _T.trace_id, RUNNING)
_OLD = sa.and_(_T.organization_id == sa.bindparam("of"), _T.created_at < sa.bindparam("moment"), ~_IS_RUNNING)
ANY_OLD = CompiledSelect(sa.select(_T.trace_id).where(_OLD).limit(1))


def find(start: str) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of the owner's checkpoints whose trace id starts with a prefix."""
    return sa.select(checkpoints).where(_T.trace_id.startswith(start, autoescape=True), _OURS)


def delete_old(limit: int) -> sa.Delete:
    """Return a delete of so many checkpoints made before a time."""
    # A subquery, because PostgreSQL has no DELETE with a LIMIT.
    return sa.delete(checkpoints).where(_T.trace_id.in_(sa.select(_T.trace_id).where(_OLD).limit(limit)))
