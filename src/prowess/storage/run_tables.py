"""Define the tables of traces, checkpoints, spending, prompts and rubrics, the same on SQLite and PostgreSQL.

`skill_execution_traces` has the columns of the Inklings schema and more; large ones come last.
"""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata, texts

traces = sa.Table(
    "skill_execution_traces",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *texts(
        "run_id",
        "organization_id",
        "user_id",
        "actor",
        "session_id",
        "skill_id",
        "skill_slug",
        "skill_digest",
        "artifact_id",
        "artifact_name",
        "artifact_kind",
    ),
    sa.Column("fallback_of", sa.Text),
    *texts("status", "started_at", "deadline_at", "process"),
    sa.Column("completed_at", sa.Text),
    sa.Column("duration_ms", sa.Integer),
    sa.Column("model_id", sa.Text),
    sa.Column("input_tokens", sa.Integer),
    sa.Column("output_tokens", sa.Integer),
    sa.Column("estimated_cost", sa.Float),
    sa.Column("assertions_run", sa.Integer, nullable=False),
    sa.Column("assertions_passed", sa.Integer, nullable=False),
    sa.Column("error_code", sa.Text),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("verdicts", ORDERED_JSON, nullable=False),
    sa.Column("detail", ORDERED_JSON, nullable=False),
    sa.Column("inputs", ORDERED_JSON, nullable=False),
    sa.Column("rendered_input", sa.Text),
    sa.Column("raw_output", sa.Text),
)

checkpoints = sa.Table(
    "run_checkpoints",
    metadata,
    sa.Column("trace_id", sa.Text, primary_key=True),
    *texts("organization_id", "user_id", "skill_slug", "skill_digest", "artifact_name", "created_at"),
    sa.Column("following", ORDERED_JSON, nullable=False),  # the names of the artifacts to run after it
    sa.Column("seed", sa.Text, nullable=False),
    sa.Column("journal", sa.LargeBinary, nullable=False),  # the inputs and the answers to its calls, as compressed JSON
)

spend = sa.Table(
    "spend",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("purse", sa.Text, primary_key=True),  # "day:2026-03-01" or "session:ID"
    sa.Column("amount", sa.Float, nullable=False),  # US dollars, including what is reserved for running requests
    sa.Column("updated_at", sa.Text, nullable=False),
)

registry_entries = sa.Table(
    "registry_entries",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),  # "prompt" or "rubric"
    sa.Column("entry_id", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, primary_key=True),
    *texts("created_at", "created_by"),
    sa.Column("content", sa.Text, nullable=False),  # the entry as JSON
    sa.Column("digest", sa.Text, nullable=False, server_default=sa.text("''")),  # of the key and the content
)

sa.Index("ix_run_checkpoints_created", checkpoints.c.created_at)
sa.Index("idx_traces_session_id", traces.c.session_id)
sa.Index("idx_traces_skill_id", traces.c.skill_id)
sa.Index("idx_traces_artifact_id", traces.c.artifact_id)
sa.Index("ix_traces_organization_started", traces.c.organization_id, traces.c.started_at)
sa.Index("ix_traces_owner_started", traces.c.organization_id, traces.c.user_id, traces.c.started_at)
# Partial: nearly all runs have ended, and finding the few others must not depend on their number.
sa.Index(
    "ix_traces_running",
    traces.c.deadline_at,
    sqlite_where=traces.c.status == "running",
    postgresql_where=traces.c.status == "running",
)
