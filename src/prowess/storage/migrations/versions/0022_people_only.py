"""Whether only people start a skill, in the index that answers for all skills at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_INDEX = "ix_skills_tenant_seal"
_COLUMNS = [
    sa.text("coalesce(organization_id, '')"),
    sa.text("coalesce(user_id, '')"),
    *("scope", "reader", "slug", "seal"),
]


def upgrade() -> None:
    # Rows of older readers are read again, and get their value then.
    op.add_column("skills", sa.Column("people_only", sa.Boolean, nullable=False, server_default=sa.false()))
    op.drop_index(_INDEX, "skills")
    op.create_index(_INDEX, "skills", [*_COLUMNS, "people_only"])


def downgrade() -> None:
    op.drop_index(_INDEX, "skills")
    op.create_index(_INDEX, "skills", _COLUMNS)
    op.drop_column("skills", "people_only")
