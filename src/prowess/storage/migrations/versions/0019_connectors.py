"""Connectors of organizations, and what people have allowed of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "connectors",
        *_texts("organization_id", "name"),
        sa.Column("config", sa.JSON, nullable=False),
        *_texts("created_by", "created_at", "updated_at"),
        sa.PrimaryKeyConstraint("organization_id", "name", name="pk_connectors"),
    )
    op.create_table(
        "connector_grants",
        *_texts("organization_id", "user_id", "connector", "config_digest", "tool"),
        *_texts("tool_digest", "granted_by", "created_at"),
        sa.PrimaryKeyConstraint(
            "organization_id", "user_id", "connector", "config_digest", "tool", name="pk_connector_grants"
        ),
    )


def downgrade() -> None:
    for table in ("connector_grants", "connectors"):
        op.drop_table(table)
