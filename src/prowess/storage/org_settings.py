"""Store the settings of an organization: any JSON value by name. '' is the organization of an embedded Prowess."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from prowess.storage.clock import now
from prowess.storage.policy_tables import org_settings
from prowess.storage.rows import CompiledSelect, decode_json, raw_json
from prowess.storage.tables import dialect_insert

DISABLED_SKILLS = "disabled_skills"
"""The setting with the slugs that are switched off. The column `skills.enabled` repeats it for people who query."""

_CHANGED = ("value", "updated_at", "updated_by")
_KEY = ("organization_id", "name")
_NAMED = sa.and_(org_settings.c.organization_id == sa.bindparam("of"), org_settings.c.name == sa.bindparam("which"))
_GET = CompiledSelect(
    sa.select(org_settings.c.name, raw_json(org_settings.c.value))
    .where(org_settings.c.organization_id == sa.bindparam("of"))
    .order_by(org_settings.c.name)
)
_DELETE = sa.delete(org_settings).where(_NAMED)
_put = dialect_insert(
    org_settings,
    lambda insert: insert.on_conflict_do_update(
        index_elements=_KEY, set_={name: insert.excluded[name] for name in _CHANGED}
    ),
)


def hold(connection: sa.Connection, organization_id: str, name: str) -> None:
    """Lock a setting until the transaction ends, for a change that depends on the current value.

    SQLite has one writer at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        key = f"setting\n{organization_id}\n{name}"
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(key, 0))))


def get_settings(connection: sa.Connection, organization_id: str) -> dict[str, Any]:
    """Return the settings of the organization."""
    rows = _GET.rows(connection, {"of": organization_id})
    # psycopg has decoded them, bare strings too. SQLite returns text, and bare numbers as numbers.
    is_decoded = connection.dialect.name == "postgresql"
    return {name: value if is_decoded else decode_json(value) for name, value in rows}


def list_settings(connection: sa.Connection, organization_id: str) -> dict[str, tuple[Any, str, str]]:
    """Return each setting of the organization with its value, when it was changed, and by whom."""
    rows = connection.execute(sa.select(org_settings).where(org_settings.c.organization_id == organization_id))
    return {row.name: (row.value, row.updated_at, row.updated_by) for row in rows}


def set_setting(connection: sa.Connection, organization_id: str, name: str, value: Any, by: str) -> None:
    """Set a value; of two concurrent writers the later wins."""
    row = {"organization_id": organization_id, "name": name, "value": value, "updated_at": now(), "updated_by": by}
    connection.execute(_put(connection), row)


def unset_setting(connection: sa.Connection, organization_id: str, name: str) -> bool:
    """Remove a value; return False if there was none."""
    return connection.execute(_DELETE, {"of": organization_id, "which": name}).rowcount == 1
