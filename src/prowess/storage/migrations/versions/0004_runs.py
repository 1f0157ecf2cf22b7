"""Traces of runs, what was spent on models, and the registries of prompts and rubrics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

RUNNING = sa.text("status = 'running'")


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


def upgrade() -> None:
    _create_traces()
    op.create_table(
        "spend",
        *_texts("organization_id", "purse"),
        sa.Column("amount", sa.Float, nullable=False),
        *_texts("updated_at"),
        sa.PrimaryKeyConstraint("organization_id", "purse", name="pk_spend"),
    )
    op.create_table(
        "registry_entries",
        *_texts("organization_id", "kind", "entry_id", "version", "created_at", "created_by", "content"),
        sa.PrimaryKeyConstraint("organization_id", "kind", "entry_id", "version", name="pk_registry_entries"),
    )


def _create_traces() -> None:
    table = "skill_execution_traces"
    op.create_table(
        table,
        *_texts("id", "run_id", "organization_id", "user_id", "actor", "session_id", "skill_id", "skill_slug"),
        *_texts("skill_digest", "artifact_id", "artifact_name", "artifact_kind"),
        *_texts("fallback_of", nullable=True),
        *_texts("status", "started_at", "deadline_at", "process"),
        *_texts("completed_at", nullable=True),
        sa.Column("duration_ms", sa.Integer),
        *_texts("model_id", nullable=True),
        sa.Column("input_tokens", sa.Integer),
        sa.Column("output_tokens", sa.Integer),
        sa.Column("estimated_cost", sa.Float),
        sa.Column("assertions_run", sa.Integer, nullable=False),
        sa.Column("assertions_passed", sa.Integer, nullable=False),
        *_texts("error_code", nullable=True),
        *_texts("created_at"),
        *_texts("error", nullable=True),
        sa.Column("verdicts", sa.JSON, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("inputs", sa.JSON, nullable=False),
        *_texts("rendered_input", "raw_output", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_skill_execution_traces"),
    )
    op.create_index("idx_traces_session_id", table, ["session_id"])
    op.create_index("idx_traces_skill_id", table, ["skill_id"])
    op.create_index("idx_traces_artifact_id", table, ["artifact_id"])
    op.create_index("ix_traces_started", table, ["started_at"])
    op.create_index("ix_traces_organization_started", table, ["organization_id", "started_at"])
    op.create_index("ix_traces_owner_started", table, ["organization_id", "user_id", "started_at"])
    op.create_index("ix_traces_running", table, ["deadline_at"], sqlite_where=RUNNING, postgresql_where=RUNNING)


def downgrade() -> None:
    for table in ("registry_entries", "spend", "skill_execution_traces"):
        op.drop_table(table)
