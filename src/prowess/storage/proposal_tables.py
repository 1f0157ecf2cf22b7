"""Define the table of optimisations: what was tried for a skill, what it measured, and what became of it."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata

proposals = sa.Table(
    "optimizer_proposals",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("skill_slug", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("artifact", sa.Text, nullable=False),  # '' for trigger phrases and descriptions
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("base_digest", sa.Text, nullable=False),
    sa.Column("candidate_digest", sa.Text, nullable=False),
    sa.Column("held_out", sa.Text, nullable=False),  # the digest of the cases of the test; '' before it
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
    sa.Column("finished_at", sa.Text),
    sa.Column("approved_at", sa.Text),
    sa.Column("approver", sa.Text, nullable=False),
    sa.Column("stopping", sa.Boolean, nullable=False),  # someone asked the search to end
    sa.Column("version", sa.Integer),  # of the skill, once approved
    sa.Column("calls", sa.Integer, nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("score", sa.Float),  # of the best candidate so far, on the validation cases
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("actor", ORDERED_JSON, nullable=False),
    sa.Column("request", ORDERED_JSON, nullable=False),
    sa.Column("change", ORDERED_JSON),  # the candidate
    sa.Column("test", ORDERED_JSON),  # the figures of the held-out test
    sa.Column("live", ORDERED_JSON),  # the figures of live runs after the approval
)

sa.Index("ix_optimizer_proposals_created", proposals.c.organization_id, proposals.c.created_at)
sa.Index("ix_optimizer_proposals_state", proposals.c.state)
