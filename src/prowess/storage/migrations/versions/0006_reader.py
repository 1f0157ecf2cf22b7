"""The version of the code that read a skill, beside the digest of the files that it was read from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

INDEX = "ix_skills_tenant_reader"


def upgrade() -> None:
    # Nobody knows how the skills that are stored already were read: "0" is older than every reader.
    op.add_column("skills", sa.Column("reader", sa.Text, nullable=False, server_default=sa.text("'0'")))
    tenant = [sa.text("coalesce(organization_id, '')"), sa.text("coalesce(user_id, '')"), "scope"]
    op.create_index(INDEX, "skills", [*tenant, "reader", "slug"])


def downgrade() -> None:
    op.drop_index(INDEX, "skills")
    op.drop_column("skills", "reader")
