"""The default conversation belongs to its workspace: `default:FOLDER`. The one that all folders shared gets a name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

sessions = sa.table("sessions", sa.column("conversation_id", sa.Text))


def upgrade() -> None:
    # Nobody recorded which folder enabled a skill in it, so no folder inherits it. Under this name it can be seen and closed.
    _rename("default", "default:shared")


def downgrade() -> None:
    _rename("default:shared", "default")


def _rename(old: str, new: str) -> None:
    op.execute(sessions.update().where(sessions.c.conversation_id == old).values(conversation_id=new))
