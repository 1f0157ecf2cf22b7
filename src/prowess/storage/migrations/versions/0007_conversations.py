"""A conversation belongs to the actor who opened it: two actors may use the same name for one of their own."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

OWNER = ["organization_id", "user_id"]


def upgrade() -> None:
    op.drop_index("uq_sessions_owner_conversation", "sessions")
    op.create_index("uq_sessions_actor_conversation", "sessions", [*OWNER, "actor", "conversation_id"], unique=True)


def downgrade() -> None:
    op.drop_index("uq_sessions_actor_conversation", "sessions")
    op.create_index("uq_sessions_owner_conversation", "sessions", [*OWNER, "conversation_id"], unique=True)
