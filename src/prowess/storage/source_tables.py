"""Define the tables of sources and of the skills that they delivered, the same on SQLite and PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata, texts

skill_sources = sa.Table(
    "skill_sources",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),  # '' for a source of the whole organization
    sa.Column("scope", sa.Text, nullable=False),  # where its skills are kept
    *texts("name", "source_type"),
    sa.Column("config", ORDERED_JSON, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    *texts("created_at", "created_by", "updated_at"),
    sa.Column("last_sync_at", sa.Text),
    sa.Column("last_sync_status", sa.Text),
    sa.Column("last_sync_error", sa.Text),
    # The state of the source at the last successful sync, see `sources.fetched.SourceState`.
    *texts("fetched_url", "revision", "tree", "etag", "checked_at"),
    sa.Column("pinned_key", sa.Text, nullable=False),  # the key that signs its index; '' if it is not signed
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("counts", ORDERED_JSON, nullable=False),  # skills by their status in the last sync
    sa.Column("problems", ORDERED_JSON, nullable=False),  # warnings, and the skills that were not taken
    sa.Column("lease_owner", sa.Text),  # the sync that runs now
    sa.Column("lease_until", sa.Text),
)

skill_source_items = sa.Table(
    "skill_source_items",
    metadata,
    sa.Column(
        "source_id",
        sa.Text,
        sa.ForeignKey("skill_sources.id", ondelete="CASCADE", name="fk_skill_source_items_source_id"),
        primary_key=True,
    ),
    sa.Column("slug", sa.Text, primary_key=True),
    *texts("organization_id", "path"),
    sa.Column("digest", sa.Text, nullable=False),  # as the source delivered it; the skill may have been edited since
    *texts("revision", "updated_at"),
)

sa.Index("ix_skill_sources_owner", skill_sources.c.organization_id, skill_sources.c.user_id)
