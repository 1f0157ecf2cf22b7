"""Store organizations, users, memberships and identities, and define the tables of their credentials.

People, organizations and tokens are deactivated or revoked, never removed, so that an id is never given to someone
else. Secrets are stored as SHA-256 hashes: each has 256 random bits, so it cannot be guessed from its hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import sqlalchemy as sa

from prowess.storage.clock import now
from prowess.storage.rows import lock_name
from prowess.storage.tables import dialect_insert, insert_or_update, make_table, metadata, read_row, read_rows, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    """One organization. `id` is its handle, chosen once."""

    id: str
    name: str
    created_at: str
    created_by: str
    deactivated_at: str | None = None


organizations = make_table("organizations", Organization)
users = sa.Table(
    "users",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("email", sa.Text, nullable=False),  # to show to people; it never identifies anyone
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


MemberRole = Literal["member", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One user of one organization. `permissions` are sorted; an admin has all of them."""

    organization_id: str
    user_id: str
    name: str
    email: str
    role: MemberRole
    permissions: tuple[str, ...]
    created_at: str
    created_by: str
    deactivated_at: str | None = None
    """When the membership ended, or the user was deactivated."""

    def as_json(self) -> dict[str, Any]:
        """Return the member as a JSON object."""
        return {**asdict(self), "permissions": list(self.permissions)}


_of_user = memberships.c.user_id == users.c.id
_MEMBER = sa.select(
    memberships.c.organization_id,
    memberships.c.user_id,
    users.c.name,
    users.c.email,
    memberships.c.role,
    memberships.c.permissions,
    memberships.c.created_at,
    memberships.c.created_by,
    sa.func.coalesce(memberships.c.deactivated_at, users.c.deactivated_at).label("deactivated_at"),
).join_from(memberships, users, _of_user)
_ACTIVE = sa.and_(memberships.c.deactivated_at.is_(None), users.c.deactivated_at.is_(None))
# With RETURNING, because the number of inserted rows is unknown on PostgreSQL.
_add_organization = dialect_insert(
    organizations, lambda insert: insert.on_conflict_do_nothing().returning(organizations.c.id)
)
_add_user = dialect_insert(users, lambda insert: insert.on_conflict_do_nothing().returning(users.c.id))
_add_identity = dialect_insert(
    identities, lambda insert: insert.on_conflict_do_nothing().returning(identities.c.user_id)
)
_put_member = insert_or_update(memberships, "role", "permissions", "created_by", "deactivated_at")


def lock_members(connection: sa.Connection, organization_id: str) -> None:
    """Let one transaction at a time change the members of an organization, so that two cannot remove its last two admins."""
    lock_name(connection, "members", organization_id)


def add_organization(connection: sa.Connection, organization_id: str, name: str, by: str) -> bool:
    """Add an organization; return False if the id is or was in use."""
    row = {"id": organization_id, "name": name, "created_at": now(), "created_by": by}
    return connection.execute(_add_organization(connection), row).first() is not None


def get_organization(connection: sa.Connection, organization_id: str) -> Organization | None:
    """Return an organization, active or not, or None."""
    return read_row(connection, sa.select(organizations).where(organizations.c.id == organization_id), Organization)


def list_organizations(connection: sa.Connection) -> list[Organization]:
    """Return all organizations, by id."""
    return read_rows(connection, sa.select(organizations).order_by(organizations.c.id), Organization)


def deactivate_organization(connection: sa.Connection, organization_id: str) -> bool:
    """Deactivate an organization; return False if it is not active."""
    end = sa.update(organizations).where(
        organizations.c.id == organization_id, organizations.c.deactivated_at.is_(None)
    )
    return connection.execute(end.values(deactivated_at=now())).rowcount == 1


def add_user(connection: sa.Connection, user_id: str, *, name: str, email: str, by: str) -> bool:
    """Add a user; return False if the id is or was in use."""
    row = {"id": user_id, "name": name, "email": email, "created_at": now(), "created_by": by}
    return connection.execute(_add_user(connection), row).first() is not None


def is_active_user(connection: sa.Connection, user_id: str) -> bool:
    """Return True if there is such a user who was not deactivated."""
    query = sa.select(users.c.id).where(users.c.id == user_id, users.c.deactivated_at.is_(None))
    return connection.execute(query).first() is not None


def deactivate_user(connection: sa.Connection, user_id: str) -> bool:
    """Deactivate a user in all organizations; return False if the user is not active."""
    end = sa.update(users).where(users.c.id == user_id, users.c.deactivated_at.is_(None))
    return connection.execute(end.values(deactivated_at=now())).rowcount == 1


def put_member(
    connection: sa.Connection,
    organization_id: str,
    user_id: str,
    *,
    role: MemberRole,
    permissions: Iterable[str],
    by: str,
) -> None:
    """Make a user a member with these permissions, or change those that the user has."""
    row = {
        "organization_id": organization_id,
        "user_id": user_id,
        "role": role,
        "permissions": " ".join(sorted(permissions)),
        "created_at": now(),
        "created_by": by,
        "deactivated_at": None,
    }
    connection.execute(_put_member(connection), row)


def get_member(connection: sa.Connection, organization_id: str, user_id: str) -> Member | None:
    """Return a member, active or not, or None."""
    query = _MEMBER.where(memberships.c.organization_id == organization_id, memberships.c.user_id == user_id)
    return read_row(connection, query, _to_member)


def list_members(connection: sa.Connection, organization_id: str) -> list[Member]:
    """Return all members of an organization, active or not, by user id."""
    query = _MEMBER.where(memberships.c.organization_id == organization_id).order_by(memberships.c.user_id)
    return read_rows(connection, query, _to_member)


def list_memberships(connection: sa.Connection, user_id: str) -> list[Member]:
    """Return the active memberships of a user, by organization."""
    query = _MEMBER.where(memberships.c.user_id == user_id, _ACTIVE).order_by(memberships.c.organization_id)
    return read_rows(connection, query, _to_member)


def count_admins(connection: sa.Connection, organization_id: str) -> int:
    """Return how many active members of an organization are admins."""
    query = sa.select(sa.func.count()).select_from(memberships.join(users, _of_user))
    query = query.where(memberships.c.organization_id == organization_id, memberships.c.role == "admin", _ACTIVE)
    return connection.execute(query).scalar_one()


def end_membership(connection: sa.Connection, organization_id: str, user_id: str) -> bool:
    """Deactivate a membership; return False if it is not active."""
    end = sa.update(memberships).where(
        memberships.c.organization_id == organization_id,
        memberships.c.user_id == user_id,
        memberships.c.deactivated_at.is_(None),
    )
    return connection.execute(end.values(deactivated_at=now())).rowcount == 1


def add_identity(connection: sa.Connection, user_id: str, *, issuer: str, subject: str, by: str) -> bool:
    """Bind an account at a provider to a user; return False if it is bound already."""
    row = {"issuer": issuer, "subject": subject, "user_id": user_id, "created_at": now(), "created_by": by}
    return connection.execute(_add_identity(connection), row).first() is not None


def find_identity(connection: sa.Connection, issuer: str, subject: str) -> str | None:
    """Return the user that an account at a provider is bound to, or None."""
    query = sa.select(identities.c.user_id).where(identities.c.issuer == issuer, identities.c.subject == subject)
    return connection.execute(query).scalar()


def _to_member(*, permissions: str, **values: Any) -> Member:
    return Member(permissions=tuple(permissions.split()), **values)
