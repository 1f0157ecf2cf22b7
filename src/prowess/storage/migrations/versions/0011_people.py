"""Organizations, their people, and the tokens, codes and web sessions that these sign in with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_HOLDER = ("hash", "id", "organization_id", "user_id", "actor_name", "created_at")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _optional(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text) for name in names]


def upgrade() -> None:
    op.create_table(
        "organizations",
        *_texts("id", "name", "created_at", "created_by"),
        *_optional("deactivated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_organizations"),
    )
    op.create_table(
        "users",
        *_texts("id", "name", "email", "created_at", "created_by"),
        *_optional("deactivated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
    )
    op.create_table(
        "memberships",
        *_texts("organization_id", "user_id", "role", "permissions", "created_at", "created_by"),
        *_optional("deactivated_at"),
        sa.PrimaryKeyConstraint("organization_id", "user_id", name="pk_memberships"),
    )
    op.create_index("ix_memberships_user_id", "memberships", ["user_id"])
    op.create_table(
        "identities",
        *_texts("issuer", "subject", "user_id", "created_at", "created_by"),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_identities"),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"])
    _create_secrets(
        "tokens",
        *_texts("kind", "name", "scopes", "created_by"),
        *_optional("expires_at", "last_used_at", "revoked_at", "revoked_by"),
    )
    _create_secrets("sign_in_codes", *_texts("created_by", "expires_at"), *_optional("used_at"))
    _create_secrets(
        "web_sessions",
        *_texts("how", "client", "expires_at", "ends_at"),
        *_optional("last_used_at", "revoked_at", "revoked_by"),
    )


def _create_secrets(table: str, *columns: sa.Column[str]) -> None:
    op.create_table(table, *_texts(*_HOLDER), *columns, sa.PrimaryKeyConstraint("hash", name=f"pk_{table}"))
    op.create_index(f"ix_{table}_owner", table, ["organization_id", "user_id"])


def downgrade() -> None:
    for table in ("web_sessions", "sign_in_codes", "tokens", "identities", "memberships", "users", "organizations"):
        op.drop_table(table)
