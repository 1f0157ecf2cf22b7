"""Define the tables of conversations: one row each, their messages, and the facts that are remembered for a user."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata

conversations = sa.Table(
    "conversations",
    metadata,
    # A conversation is a session. It goes when retention deletes the session.
    sa.Column("id", sa.Text, sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),  # the number of the last turn
    sa.Column("state", sa.Text, nullable=False),  # idle, running, waiting, stopped or failed
    sa.Column("pending", ORDERED_JSON, nullable=False),  # the ids of approvals, by the id of the call that waits
    sa.Column("lease", sa.Text, nullable=False),  # who works on a turn; '' for nobody
    sa.Column("lease_until", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
)

conversation_messages = sa.Table(
    "conversation_messages",
    metadata,
    sa.Column("conversation_id", sa.Text, sa.ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("role", sa.Text, nullable=False),  # user, assistant or tool
    sa.Column("call_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("calls", ORDERED_JSON, nullable=False),
    sa.Column("detail", ORDERED_JSON, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

memories = sa.Table(
    "memories",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

_C, _M = conversations.c, memories.c
sa.Index("ix_conversations_updated", _C.organization_id, _C.user_id, _C.updated_at)
sa.Index("ix_memories_created", _M.organization_id, _M.user_id, _M.created_at)
