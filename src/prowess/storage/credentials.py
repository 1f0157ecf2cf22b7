"""Store tokens, sign-in codes and web sessions by the hash of their secret, and find the holder of one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from prowess.storage.clock import now
from prowess.storage.owner import Owner
from prowess.storage.people import memberships, organizations, sign_in_codes, tokens, users, web_sessions
from prowess.storage.rows import CompiledSelect

TOKEN_PREFIX = "prw_"  # noqa: S105  (how every token starts, so that people and secret scanners recognize one)
_ID_CHARS = 16
_NEVER = "9999"
"""Later than every time, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token, without its secret. `scopes` are the permissions that it was created with; `kind` is whose it is.

    `created_with` is the id of the token that it was created with, if there was one.
    """

    id: str
    organization_id: str
    user_id: str
    actor_name: str
    kind: Literal["person", "agent"]
    name: str
    scopes: tuple[str, ...]
    created_at: str
    created_by: str
    expires_at: str | None = None
    last_used_at: str | None = None
    revoked_at: str | None = None
    revoked_by: str | None = None
    created_with: str | None = None

    @property
    def state(self) -> Literal["active", "expired", "revoked"]:
        """Whether the token can be used now."""
        if self.revoked_at is not None:
            return "revoked"
        return "active" if (self.expires_at or _NEVER) > now() else "expired"

    def as_json(self) -> dict[str, Any]:
        """Return the token as a JSON object."""
        names = ("id", "organization_id", "user_id", "kind", "name", "scopes", "state", "created_at", "created_by")
        names += ("created_with", "expires_at", "last_used_at", "revoked_at", "revoked_by")
        return {name: getattr(self, name) for name in names} | {"scopes": list(self.scopes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSession:
    """One session of a browser, without its secret. `how` is `code` or the issuer of the identity."""

    id: str
    organization_id: str
    user_id: str
    actor_name: str
    how: str
    client: str
    created_at: str
    expires_at: str
    ends_at: str
    last_used_at: str | None = None
    revoked_at: str | None = None
    revoked_by: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the session as a JSON object."""
        names = ("id", "how", "client", "created_at", "expires_at", "last_used_at")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The holder of a valid secret. `permissions` are those of the membership, or None for the operator."""

    id: str
    organization_id: str
    user_id: str
    actor_name: str
    kind: Literal["person", "agent"]
    scopes: tuple[str, ...] | None
    permissions: tuple[str, ...] | None
    last_used_at: str
    ends_at: str = ""
    expires_at: str = _NEVER
    """When the secret expires."""


def new_secret(prefix: str = "") -> str:
    """Return 256 random bits as text."""
    return prefix + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """Return the hash under which a secret is stored."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _holder_select(table: sa.Table, *columns: sa.ColumnElement[Any]) -> CompiledSelect:
    """Return the query for the holder of a secret, which is read at every request.

    It gives no row if the secret, the membership, the user or the organization has ended. Only the operator, whose
    organization and user are both '', needs no membership.
    """
    member = sa.and_(
        memberships.c.organization_id == table.c.organization_id,
        memberships.c.user_id == table.c.user_id,
        memberships.c.deactivated_at.is_(None),
    )
    user = sa.and_(users.c.id == memberships.c.user_id, users.c.deactivated_at.is_(None))
    of = sa.and_(organizations.c.id == memberships.c.organization_id, organizations.c.deactivated_at.is_(None))
    nobody: sa.ColumnElement[str] = sa.literal_column("''")
    operator = sa.and_(table.c.organization_id == nobody, table.c.user_id == nobody)
    expires = sa.func.coalesce(table.c.expires_at, sa.literal_column(f"'{_NEVER}'"))
    # One join condition for the three, so that a member of a deactivated organization counts as no member.
    active = memberships.join(users, user).join(organizations, of)
    return CompiledSelect(
        sa.select(
            table.c.hash,
            table.c.id,
            table.c.organization_id,
            table.c.user_id,
            table.c.actor_name,
            table.c.last_used_at,
            memberships.c.permissions,
            expires,
            *columns,
        )
        .select_from(table.outerjoin(active, member))
        .where(
            table.c.hash == sa.bindparam("given"),
            table.c.revoked_at.is_(None),
            expires > sa.bindparam("moment"),
            sa.or_(operator, memberships.c.user_id.is_not(None)),
        )
    )


_TOKEN_HOLDER = _holder_select(tokens, tokens.c.kind, tokens.c.scopes)
_SESSION_HOLDER = _holder_select(web_sessions, sa.literal_column("'person'"), web_sessions.c.ends_at)


