"""Which token a token was created with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("created_with", sa.Text))


def downgrade() -> None:
    op.drop_column("tokens", "created_with")
