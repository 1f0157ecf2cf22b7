"""What the optimizer tried for a skill, what it measured, and what became of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "optimizer_proposals",
        *_texts("id", "organization_id", "user_id", "state", "skill_slug", "scope", "artifact", "method"),
        *_texts("base_digest", "candidate_digest", "held_out", "created_at", "updated_at"),
        sa.Column("finished_at", sa.Text),
        sa.Column("approved_at", sa.Text),
        *_texts("approver"),
        sa.Column("stopping", sa.Boolean, nullable=False),
        sa.Column("version", sa.Integer),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("cost", sa.Float),
        sa.Column("score", sa.Float),
        *_texts("reason"),
        sa.Column("actor", sa.JSON, nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("change", sa.JSON),
        sa.Column("test", sa.JSON),
        sa.Column("live", sa.JSON),
        sa.PrimaryKeyConstraint("id", name="pk_optimizer_proposals"),
    )
    op.create_index("ix_optimizer_proposals_created", "optimizer_proposals", ["organization_id", "created_at"])
    op.create_index("ix_optimizer_proposals_state", "optimizer_proposals", ["state"])


def downgrade() -> None:
    op.drop_table("optimizer_proposals")
