"""Tokens of a registry server: for publishing under one name, or only for reading a private registry.

Only a hash of each token is stored, so that a copy of the database lets nobody publish.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sqlite3
from dataclasses import dataclass
from typing import Literal

from prowess.errors import Invalid, NotFound

TOKEN_PREFIX = "prt_"  # noqa: S105  not a secret: what tokens start with
TokenScope = Literal["publish", "read"]

SCHEMA = """CREATE TABLE tokens (
  id TEXT PRIMARY KEY, publisher TEXT NOT NULL, scope TEXT NOT NULL, hash TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL, revoked_at TEXT
)"""

_PUBLISHER = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherToken:
    """A token, without its secret."""

    id: str
    publisher: str
    scope: TokenScope
    created_at: str
    revoked_at: str | None = None


def create_token(
    database: sqlite3.Connection, publisher: str, scope: TokenScope, *, at: str
) -> tuple[PublisherToken, str]:
    """Store a new token, and return it with its secret, which is not stored."""
    if _PUBLISHER.fullmatch(publisher) is None:
        raise Invalid(
            f"Invalid publisher {publisher[:80]!r}.",
            hint="Use lowercase letters, digits, dots, hyphens and underscores, 64 at most.",
        )
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = PublisherToken(id=secrets.token_hex(4), publisher=publisher, scope=scope, created_at=at)
    values = (token.id, publisher, scope, _hash(secret), at)
    database.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, NULL)", values)
    return token, secret


def list_tokens(database: sqlite3.Connection) -> list[PublisherToken]:
    """Return all tokens, the oldest first."""
    rows = database.execute("SELECT id, publisher, scope, created_at, revoked_at FROM tokens ORDER BY created_at, id")
    return [_token(row) for row in rows]


def revoke_token(database: sqlite3.Connection, token_id: str, *, at: str) -> None:
    """Revoke a token for good. Raise `NotFound` if no active one has this id."""
    changed = database.execute("UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (at, token_id))
    if changed.rowcount != 1:
        raise NotFound(f"No active token {token_id[:40]!r}.", hint="List them: prowess registry token list")


def find_token(database: sqlite3.Connection, secret: str) -> PublisherToken | None:
    """Return the active token with this secret, or None.

    It is found by its hash, so the time that the database takes reveals nothing about the secret.
    """
    row = database.execute(
        "SELECT id, publisher, scope, created_at, revoked_at FROM tokens WHERE hash = ? AND revoked_at IS NULL",
        (_hash(secret),),
    ).fetchone()
    return None if row is None else _token(row)


def _token(row: tuple[str, str, TokenScope, str, str | None]) -> PublisherToken:
    return PublisherToken(id=row[0], publisher=row[1], scope=row[2], created_at=row[3], revoked_at=row[4])


def _hash(secret: str) -> str:
    # A fast hash is enough: a token has 256 random bits, which nobody can guess.
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
