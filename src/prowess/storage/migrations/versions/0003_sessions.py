"""Sessions with what they have enabled, approvals, the audit, the events and the settings of organizations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    _create_sessions()
    _create_session_skills()
    _create_approvals()
    _create_logs()
    op.create_table(
        "org_settings",
        *_texts("organization_id", "name"),
        sa.Column("value", sa.JSON, nullable=False),
        *_texts("updated_at", "updated_by"),
        sa.PrimaryKeyConstraint("organization_id", "name", name="pk_org_settings"),
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        *_texts("id", "organization_id", "user_id", "conversation_id", "actor", "actor_kind", "role", "model"),
        sa.Column("context_window", sa.Integer),
        sa.Column("budget_max", sa.Integer, nullable=False),
        sa.Column("budget_used", sa.Integer, nullable=False),
        *_texts("created_at", "updated_at"),
        sa.Column("closed_at", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index(
        "uq_sessions_owner_conversation", "sessions", ["organization_id", "user_id", "conversation_id"], unique=True
    )
    op.create_index("ix_sessions_owner_updated", "sessions", ["organization_id", "user_id", "updated_at"])


def _create_session_skills() -> None:
    op.create_table(
        "session_skills",
        *_texts("session_id", "slug"),
        sa.Column("position", sa.Integer, nullable=False),
        *_texts("title", "digest", "scope", "source_type", "origin"),
        sa.Column("content_length", sa.Integer, nullable=False),
        *_texts("enabled_at"),
        sa.Column("detail", sa.JSON, nullable=False),
        *_texts("content"),
        sa.PrimaryKeyConstraint("session_id", "slug", name="pk_session_skills"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_session_skills_session_id", ondelete="CASCADE"
        ),
    )


def _create_approvals() -> None:
    op.create_table(
        "approvals",
        *_texts("id", "organization_id", "user_id", "session_id", "action", "slug", "digest", "requester", "reason"),
        *_texts("state", "created_at", "expires_at"),
        sa.Column("resolved_at", sa.Text),
        sa.Column("resolver", sa.Text),
        *_texts("note"),
        sa.Column("used_at", sa.Text),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_approvals"),
    )
    op.create_index("ix_approvals_organization_state", "approvals", ["organization_id", "state", "created_at"])
    op.create_index("ix_approvals_subject", "approvals", ["organization_id", "user_id", "requester", "slug", "digest"])


def _create_logs() -> None:
    op.create_table(
        "audit",
        *_texts("organization_id"),
        sa.Column("number", sa.BigInteger, nullable=False),
        *_texts("at", "actor", "action", "slug", "digest", "outcome"),
        sa.Column("detail", sa.JSON, nullable=False),
        *_texts("previous", "hash"),
        sa.PrimaryKeyConstraint("organization_id", "number", name="pk_audit"),
    )
    op.create_table(
        "events",
        *_texts("organization_id"),
        sa.Column("number", sa.BigInteger, nullable=False),
        *_texts("id", "at", "user_id", "session_id", "name", "subject", "source"),
        sa.Column("seconds", sa.Float),
        sa.Column("data", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "number", name="pk_events"),
    )
    op.create_index("ix_events_subject", "events", ["organization_id", "name", "subject", "at", "seconds"])


def downgrade() -> None:
    for table in ("org_settings", "events", "audit", "approvals", "session_skills", "sessions"):
        op.drop_table(table)
