"""Seals of rows, digests of registry entries, and the mark of the installation that made a database."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_TENANT = [sa.text("coalesce(organization_id, '')"), sa.text("coalesce(user_id, '')"), "scope"]


def upgrade() -> None:
    # Rows without a seal are read again from their files, and sealed then.
    for table in ("skills", "session_skills"):
        op.add_column(table, sa.Column("seal", sa.Text, nullable=False, server_default=sa.text("''")))
    op.drop_index("ix_skills_tenant_reader", "skills")
    op.create_index("ix_skills_tenant_seal", "skills", [*_TENANT, "reader", "slug", "seal"])
    op.add_column("registry_entries", sa.Column("digest", sa.Text, nullable=False, server_default=sa.text("''")))
    _fill_digests()
    op.create_table(
        "installation",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )


def _fill_digests() -> None:
    """Record the digest of every entry that is there already."""
    key = ("organization_id", "kind", "entry_id", "version")
    entries = sa.table("registry_entries", *(sa.column(name, sa.Text) for name in (*key, "content", "digest")))
    connection = op.get_bind()
    for row in connection.execute(sa.select(entries)).mappings().all():
        parts = "\0".join(row[name] for name in (*key, "content"))
        digest = f"sha256:{hashlib.sha256(parts.encode()).hexdigest()}"
        which = sa.and_(*(entries.c[name] == row[name] for name in key))
        connection.execute(sa.update(entries).where(which).values(digest=digest))


def downgrade() -> None:
    op.drop_table("installation")
    op.drop_column("registry_entries", "digest")
    op.drop_index("ix_skills_tenant_seal", "skills")
    op.create_index("ix_skills_tenant_reader", "skills", [*_TENANT, "reader", "slug"])
    for table in ("session_skills", "skills"):
        op.drop_column(table, "seal")
