"""Store which bytes of which skill a person accepted, and the folders whose skills count as accepted.

These rows are read from the records alone, which are in the home folder or on a server: never from a database in a
workspace, which someone else may have made. An acceptance counts for its user, or for the whole organization if its
user is ''. Nothing is removed: a revoked row says when and by whom.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from prowess.lazy_dataclass import dataclass
from prowess.storage.accepted import Accepted, add_accepted
from prowess.storage.blobs import split_chunks
from prowess.storage.clock import now
from prowess.storage.owner import Owner
from prowess.storage.rows import LazyStatements, decode_object, make_row, row_values

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import trust as sql
else:
    sql = LazyStatements("trust")

AcceptedHow = Literal["written", "imported", "trusted", "approved"]
"""How a skill was accepted: a person wrote it or imported it, trusted it as it was found, or approved a use of it."""

_ALL_SLUGS = 50
"""From this many slugs on, reading all acceptances of an owner takes less time than looking up each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One person's acceptance of exact bytes; `detail` is the card that the person saw."""

    id: str = ""
    organization_id: str
    user_id: str
    """'' accepts for everyone in the organization."""
    slug: str
    digest: str
    origin: str = ""
    hides: tuple[str, ...] = ()
    """The scopes in which it may hide a trusted skill."""
    sends_out: bool = False
    """True if its reach was shown, so that it may send data out."""
    how: AcceptedHow
    actor: str
    channel: str = ""
    proof: str = ""
    created_at: str = ""
    revoked_at: str | None = None
    revoked_by: str | None = None
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedFolder:
    """A standing rule: all skills in a folder count as accepted, whatever their bytes."""

    id: str = ""
    organization_id: str
    user_id: str
    folder: str
    actor: str
    channel: str = ""
    proof: str = ""
    created_at: str = ""
    revoked_at: str | None = None
    revoked_by: str | None = None


def read_accepted(connection: sa.Connection, owner: Owner, slugs: Sequence[str]) -> Accepted:
    """Return an owner's acceptances of these skills, in any of their versions."""
    if len(slugs) > _ALL_SLUGS:
        return read_all_accepted(connection, owner)
    found: Accepted = {}
    # To a server, each query is a round trip; SQLite has no arrays, and answers in microseconds.
    if connection.dialect.name == "postgresql":
        add_accepted(found, sql.OF_SLUGS.rows(connection, {**owner.key, "of": list(slugs)}))
        return found
    for slug in slugs:
        add_accepted(found, sql.OF_SLUG.rows(connection, {**owner.key, "of": slug}))
    return found


def read_all_accepted(connection: sa.Connection, owner: Owner) -> Accepted:
    """Return all acceptances of an owner."""
    found: Accepted = {}
    add_accepted(found, sql.OF_OWNER.rows(connection, owner.key))
    return found


def read_folders(connection: sa.Connection, owner: Owner) -> list[str]:
    """Return the folders of an owner's standing rules."""
    return [folder for (folder,) in sql.FOLDERS_OF_OWNER.rows(connection, owner.key)]


def insert_acceptances(connection: sa.Connection, accepted: Sequence[Acceptance]) -> list[Acceptance]:
    """Store acceptances and return them as stored."""
    if not accepted:
        return []
    moment = now()
    rows = [replace(acceptance, id=str(uuid.uuid4()), created_at=moment) for acceptance in accepted]
    sql.INSERT.run(connection, [row_values(row) | {"hides": " ".join(row.hides)} for row in rows])
    return rows


def list_acceptances(
    connection: sa.Connection, owner: Owner, *, slug: str = "", digest: str = "", revoked: bool = False
) -> list[Acceptance]:
    """Return the acceptances that count for an owner, newest first; with `revoked`, also those that no longer do."""
    rows = (
        sql.LIST_OF_SLUG.rows(connection, {**owner.key, "of": slug}) if slug else sql.LIST.rows(connection, owner.key)
    )
    acceptances = [to_acceptance(row) for row in rows]
    return [
        acceptance
        for acceptance in acceptances
        if (not digest or acceptance.digest == digest) and (revoked or acceptance.revoked_at is None)
    ]


def to_acceptance(values: Sequence[Any]) -> Acceptance:
    """Return an acceptance from a row of its table."""
    row: Any = make_row(Acceptance, values)
    detail = decode_object(row.detail, f"The detail of the acceptance of the skill {row.slug!r}")
    return replace(row, hides=tuple(row.hides.split()), sends_out=bool(row.sends_out), detail=detail)


def revoke_acceptances(connection: sa.Connection, ids: Sequence[str], by: str) -> int:
    """Revoke acceptances by id; return how many were not revoked before."""
    count = 0
    for chunk in split_chunks(list(ids)):
        change = sql.REVOKE.where(sql.skill_acceptances.c.id.in_(chunk))
        count += connection.execute(change.values(revoked_at=now(), revoked_by=by)).rowcount
    return count


def insert_folder(connection: sa.Connection, rule: TrustedFolder) -> TrustedFolder:
    """Store a standing rule, or return the existing equal one."""
    owner = Owner(organization_id=rule.organization_id, user_id=rule.user_id)
    same = next((known for known in list_folders(connection, owner) if known.folder == rule.folder), None)
    if same is not None:
        return same
    stored = replace(rule, id=str(uuid.uuid4()), created_at=now())
    sql.INSERT_FOLDER.run(connection, [row_values(stored)])
    return stored


def list_folders(connection: sa.Connection, owner: Owner) -> list[TrustedFolder]:
    """Return the standing rules that count for an owner, by folder."""
    rows = sql.LIST_FOLDERS.rows(connection, owner.key)
    return [make_row(TrustedFolder, row) for row in rows]


def revoke_folders(connection: sa.Connection, ids: Sequence[str], by: str) -> int:
    """Revoke standing rules by id; return how many were not revoked before."""
    change = sql.REVOKE_FOLDERS.where(sql.trusted_folders.c.id.in_(list(ids)))
    return connection.execute(change.values(revoked_at=now(), revoked_by=by)).rowcount
