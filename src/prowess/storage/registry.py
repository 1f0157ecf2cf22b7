"""Store the prompts and rubrics of organizations.

A version never changes; new content needs a new version. A digest stored with each entry shows whether the row was changed
outside Prowess.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

from prowess.lazy_dataclass import dataclass
from prowess.storage.clock import now
from prowess.storage.run_tables import registry_entries
from prowess.storage.tables import dialect_insert

_T = registry_entries.c
_OF = sa.and_(_T.organization_id == sa.bindparam("of"), _T.kind == sa.bindparam("which"))
_ID = _T.entry_id == sa.bindparam("named")
_VERSION = _T.version == sa.bindparam("at")
_ALL = sa.select(registry_entries).where(_OF).order_by(_T.entry_id, _T.version)
_ONE = sa.select(registry_entries).where(_OF, _ID, _VERSION)
_DELETE = sa.delete(registry_entries).where(_OF, _ID, _VERSION)
# RETURNING gives a row only if one was inserted, which tells an insert from a conflict.
_insert = dialect_insert(registry_entries, lambda insert: insert.on_conflict_do_nothing().returning(_T.version))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRow:
    """One version of one prompt or rubric; `content` is JSON. `intact` is False if the row was changed outside Prowess."""

    entry_id: str
    version: str
    content: str
    created_at: str
    created_by: str
    intact: bool


def list_entries(
    connection: sa.Connection, organization_id: str, kind: str, entry_id: str | None = None
) -> list[RegistryRow]:
    """Return the entries of a kind that an organization has, or only those with one id."""
    query, key = _ALL, {"of": organization_id, "which": kind}
    if entry_id is not None:
        query, key = query.where(_ID), {**key, "named": entry_id}
    return [_to_entry(row) for row in connection.execute(query, key)]


def get_entry(
    connection: sa.Connection, organization_id: str, kind: str, entry_id: str, version: str
) -> RegistryRow | None:
    """Return one version, or None."""
    row = connection.execute(_ONE, _key(organization_id, kind, entry_id, version)).first()
    return _to_entry(row) if row is not None else None


def add_entry(
    connection: sa.Connection, organization_id: str, kind: str, entry_id: str, version: str, *, content: str, by: str
) -> bool:
    """Add a version; return False and change nothing if it exists."""
    row = {
        "organization_id": organization_id,
        "kind": kind,
        "entry_id": entry_id,
        "version": version,
        "created_at": now(),
        "created_by": by,
        "content": content,
        "digest": _digest(organization_id, kind, entry_id, version, content),
    }
    return connection.execute(_insert(connection), row).first() is not None


def remove_entry(connection: sa.Connection, organization_id: str, kind: str, entry_id: str, version: str) -> bool:
    """Remove a version; return False if there was none."""
    return connection.execute(_DELETE, _key(organization_id, kind, entry_id, version)).rowcount == 1


def _key(organization_id: str, kind: str, entry_id: str, version: str) -> dict[str, str]:
    return {"of": organization_id, "which": kind, "named": entry_id, "at": version}


def _digest(*parts: str) -> str:
    return f"sha256:{hashlib.sha256(_SEPARATOR.join(parts).encode('utf-8', 'surrogatepass')).hexdigest()}"


# No part but the last, the content, can contain it.
_SEPARATOR = "\0"


def _to_entry(row: sa.Row[tuple[object, ...]]) -> RegistryRow:
    key = (row.organization_id, row.kind, row.entry_id, row.version, row.content)
    return RegistryRow(
        entry_id=row.entry_id,
        version=row.version,
        content=row.content,
        created_at=row.created_at,
        created_by=row.created_by,
        intact=row.digest == _digest(*map(str, key)),
    )
