"""Jobs, the items of batches, and the workers that do them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _optional(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "jobs",
        *_texts("id", "organization_id", "user_id", "kind", "name", "state", "skill_slug", "skill_digest", "place"),
        *_numbers("attempt"),
        *_texts("created_at", "queued_at"),
        *_optional("started_at", "finished_at"),
        *_numbers("total", "done", "failed"),
        sa.Column("cost", sa.Float),
        *_optional("approval_id", "error_code", "error", "hint"),
        sa.Column("actor", sa.JSON, nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("result", sa.JSON),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("uq_jobs_name", "jobs", ["organization_id", "user_id", "name"], unique=True)
    op.create_index("ix_jobs_created", "jobs", ["organization_id", "created_at"])
    op.create_table(
        "job_items",
        *_texts("job_id"),
        *_numbers("position"),
        *_texts("organization_id", "state"),
        sa.Column("cost", sa.Float),
        *_texts("input"),
        *_optional("result"),
        sa.PrimaryKeyConstraint("job_id", "position", name="pk_job_items"),
    )
    op.create_index("ix_job_items_state", "job_items", ["job_id", "state"])
    op.create_table(
        "job_workers",
        *_texts("id", "process", "place", "started_at", "seen_at"),
        *_optional("claimed_at"),
        sa.PrimaryKeyConstraint("id", name="pk_job_workers"),
    )


def downgrade() -> None:
    for table in ("job_workers", "job_items", "jobs"):
        op.drop_table(table)
