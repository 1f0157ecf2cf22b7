"""What pruned events and audit rows counted, so that metrics do not fall."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

KEY = ("organization_id", "log", "name", "subject", "source")


def upgrade() -> None:
    op.create_table(
        "pruned_counts",
        *[sa.Column(name, sa.Text, nullable=False) for name in KEY],
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("last_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "bucket", name="pk_pruned_counts"),
    )


def downgrade() -> None:
    op.drop_table("pruned_counts")