def find_token_holder(connection: sa.Connection, token: str) -> Holder | None:
    """Return the holder of a token, or None if it is unknown, expired, revoked or its holder is no longer active."""
    found = _find_holder(connection, _TOKEN_HOLDER, token)
    return None if found is None else _to_holder(found, scopes=tuple(found[9].split()))


def find_session_holder(connection: sa.Connection, secret: str) -> Holder | None:
    """Return the holder of a browser's session, or None in the same cases."""
    found = _find_holder(connection, _SESSION_HOLDER, secret)
    return None if found is None else _to_holder(found, scopes=None, ends_at=found[9])


def _find_holder(connection: sa.Connection, query: CompiledSelect, secret: str) -> tuple[Any, ...] | None:
    digest = hash_secret(secret)
    rows = query.rows(connection, {"given": digest, "moment": now()})
    # The index finds rows by comparing hashes, whose timing says nothing about a secret. The last word has a comparison
    # in constant time, so that this does not depend on the database.
    return rows[0] if rows and hmac.compare_digest(rows[0][0], digest) else None


def _to_holder(row: tuple[Any, ...], *, scopes: tuple[str, ...] | None, ends_at: str = "") -> Holder:
    _, key, organization, user, name, last_used, permissions, expires, kind = row[:9]
    return Holder(
        id=key,
        organization_id=organization,
        user_id=user,
        actor_name=name,
        kind=kind,
        scopes=scopes,
        # Without a membership only the operator is found.
        permissions=None if permissions is None else tuple(permissions.split()),
        last_used_at=last_used or "",
        ends_at=ends_at,
        expires_at=expires,
    )


def add_token(
    connection: sa.Connection,
    owner: Owner,
    *,
    actor_name: str,
    kind: Literal["person", "agent"],
    name: str,
    scopes: Iterable[str],
    expires_at: str | None,
    by: str,
    created_with: str | None = None,
) -> tuple[str, Token]:
    """Add a token, and return its secret and its row."""
    secret = new_secret(TOKEN_PREFIX)
    row: dict[str, Any] = {
        **_new_row(owner, secret, actor_name),
        "kind": kind,
        "name": name,
        "scopes": " ".join(sorted(scopes)),
        "created_by": by,
        "expires_at": expires_at,
        "created_with": created_with,
    }
    connection.execute(sa.insert(tokens), row)
    return secret, _to_token(row)


def list_tokens(
    connection: sa.Connection, *, organization_id: str | None = None, user_id: str | None = None
) -> list[Token]:
    """Return tokens, newest first: of all organizations or of one, of all its users or of one."""
    query = sa.select(*(column for column in tokens.c if column.name != "hash"))
    query = query if organization_id is None else query.where(tokens.c.organization_id == organization_id)
    query = query if user_id is None else query.where(tokens.c.user_id == user_id)
    rows = connection.execute(query.order_by(tokens.c.created_at.desc(), tokens.c.id))
    return [_to_token(row) for row in rows.mappings()]


def get_token(connection: sa.Connection, id: str, *, lock: bool = False) -> Token | None:
    """Return a token of any organization by its id, or None. With `lock`, it does not change until the transaction ends."""
    query = sa.select(tokens).where(tokens.c.id == id)
    found = connection.execute(query.with_for_update(read=True) if lock else query).mappings().first()
    return _to_token(found) if found else None


def _to_token(row: Mapping[Any, Any]) -> Token:
    values: dict[str, Any] = {key: value for key, value in row.items() if key != "hash"}
    values["scopes"] = tuple(str(values["scopes"]).split())
    return Token(**values)


def _new_row(owner: Owner, secret: str, actor_name: str) -> dict[str, Any]:
    digest = hash_secret(secret)
    # A part of the hash is unique enough, and says no more about the secret than the hash does.
    return {"hash": digest, "id": digest[:_ID_CHARS], **owner.columns, "actor_name": actor_name, "created_at": now()}


def add_code(connection: sa.Connection, owner: Owner, *, actor_name: str, expires_at: str, by: str) -> str:
    """Add a sign-in code and return it. Codes that are over are removed."""
    connection.execute(sa.delete(sign_in_codes).where(sign_in_codes.c.expires_at < now()))
    secret = new_secret()
    row = {**_new_row(owner, secret, actor_name), "expires_at": expires_at, "created_by": by}
    connection.execute(sa.insert(sign_in_codes), row)
    return secret


