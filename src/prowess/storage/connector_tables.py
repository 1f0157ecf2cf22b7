"""Define the tables of connectors: those of an organization, and what people have allowed."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata

connectors = sa.Table(
    "connectors",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("config", ORDERED_JSON, nullable=False),  # without secrets: they are named, never stored
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
)

connector_grants = sa.Table(
    "connector_grants",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, primary_key=True),  # '' for everyone in the organization
    sa.Column("connector", sa.Text, primary_key=True),
    sa.Column("config_digest", sa.Text, primary_key=True),
    sa.Column("tool", sa.Text, primary_key=True),  # '' for the connector itself
    sa.Column("tool_digest", sa.Text, nullable=False),
    sa.Column("granted_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
)
