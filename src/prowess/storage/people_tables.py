"""Define the tables of organizations, their people, and the credentials that these sign in with.

People, organizations and tokens are deactivated or revoked, never removed, so that an id is never given to somebody
else. Secrets are stored as SHA-256 hashes: each has 256 random bits, so it cannot be guessed from its hash.
"""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import metadata, texts

organizations = sa.Table(
    "organizations",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *texts("name", "created_at", "created_by"),
    sa.Column("deactivated_at", sa.Text),
)

users = sa.Table(
    "users",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("email", sa.Text, nullable=False),  # to show to people; it never identifies anybody
    *texts("created_at", "created_by"),
    sa.Column("deactivated_at", sa.Text),
)

memberships = sa.Table(
    "memberships",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("permissions", sa.Text, nullable=False),  # separated by spaces
    *texts("created_at", "created_by"),
    sa.Column("deactivated_at", sa.Text),
)

# Accounts at OpenID Connect providers.
identities = sa.Table(
    "identities",
    metadata,
    sa.Column("issuer", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    *texts("user_id", "created_at", "created_by"),
)


def _holder_columns() -> list[sa.Column[str]]:
    """Return the columns that say whose secret a row is about. All are read at every request."""
    return [
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("organization_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),  # '' with the organization '': the operator
        sa.Column("actor_name", sa.Text, nullable=False),  # under which actions are recorded
        sa.Column("created_at", sa.Text, nullable=False),
    ]


tokens = sa.Table(
    "tokens",
    metadata,
    *_holder_columns(),
    *texts("kind", "name"),
    sa.Column("scopes", sa.Text, nullable=False),  # permissions, separated by spaces
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Text),  # NULL: never
    sa.Column("last_used_at", sa.Text),
    sa.Column("revoked_at", sa.Text),
    sa.Column("revoked_by", sa.Text),
    sa.Column("created_with", sa.Text),  # the id of the token that it was created with
)

sign_in_codes = sa.Table(
    "sign_in_codes", metadata, *_holder_columns(), *texts("created_by", "expires_at"), sa.Column("used_at", sa.Text)
)

web_sessions = sa.Table(
    "web_sessions",
    metadata,
    *_holder_columns(),
    sa.Column("how", sa.Text, nullable=False),  # the person signed in with a code, or through a provider
    sa.Column("client", sa.Text, nullable=False),  # the browser, as it names itself
    sa.Column("expires_at", sa.Text, nullable=False),  # moves with each use, at most to `ends_at`
    sa.Column("ends_at", sa.Text, nullable=False),
    sa.Column("last_used_at", sa.Text),
    sa.Column("revoked_at", sa.Text),
    sa.Column("revoked_by", sa.Text),
)

sa.Index("ix_memberships_user_id", memberships.c.user_id)
sa.Index("ix_identities_user_id", identities.c.user_id)
sa.Index("ix_tokens_owner", tokens.c.organization_id, tokens.c.user_id)
sa.Index("ix_sign_in_codes_owner", sign_in_codes.c.organization_id, sign_in_codes.c.user_id)
sa.Index("ix_web_sessions_owner", web_sessions.c.organization_id, web_sessions.c.user_id)
