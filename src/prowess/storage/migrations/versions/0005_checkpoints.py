"""Checkpoints, from which an interrupted run goes on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TABLE = "run_checkpoints"


def upgrade() -> None:
    names = ("trace_id", "organization_id", "user_id", "skill_slug", "skill_digest", "artifact_name", "created_at")
    op.create_table(
        TABLE,
        *[sa.Column(name, sa.Text, nullable=False) for name in names],
        sa.Column("following", sa.JSON, nullable=False),
        sa.Column("seed", sa.Text, nullable=False),
        sa.Column("journal", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("trace_id", name="pk_run_checkpoints"),
    )
    op.create_index("ix_run_checkpoints_created", TABLE, ["created_at"])


def downgrade() -> None:
    op.drop_table(TABLE)
