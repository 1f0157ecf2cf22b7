"""A conversation belongs to the actor who opened it: two actors may use the same name for one of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

OWNER = ["organization_id", "user_id"]
_NAMES = ("id", "organization_id", "user_id", "conversation_id")
sessions = sa.table("sessions", *(sa.column(name, sa.Text) for name in _NAMES))


def upgrade() -> None:
    op.drop_index("uq_sessions_owner_conversation", "sessions")
    op.create_index("uq_sessions_actor_conversation", "sessions", [*OWNER, "actor", "conversation_id"], unique=True)


def downgrade() -> None:
    op.drop_index("uq_sessions_actor_conversation", "sessions")
    _rename_duplicates()
    op.create_index("uq_sessions_owner_conversation", "sessions", [*OWNER, "conversation_id"], unique=True)


def _rename_duplicates() -> None:
    """Leave one session of a user its conversation's name, and add their ids to the names of the others."""
    other = sessions.alias()
    earlier = sa.exists().where(
        other.c.organization_id == sessions.c.organization_id,
        other.c.user_id == sessions.c.user_id,
        other.c.conversation_id == sessions.c.conversation_id,
        other.c.id < sessions.c.id,
    )
    name = sessions.c.conversation_id + sa.literal(":", sa.Text) + sessions.c.id
    op.execute(sessions.update().where(earlier).values(conversation_id=name))
