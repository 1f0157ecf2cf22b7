"""The default conversation belongs to its workspace: `default:FOLDER`. The one that all folders shared gets a name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_NAMES = ("organization_id", "user_id", "actor", "conversation_id")
sessions = sa.table("sessions", *(sa.column(name, sa.Text) for name in _NAMES))


def upgrade() -> None:
    # Nobody recorded which folder enabled a skill in it, so no folder inherits it. Under this name it can be seen and closed.
    _rename("default", "default:shared")


def downgrade() -> None:
    _rename("default:shared", "default")


def _rename(old: str, new: str) -> None:
    # An actor who already has a conversation of the new name keeps both as they are.
    other = sessions.alias()
    taken = sa.exists().where(
        *(other.c[name] == sessions.c[name] for name in ("organization_id", "user_id", "actor")),
        other.c.conversation_id == new,
    )
    op.execute(sessions.update().where(sessions.c.conversation_id == old, ~taken).values(conversation_id=new))
