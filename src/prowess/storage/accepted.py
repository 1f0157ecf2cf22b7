"""Read an owner's acceptances and the skills that an organization switched off from a SQLite file, without SQLAlchemy.

Listing skills needs nothing else of the database, as long as the skills in it are those of the last listing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple, cast

from prowess.skill.json_values import json_value
from prowess.storage.database_url import connect_existing
from prowess.storage.owner import Owner

_ACCEPTED = """
SELECT slug, digest, hides, sends_out FROM skill_acceptances
WHERE organization_id = ? AND user_id IN ('', ?) AND revoked_at IS NULL
"""
_FOLDERS = """
SELECT folder FROM trusted_folders WHERE organization_id = ? AND user_id IN ('', ?) AND revoked_at IS NULL
"""
_STORED = """
SELECT scope, slug FROM skills
WHERE COALESCE(organization_id, '') = ? AND COALESCE(user_id, '') IN ('', ?) AND scope IN ('user', 'org', 'account')
"""
_DISABLED = "SELECT value FROM org_settings WHERE organization_id = ? AND name = 'disabled_skills'"
# By the index alone: in the table, the seal comes after the whole text of the skill. One text for each row, because hashing
# several values would take longer than reading them.
_SEALS = "SELECT scope || ' ' || slug || ' ' || reader || ' ' || seal FROM skills INDEXED BY ix_skills_tenant_seal"
# Another program may change a row and leave its seal. The skill is then read again, from the files of this digest.
_DIGESTS = """
SELECT id || ' ' || coalesce(organization_id, '') || ' ' || coalesce(user_id, '') || ' ' || digest FROM skills NOT INDEXED
"""
_SECONDS = 5.0
_FEW_SLUGS = 500


class AcceptedFacts(NamedTuple):
    """The acceptance of one skill: the scopes in which it may hide a trusted one, and whether it may send data out."""

    hides: frozenset[str]
    sends_out: bool


Accepted = dict[tuple[str, str], AcceptedFacts]
"""The accepted skills, by slug and digest."""


def add_accepted(found: Accepted, rows: Iterable[Sequence[Any]]) -> None:
    """Add rows of slug, digest, hidden scopes and sending out."""
    for slug, digest, hides, sends_out in rows:
        before = found.get((slug, digest))
        facts = AcceptedFacts(frozenset(hides.split()), bool(sends_out))
        # The same bytes may have been accepted several times, each time with something else in view.
        if before is not None:
            facts = AcceptedFacts(before.hides | facts.hides, before.sends_out or facts.sends_out)
        found[slug, digest] = facts


def accepted_query(owner: Owner, slugs: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the query for an owner's acceptances of these skills, and its parameters. Its rows are for `add_accepted`."""
    # More slugs than a statement can take, or so many that reading everything takes less time.
    some = f" AND slug IN ({', '.join('?' * len(slugs))})" if len(slugs) <= _FEW_SLUGS else ""
    return _ACCEPTED + some, (owner.organization_id, owner.user_id, *(slugs if some else ()))


def folders_query(owner: Owner) -> tuple[str, tuple[str, ...]]:
    """Return the query for the folders that an owner trusts, and its parameters."""
    return _FOLDERS, (owner.organization_id, owner.user_id)


def query_file(path: str, *queries: tuple[str, Sequence[str]]) -> list[list[tuple[Any, ...]]] | None:
    """Return the rows of each query, with its parameters, on a SQLite file; None if the file cannot be read this way.

    That is a file of an older Prowess, which lacks a table, or one that is in use in a way that needs writing.
    """
    import sqlite3  # only where something is listed

    try:
        with closing(connect_existing(path, timeout=_SECONDS)) as connection:
            return [connection.execute(query, parameters).fetchall() for query, parameters in queries]
    except sqlite3.Error:
        return None


def read_sqlite_file(path: str, owner: Owner, slugs: Sequence[str]) -> tuple[Accepted, list[str]] | None:
    """Return an owner's acceptances of these skills, and the trusted folders; None if `query_file` cannot read them."""
    read = query_file(path, accepted_query(owner, slugs), folders_query(owner))
    if read is None:
        return None
    rows, folders = read
    accepted = Accepted()
    add_accepted(accepted, rows)
    return accepted, [folder for (folder,) in folders]


def read_stored(path: str, owner: Owner, slugs: Sequence[str]) -> set[tuple[str, str]] | None:
    """Return scope and slug of those of these skills that the database itself holds; None if `query_file` cannot read them."""
    query = f"{_STORED} AND slug IN ({', '.join('?' * len(slugs))})"
    read = query_file(path, (query, (owner.organization_id, owner.user_id, *slugs)))
    return None if read is None else {(scope, slug) for scope, slug in read[0]}


def read_skills_mark(path: str) -> str:
    """Return a value that is the same as long as the skills in a file are; '' if `query_file` cannot read them.

    Every use of a skill writes to the file. Only a change of a skill changes its seal, which covers everything that a listing
    or the search index shows of it. Not for a database in a workspace, which may come from anyone.
    """
    read = query_file(path, (_SEALS, ()), (_DIGESTS, ()))
    if read is None:
        return ""
    mark = hashlib.sha256()
    for rows in read:
        mark.update("\n".join(str(row) for (row,) in rows).encode("utf-8", "surrogatepass") + b"\0")
    return mark.hexdigest()


def read_disabled(path: str, organization: str) -> list[str] | None:
    """Return the slugs that are switched off for an organization; None if `query_file` cannot read them."""
    read = query_file(path, (_DISABLED, (organization,)))
    if read is None:
        return None
    [rows] = read
    return parse_disabled(rows[0][0] if rows else "[]")


def parse_disabled(text: object) -> list[str] | None:
    """Return the slugs in a stored setting; None if it is damaged."""
    slugs = json_value(text) if isinstance(text, str | bytes) else None
    if not isinstance(slugs, list):
        return None
    found = [slug for slug in cast("list[object]", slugs) if isinstance(slug, str)]
    return found if len(found) == len(cast("list[object]", slugs)) else None
