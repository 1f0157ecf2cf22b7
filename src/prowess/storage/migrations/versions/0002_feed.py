"""A number on every version that tells what was changed since another one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # What is there already is older than any position that anybody can have.
    op.add_column("skill_versions", sa.Column("feed", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.create_index(
        "ix_skill_versions_tenant_feed",
        "skill_versions",
        [sa.text("coalesce(organization_id, '')"), sa.text("coalesce(user_id, '')"), "scope", "place", "feed"],
    )


def downgrade() -> None:
    op.drop_index("ix_skill_versions_tenant_feed", "skill_versions")
    op.drop_column("skill_versions", "feed")
