"""Read everything that an organization has recorded about one skill, by its slug."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from prowess.storage.approvals import ApprovalRow
from prowess.storage.ledger import AuditRow
from prowess.storage.sql.approvals import approvals
from prowess.storage.sql.ledger import audit
from prowess.storage.sql.sessions import session_skills, sessions
from prowess.storage.sql.traces import traces
from prowess.storage.sql.trust import skill_acceptances
from prowess.storage.tables import read_rows
from prowess.storage.trust import Acceptance, to_acceptance

_MAX_ROWS = 1_000
"""The maximum number of rows of each kind; the newest are returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptUse:
    """A skill in the prompt of an open conversation."""

    digest: str
    at: str
    conversation: str
    session_id: str
    by: str
    approval_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """One run of an artifact of a skill."""

    digest: str
    at: str
    trace_id: str
    artifact: str
    by: str
    status: str


def list_decisions(connection: sa.Connection, organization_id: str, slug: str) -> list[AuditRow]:
    """Return the audit rows about a skill, oldest first, unverified."""
    query = (
        sa.select(audit)
        .where(audit.c.organization_id == organization_id, audit.c.slug == slug)
        .order_by(audit.c.number.desc())
        .limit(_MAX_ROWS)
    )
    return read_rows(connection, query, AuditRow)[::-1]


def list_approvals(connection: sa.Connection, organization_id: str, slug: str) -> list[ApprovalRow]:
    """Return the requests about a skill that a person approved or denied, including revoked ones; newest first."""
    query = (
        sa.select(approvals)
        .where(
            approvals.c.organization_id == organization_id,
            approvals.c.slug == slug,
            approvals.c.state.in_(("approved", "denied", "revoked")),
        )
        .order_by(approvals.c.resolved_at.desc(), approvals.c.id)
        .limit(_MAX_ROWS)
    )
    rows = read_rows(connection, query, ApprovalRow)
    # A request that was revoked before anyone answered it let nothing in.
    return [row for row in rows if row.state != "revoked" or row.detail.get("answer")]


def list_acceptances(connection: sa.Connection, organization_id: str, slug: str) -> list[Acceptance]:
    """Return all acceptances of a skill, including revoked ones; newest first."""
    columns = skill_acceptances.c
    query = (
        sa.select(skill_acceptances)
        .where(columns.organization_id == organization_id, columns.slug == slug)
        .order_by(columns.created_at.desc(), columns.id)
        .limit(_MAX_ROWS)
    )
    return [to_acceptance(row) for row in connection.execute(query)]


def list_prompts(connection: sa.Connection, organization_id: str, slug: str) -> list[PromptUse]:
    """Return the open conversations that have a skill in their prompt, newest first."""
    columns = session_skills.c
    query = (
        sa.select(columns.digest, columns.enabled_at, columns.detail, sessions.c.id, sessions.c.conversation_id)
        .join_from(session_skills, sessions, sessions.c.id == columns.session_id)
        .where(sessions.c.organization_id == organization_id, sessions.c.closed_at.is_(None), columns.slug == slug)
        .order_by(columns.enabled_at.desc(), sessions.c.id)
        .limit(_MAX_ROWS)
    )
    return [
        PromptUse(
            digest=row.digest,
            at=row.enabled_at,
            conversation=row.conversation_id,
            session_id=row.id,
            by=str(row.detail.get("by", "")),
            approval_id=str(row.detail.get("approval_id", "")),
        )
        for row in connection.execute(query)
    ]


def list_runs(connection: sa.Connection, organization_id: str, slug: str) -> list[RunUse]:
    """Return the runs of a skill, newest first."""
    columns = traces.c
    query = (
        sa.select(
            columns.skill_digest, columns.started_at, columns.id, columns.artifact_name, columns.actor, columns.status
        )
        .where(columns.organization_id == organization_id, columns.skill_slug == slug)
        .order_by(columns.started_at.desc(), columns.id)
        .limit(_MAX_ROWS)
    )
    return [
        RunUse(
            digest=row.skill_digest,
            at=row.started_at,
            trace_id=row.id,
            artifact=row.artifact_name,
            by=row.actor,
            status=row.status,
        )
        for row in connection.execute(query)
    ]
