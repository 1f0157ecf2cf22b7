"""Define the tables of sessions and of the skills that are enabled in them."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("conversation_id", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("actor_kind", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("context_window", sa.Integer),
    sa.Column("budget_max", sa.Integer, nullable=False),
    sa.Column("budget_used", sa.Integer, nullable=False),  # the sum of content_length over its session_skills
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
    sa.Column("closed_at", sa.Text),
)

session_skills = sa.Table(
    "session_skills",
    metadata,
    sa.Column("session_id", sa.Text, sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("slug", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("source_type", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("content_length", sa.Integer, nullable=False),
    sa.Column("enabled_at", sa.Text, nullable=False),
    sa.Column("detail", ORDERED_JSON, nullable=False),
    sa.Column("content", sa.Text, nullable=False),  # the block as it stands in the prompt
    sa.Column("seal", sa.Text, nullable=False, server_default=sa.text("''")),  # see `storage.seals`
)

_CONVERSATION = (sessions.c.organization_id, sessions.c.user_id, sessions.c.actor, sessions.c.conversation_id)
sa.Index("uq_sessions_actor_conversation", *_CONVERSATION, unique=True)
sa.Index("ix_sessions_owner_updated", sessions.c.organization_id, sessions.c.user_id, sessions.c.updated_at)
