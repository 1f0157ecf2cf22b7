"""No index of traces by their start alone: every query names an organization."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.drop_index("ix_traces_started", "skill_execution_traces")


def downgrade() -> None:
    op.create_index("ix_traces_started", "skill_execution_traces", ["started_at"])
