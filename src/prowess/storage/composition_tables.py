"""Define the tables of compositions: skills that are being drafted, and the rounds of each."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata

compositions = sa.Table(
    "compositions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # open, saved or discarded
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("skill", sa.Text, nullable=False),  # the address of the skill that is changed; '' for a new one
    sa.Column("base_digest", sa.Text, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),  # the current one; 0 before the first
    sa.Column("saved_as", sa.Text, nullable=False),
    sa.Column("saved_digest", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
)

composition_rounds = sa.Table(
    "composition_rounds",
    metadata,
    sa.Column("composition_id", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("previous", sa.Integer, nullable=False),  # the round that it refines; 0 for the first
    sa.Column("feedback", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("slug", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("manifest", ORDERED_JSON, nullable=False),  # the files; their bytes are in skill_blobs
    sa.Column("draft", ORDERED_JSON, nullable=False),
    sa.Column("checks", ORDERED_JSON, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
)

sa.Index("ix_compositions_updated", compositions.c.organization_id, compositions.c.updated_at)
