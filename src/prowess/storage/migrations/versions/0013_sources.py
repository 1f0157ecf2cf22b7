"""Sources that skills are copied from, and the skills that each of them delivered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_TEXTS = ("id", "organization_id", "user_id", "scope", "name", "source_type")
_STATE = ("fetched_url", "revision", "tree", "etag", "checked_at", "pinned_key")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    op.create_table(
        "skill_sources",
        *map(_text, _TEXTS),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        *map(_text, ("created_at", "created_by", "updated_at")),
        sa.Column("last_sync_at", sa.Text),
        sa.Column("last_sync_status", sa.Text),
        sa.Column("last_sync_error", sa.Text),
        *map(_text, _STATE),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("problems", sa.JSON, nullable=False),
        sa.Column("lease_owner", sa.Text),
        sa.Column("lease_until", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_skill_sources"),
    )
    op.create_index("ix_skill_sources_owner", "skill_sources", ["organization_id", "user_id"])
    op.create_table(
        "skill_source_items",
        *map(_text, ("source_id", "slug", "organization_id", "path", "digest", "revision", "updated_at")),
        sa.PrimaryKeyConstraint("source_id", "slug", name="pk_skill_source_items"),
        sa.ForeignKeyConstraint(
            ["source_id"], ["skill_sources.id"], name="fk_skill_source_items_source_id", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("skill_source_items")
    op.drop_table("skill_sources")
