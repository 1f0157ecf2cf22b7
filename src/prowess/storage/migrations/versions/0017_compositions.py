"""Skills that are being drafted, and the rounds of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "compositions",
        *_texts("id", "organization_id", "user_id", "created_by", "state", "request", "skill", "base_digest"),
        sa.Column("round", sa.Integer, nullable=False),
        *_texts("saved_as", "saved_digest", "created_at", "updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_compositions"),
    )
    op.create_index("ix_compositions_updated", "compositions", ["organization_id", "updated_at"])
    op.create_table(
        "composition_rounds",
        *_texts("composition_id"),
        sa.Column("number", sa.Integer, nullable=False),
        *_texts("organization_id"),
        sa.Column("previous", sa.Integer, nullable=False),
        *_texts("feedback", "actor", "model"),
        sa.Column("cost", sa.Float),
        *_texts("slug", "digest"),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("draft", sa.JSON, nullable=False),
        sa.Column("checks", sa.JSON, nullable=False),
        *_texts("created_at"),
        sa.PrimaryKeyConstraint("composition_id", "number", name="pk_composition_rounds"),
    )


def downgrade() -> None:
    for table in ("composition_rounds", "compositions"):
        op.drop_table(table)
