"""Skills, their artifacts, their versions and the bytes of their files."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None


def _words() -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def _tenant() -> list[sa.Column[str]]:
    return [
        sa.Column("organization_id", sa.Text),
        sa.Column("user_id", sa.Text),
        sa.Column("scope", sa.Text, nullable=False),
    ]


def upgrade() -> None:
    _create_skills()
    _create_artifacts()
    _create_versions()
    op.create_table(
        "skill_blobs",
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_skill_blobs"),
    )


def _create_skills() -> None:
    op.create_table(
        "skills",
        sa.Column("id", sa.Text, nullable=False),
        *_tenant(),
        sa.Column("slug", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("tags", _words(), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("kinds", _words(), nullable=False),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column("author", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("intent_patterns", _words(), nullable=False),
        sa.Column("trigger_phrases", _words(), nullable=False),
        sa.Column("marketplace_id", sa.Text),
        sa.Column("sync_etag", sa.Text),
        sa.Column("source_type", sa.Text, nullable=False),
        sa.Column("source_url", sa.Text),
        sa.Column("source_ref", sa.Text),
        sa.Column("source_id", sa.Text),
        sa.Column("content_length", sa.Integer, nullable=False),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("package", sa.Text, nullable=False),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_skills"),
    )
    op.create_index(
        "uq_skills_tenant_slug",
        "skills",
        [sa.text("coalesce(organization_id, '')"), sa.text("coalesce(user_id, '')"), "scope", "slug"],
        unique=True,
    )


def _create_artifacts() -> None:
    op.create_table(
        "skill_artifacts",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("skill_id", sa.Text, nullable=False),
        *_tenant(),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("model_variant", sa.Text),
        sa.Column("path", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("state_blob", sa.LargeBinary),
        sa.PrimaryKeyConstraint("id", name="pk_skill_artifacts"),
        sa.ForeignKeyConstraint(["skill_id"], ["skills.id"], name="fk_skill_artifacts_skill_id", ondelete="CASCADE"),
    )
    op.create_index(
        "uq_skill_artifacts_name_variant",
        "skill_artifacts",
        ["skill_id", "name", sa.text("coalesce(model_variant, '')")],
        unique=True,
    )


def _create_versions() -> None:
    op.create_table(
        "skill_versions",
        sa.Column("id", sa.Text, nullable=False),
        *_tenant(),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("slug", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column("package", sa.Text, nullable=False),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_skill_versions"),
    )
    op.create_index(
        "uq_skill_versions_tenant_slug_number",
        "skill_versions",
        [
            sa.text("coalesce(organization_id, '')"),
            sa.text("coalesce(user_id, '')"),
            "scope",
            "place",
            "slug",
            "number",
        ],
        unique=True,
    )


def downgrade() -> None:
    for table in ("skill_blobs", "skill_versions", "skill_artifacts", "skills"):
        op.drop_table(table)
