"""Store the prompts and rubrics of organizations.

A version never changes; new content needs a new version. A digest stored with each entry shows whether the row was changed
outside Prowess.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from prowess.lazy_dataclass import dataclass
from prowess.storage.clock import now
from prowess.storage.rows import LazyStatements

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import registry as sql
else:
    sql = LazyStatements("registry")

REGISTRY_COLUMNS = (
    "organization_id",
    "kind",
    "entry_id",
    "version",
    "content",
    "created_at",
    "created_by",
    "digest",
)
"""The columns that are read, in this order: first what the digest covers."""


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
    key = {"of": organization_id, "which": kind}
    if entry_id is None:
        rows = sql.ALL.rows(connection, key)
    else:
        rows = sql.ALL_OF_ID.rows(connection, {**key, "named": entry_id})
    return [_to_entry(row) for row in rows]


def get_entry(
    connection: sa.Connection, organization_id: str, kind: str, entry_id: str, version: str
) -> RegistryRow | None:
    """Return one version, or None."""
    row = sql.ONE.first(connection, _key(organization_id, kind, entry_id, version))
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
    return sql.INSERT.run(connection, [row]) == 1


def remove_entry(connection: sa.Connection, organization_id: str, kind: str, entry_id: str, version: str) -> bool:
    """Remove a version; return False if there was none."""
    return sql.DELETE.run(connection, [_key(organization_id, kind, entry_id, version)]) == 1


def _key(organization_id: str, kind: str, entry_id: str, version: str) -> dict[str, str]:
    return {"of": organization_id, "which": kind, "named": entry_id, "at": version}


def _digest(*parts: str) -> str:
    return f"sha256:{hashlib.sha256(_SEPARATOR.join(parts).encode('utf-8', 'surrogatepass')).hexdigest()}"


# No part but the last, the content, can contain it.
_SEPARATOR = "\0"


def _to_entry(values: tuple[Any, ...]) -> RegistryRow:
    row = dict(zip(REGISTRY_COLUMNS, values, strict=True))
    return RegistryRow(
        entry_id=row["entry_id"],
        version=row["version"],
        content=row["content"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        intact=row["digest"] == _digest(*map(str, values[:5])),
    )
