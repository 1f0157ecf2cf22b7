"""Who accepted which bytes of which skill, and the folders whose skills count as accepted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    # Skills that are stored already are not accepted here: nobody recorded who let them in. One question accepts them.
    op.create_table(
        "skill_acceptances",
        *_texts("id", "organization_id", "user_id", "slug", "digest", "origin", "hides"),
        sa.Column("sends_out", sa.Boolean, nullable=False),
        *_texts("how", "actor", "channel", "proof", "created_at"),
        sa.Column("revoked_at", sa.Text),
        sa.Column("revoked_by", sa.Text),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_skill_acceptances"),
    )
    op.create_index("ix_skill_acceptances_subject", "skill_acceptances", ["organization_id", "slug", "digest"])
    op.create_table(
        "trusted_folders",
        *_texts("id", "organization_id", "user_id", "folder", "actor", "channel", "proof", "created_at"),
        sa.Column("revoked_at", sa.Text),
        sa.Column("revoked_by", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_trusted_folders"),
    )
    op.create_index("ix_trusted_folders_owner", "trusted_folders", ["organization_id", "user_id"])


def downgrade() -> None:
    op.drop_table("trusted_folders")
    op.drop_table("skill_acceptances")
