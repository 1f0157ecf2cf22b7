"""Define the tables of evaluations: runs, their results, and the scores of skills."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata

eval_runs = sa.Table(
    "eval_runs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("skill_slug", sa.Text, nullable=False),
    sa.Column("skill_digest", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # running, done or stopped
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("finished_at", sa.Text),  # while it runs: the last sign of life of its process
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("done", sa.Integer, nullable=False),  # including those that failed and those with an error
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("errors", sa.Integer, nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("plan", ORDERED_JSON, nullable=False),
    sa.Column("arms", ORDERED_JSON, nullable=False),
    sa.Column("summary", ORDERED_JSON),
)

eval_results = sa.Table(
    "eval_results",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("cache_key", sa.Text, nullable=False),  # '' if the result must not be used again
    sa.Column("result", sa.Text, nullable=False),  # as JSON
)

eval_scores = sa.Table(
    "eval_scores",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("skill_slug", sa.Text, primary_key=True),
    sa.Column("skill_digest", sa.Text, primary_key=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("detail", ORDERED_JSON, nullable=False),
)

sa.Index("ix_eval_runs_created", eval_runs.c.organization_id, eval_runs.c.created_at)
sa.Index("ix_eval_results_cache", eval_results.c.organization_id, eval_results.c.user_id, eval_results.c.cache_key)
