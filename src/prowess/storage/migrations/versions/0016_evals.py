"""Runs of evaluations, their results, and the scores of skills."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "eval_runs",
        *_texts("id", "organization_id", "user_id", "skill_slug", "skill_digest", "state", "created_at"),
        sa.Column("finished_at", sa.Text),
        *_numbers("total", "done", "failed", "errors"),
        sa.Column("cost", sa.Float),
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("arms", sa.JSON, nullable=False),
        sa.Column("summary", sa.JSON),
        sa.PrimaryKeyConstraint("id", name="pk_eval_runs"),
    )
    op.create_index("ix_eval_runs_created", "eval_runs", ["organization_id", "created_at"])
    op.create_table(
        "eval_results",
        *_texts("run_id"),
        *_numbers("position"),
        *_texts("organization_id", "user_id", "cache_key", "result"),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_eval_results"),
    )
    op.create_index("ix_eval_results_cache", "eval_results", ["organization_id", "user_id", "cache_key"])
    op.create_table(
        "eval_scores",
        *_texts("organization_id", "skill_slug", "skill_digest", "created_at", "run_id"),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "skill_slug", "skill_digest", name="pk_eval_scores"),
    )


def downgrade() -> None:
    for table in ("eval_scores", "eval_results", "eval_runs"):
        op.drop_table(table)