def use_code(connection: sa.Connection, code: str) -> tuple[Owner, str] | None:
    """Use a code up, and return its owner and the name of the actor; None if it is unknown, expired or used."""
    moment = now()
    take = (
        sa.update(sign_in_codes)
        .where(
            sign_in_codes.c.hash == hash_secret(code),
            sign_in_codes.c.used_at.is_(None),
            sign_in_codes.c.expires_at > moment,
        )
        .values(used_at=moment)
        .returning(sign_in_codes.c.organization_id, sign_in_codes.c.user_id, sign_in_codes.c.actor_name)
    )
    found = connection.execute(take).first()
    return (Owner(organization_id=found[0], user_id=found[1]), found[2]) if found else None


def add_session(
    connection: sa.Connection, owner: Owner, *, actor_name: str, how: str, client: str, expires_at: str, ends_at: str
) -> tuple[str, WebSession]:
    """Add a web session, and return its secret and its row. Sessions of the owner that are over are removed."""
    over = sa.delete(web_sessions).where(
        web_sessions.c.organization_id == owner.organization_id,
        web_sessions.c.user_id == owner.user_id,
        web_sessions.c.expires_at < now(),
    )
    connection.execute(over)
    secret = new_secret()
    row = {**_new_row(owner, secret, actor_name), "how": how, "client": client}
    row |= {"expires_at": expires_at, "ends_at": ends_at}
    connection.execute(sa.insert(web_sessions), row)
    return secret, WebSession(**{key: value for key, value in row.items() if key != "hash"})


def list_sessions(connection: sa.Connection, owner: Owner) -> list[WebSession]:
    """Return the sessions of an owner that can be used, newest first."""
    query = sa.select(*(column for column in web_sessions.c if column.name != "hash")).where(
        web_sessions.c.organization_id == owner.organization_id,
        web_sessions.c.user_id == owner.user_id,
        web_sessions.c.revoked_at.is_(None),
        web_sessions.c.expires_at > now(),
    )
    rows = connection.execute(query.order_by(web_sessions.c.created_at.desc(), web_sessions.c.id))
    return [WebSession(**row) for row in rows.mappings()]


def record_use(connection: sa.Connection, id: str, *, expires_at: str | None = None) -> None:
    """Record that a token, or with `expires_at` a web session, was used now; a session then lasts until that time."""
    table = tokens if expires_at is None else web_sessions
    values = {"last_used_at": now()} | ({} if expires_at is None else {"expires_at": expires_at})
    connection.execute(sa.update(table).where(table.c.id == id, table.c.revoked_at.is_(None)).values(**values))


def revoke_token(connection: sa.Connection, token: Token, by: str) -> bool:
    """Revoke a token, and those that were created with it; return False if it was already revoked."""
    return _revoke_tokens(connection, tokens.c.id == token.id, by) > 0


def revoke_session(connection: sa.Connection, id: str, by: str) -> bool:
    """Revoke a web session; return False if it was already revoked."""
    return _revoke(connection, web_sessions, web_sessions.c.id == id, by) == 1


def revoke_credentials(
    connection: sa.Connection, by: str, *, organization_id: str | None = None, user_id: str | None = None
) -> int:
    """End all tokens, codes and web sessions of an organization, of a user, or of a user there; return how many tokens.

    Nothing happens if neither is given.
    """
    if organization_id is None and user_id is None:
        return 0

    def of(table: sa.Table) -> sa.ColumnElement[bool]:
        conditions = [] if organization_id is None else [table.c.organization_id == organization_id]
        return sa.and_(*conditions, *([] if user_id is None else [table.c.user_id == user_id]))

    connection.execute(sa.delete(sign_in_codes).where(of(sign_in_codes)))
    _revoke(connection, web_sessions, of(web_sessions), by)
    return _revoke_tokens(connection, of(tokens), by)


def _revoke_tokens(connection: sa.Connection, condition: sa.ColumnElement[bool], by: str) -> int:
    """Revoke tokens, those that were created with them, and so on; return how many."""
    revoked = count = _revoke(connection, tokens, condition, by)
    maker = tokens.alias()
    orphans = tokens.c.created_with.in_(sa.select(maker.c.id).where(maker.c.revoked_at.is_not(None)))
    # One statement for each generation: it waits for tokens that are being created, and the next one sees them.
    while revoked:
        count += (revoked := _revoke(connection, tokens, orphans, by))
    return count


def _revoke(connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool], by: str) -> int:
    end = sa.update(table).where(condition, table.c.revoked_at.is_(None))
    return connection.execute(end.values(revoked_at=now(), revoked_by=by)).rowcount
