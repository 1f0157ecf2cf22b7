"""Store optimizations, and count the live runs that decide whether an approved one stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from prowess.storage.clock import now
from prowess.storage.sql.traces import traces
from prowess.storage.tables import belongs_to, count_rows, insert_row, is_older, make_table, read_row, read_rows

ProposalState = Literal["running", "refused", "proposed", "approved", "rejected", "watching", "kept", "rolled_back"]

TRIAL_SESSION = "optimize:"
"""How the session of a trace starts whose run was a measurement of the optimizer, not work."""
EVAL_SESSION = "eval:"
"""How the session of a trace starts whose run was part of an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRow:
    """One optimization of a skill."""

    id: str
    organization_id: str = ""
    user_id: str = ""
    state: ProposalState = "running"
    skill_slug: str
    scope: str
    artifact: str = ""
    """'' for trigger phrases and descriptions."""
    method: str
    base_digest: str
    candidate_digest: str = ""
    held_out: str = ""
    """The digest of the cases of the test; '' before it."""
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)
    finished_at: str | None = None
    approved_at: str | None = None
    approver: str = ""
    stopping: bool = False
    """True if someone asked the search to end."""
    version: int | None = None
    """The version of the skill, once approved."""
    calls: int = 0
    cost: float | None = None
    score: float | None = None
    """The score of the best candidate so far, on the validation cases."""
    reason: str = ""
    actor: dict[str, Any] = field(default_factory=dict[str, Any])
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    change: dict[str, Any] | None = None
    """The candidate."""
    test: dict[str, Any] | None = None
    """The figures of the held-out test."""
    live: dict[str, Any] | None = None
    """The figures of live runs after the approval."""


proposals = make_table("optimizer_proposals", ProposalRow)
_P = proposals.c
sa.Index("ix_optimizer_proposals_created", _P.organization_id, _P.created_at)
sa.Index("ix_optimizer_proposals_state", _P.state)


def add(connection: sa.Connection, row: ProposalRow) -> None:
    """Store a new optimization."""
    insert_row(connection, proposals, row)


def get(connection: sa.Connection, proposal_id: str) -> ProposalRow | None:
    """Return an optimization of any owner by its id."""
    return read_row(connection, sa.select(proposals).where(_P.id == proposal_id), ProposalRow)


def find(connection: sa.Connection, organization_id: str, user_id: str | None, prefix: str) -> list[ProposalRow]:
    """Return the optimizations whose id starts with this prefix; at most two, which make it ambiguous."""
    own = belongs_to(proposals, organization_id, user_id)
    query = sa.select(proposals).where(own, _P.id.startswith(prefix, autoescape=True)).limit(2)
    return read_rows(connection, query, ProposalRow)


def list_proposals(
    connection: sa.Connection,
    organization_id: str,
    user_id: str | None,
    *,
    skill: str = "",
    states: Sequence[str] = (),
    before: tuple[str, str] | None = None,
    limit: int,
) -> list[ProposalRow]:
    """Return optimizations, newest first; with `before`, those older than that time and id."""
    query = sa.select(proposals).where(*_conditions(organization_id, user_id, skill, states))
    if before is not None:
        query = query.where(is_older(proposals, before))
    return read_rows(connection, query.order_by(_P.created_at.desc(), _P.id.desc()).limit(limit), ProposalRow)


def count_proposals(
    connection: sa.Connection, organization_id: str, user_id: str | None, *, skill: str = "", states: Sequence[str] = ()
) -> int:
    """Return the number of optimizations."""
    return count_rows(connection, proposals, *_conditions(organization_id, user_id, skill, states))


def _conditions(
    organization_id: str, user_id: str | None, skill: str, states: Sequence[str]
) -> list[sa.ColumnElement[bool]]:
    conditions = [belongs_to(proposals, organization_id, user_id)]
    conditions += [_P.skill_slug == skill] if skill else []
    return [*conditions, _P.state.in_(states)] if states else conditions


def list_watched(connection: sa.Connection, organization_id: str | None = None) -> list[ProposalRow]:
    """Return the approved optimizations whose live runs are watched; of one organization, or of all."""
    query = sa.select(proposals).where(_P.state == "watching")
    if organization_id is not None:
        query = query.where(_P.organization_id == organization_id)
    return read_rows(connection, query.order_by(_P.approved_at), ProposalRow)


def change(
    connection: sa.Connection, proposal_id: str, values: Mapping[str, Any], *, states: Sequence[ProposalState]
) -> ProposalRow | None:
    """Change an optimization that is in one of these states, and return it; None if it is in another."""
    guard = sa.and_(_P.id == proposal_id, _P.state.in_(states))
    if connection.execute(sa.update(proposals).where(guard).values(**values, updated_at=now())).rowcount != 1:
        return None
    return get(connection, proposal_id)


def count_uses(connection: sa.Connection, organization_id: str, skill: str, held_out: str) -> int:
    """Return how many candidates of a skill were tested on these held-out cases."""
    in_organization = _P.organization_id == organization_id
    return count_rows(connection, proposals, in_organization, _P.skill_slug == skill, _P.held_out == held_out)


def read_live(
    connection: sa.Connection,
    organization_id: str,
    skill: str,
    digest: str,
    artifacts: Sequence[str],
    *,
    since: str = "",
    limit: int,
) -> list[bool]:
    """Return whether each live run of a version passed all its assertions: the first after a time, or else the newest.

    Runs that checked nothing, were refused or could not start say nothing, and neither do measurements.
    """
    ran = traces.c
    query = sa.select(ran.assertions_run == ran.assertions_passed).where(
        ran.organization_id == organization_id,
        ran.skill_slug == skill,
        ran.skill_digest == digest,
        ran.artifact_name.in_(artifacts),
        ran.status.in_(("ok", "failed")),
        ran.assertions_run > 0,
        ran.session_id.not_like(f"{TRIAL_SESSION}%"),
        ran.session_id.not_like(f"{EVAL_SESSION}%"),
    )
    if since:
        query = query.where(ran.started_at >= since).order_by(ran.started_at)
    else:
        query = query.order_by(ran.started_at.desc())
    return [bool(passed) for passed in connection.execute(query.limit(limit)).scalars()]
