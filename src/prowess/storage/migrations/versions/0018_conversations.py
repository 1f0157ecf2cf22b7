"""Conversations with their messages, and the facts that are remembered for a user."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "conversations",
        *_texts("id", "organization_id", "user_id", "created_by", "title"),
        sa.Column("turn", sa.Integer, nullable=False),
        *_texts("state"),
        sa.Column("pending", sa.JSON, nullable=False),
        *_texts("lease", "lease_until"),
        sa.Column("input_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("cost", sa.Float),
        *_texts("created_at", "updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
        sa.ForeignKeyConstraint(["id"], ["sessions.id"], name="fk_conversations_id", ondelete="CASCADE"),
    )
    op.create_index("ix_conversations_updated", "conversations", ["organization_id", "user_id", "updated_at"])
    op.create_table(
        "conversation_messages",
        *_texts("conversation_id"),
        sa.Column("number", sa.Integer, nullable=False),
        *_texts("organization_id"),
        sa.Column("turn", sa.Integer, nullable=False),
        *_texts("role", "call_id", "name", "created_at"),
        sa.Column("calls", sa.JSON, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        *_texts("text"),
        sa.PrimaryKeyConstraint("conversation_id", "number", name="pk_conversation_messages"),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name="fk_conversation_messages_conversation_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "memories",
        *_texts("id", "organization_id", "user_id", "created_by", "created_at", "text"),
        sa.PrimaryKeyConstraint("id", name="pk_memories"),
    )
    op.create_index("ix_memories_created", "memories", ["organization_id", "user_id", "created_at"])


def downgrade() -> None:
    for table in ("memories", "conversation_messages", "conversations"):
        op.drop_table(table)
