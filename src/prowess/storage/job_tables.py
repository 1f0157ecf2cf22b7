"""Define the tables of jobs, of the items of batches, and of the workers that do them.

Which steps of a job are done is recorded by DBOS, in tables of its own; see `prowess.jobs`. These tables say whose job
it is and what came out.
"""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("skill_slug", sa.Text, nullable=False),
    sa.Column("skill_digest", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),  # the workspace that has the skill; '' if every worker has it
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("queued_at", sa.Text, nullable=False),
    sa.Column("started_at", sa.Text),
    sa.Column("finished_at", sa.Text),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("done", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("approval_id", sa.Text),  # what it waits for
    sa.Column("error_code", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("hint", sa.Text),
    sa.Column("actor", ORDERED_JSON, nullable=False),
    sa.Column("request", ORDERED_JSON, nullable=False),
    sa.Column("result", ORDERED_JSON),
)

job_items = sa.Table(
    "job_items",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # pending, done or failed
    sa.Column("cost", sa.Float),
    sa.Column("input", sa.Text, nullable=False),
    sa.Column("result", sa.Text),  # the result as JSON on one line
)

job_workers = sa.Table(
    "job_workers",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("process", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("started_at", sa.Text, nullable=False),
    sa.Column("seen_at", sa.Text, nullable=False),
    sa.Column("claimed_at", sa.Text),  # when another worker began to take over its jobs
)

sa.Index("uq_jobs_name", jobs.c.organization_id, jobs.c.user_id, jobs.c.name, unique=True)
sa.Index("ix_jobs_created", jobs.c.organization_id, jobs.c.created_at)
sa.Index("ix_job_items_state", job_items.c.job_id, job_items.c.state)
