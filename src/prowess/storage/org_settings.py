"""Store the settings of an organization: any JSON value by name. '' is the organization of an embedded Prowess."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prowess.storage.clock import now
from prowess.storage.rows import LazyStatements, decode_json, lock_name

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import org_settings as sql
else:
    sql = LazyStatements("org_settings")

DISABLED_SKILLS = "disabled_skills"
"""The setting with the slugs that are switched off. The column `skills.enabled` repeats it for people who query."""


def hold(connection: sa.Connection, organization_id: str, name: str) -> None:
    """Lock a setting until the transaction ends, for a change that depends on the current value."""
    lock_name(connection, "setting", organization_id, name)


def get_settings(connection: sa.Connection, organization_id: str) -> dict[str, Any]:
    """Return the settings of the organization."""
    rows = sql.GET.rows(connection, {"of": organization_id})
    # psycopg has decoded them, bare strings too. SQLite returns text, and bare numbers as numbers.
    is_decoded = connection.dialect.name == "postgresql"
    return {name: value if is_decoded else decode_json(value) for name, value in rows}


def list_settings(connection: sa.Connection, organization_id: str) -> dict[str, tuple[Any, str, str]]:
    """Return each setting of the organization with its value, when it was changed, and by whom."""
    rows = connection.execute(sql.LIST, {"of": organization_id})
    return {row.name: (row.value, row.updated_at, row.updated_by) for row in rows}


def set_setting(connection: sa.Connection, organization_id: str, name: str, value: Any, by: str) -> None:
    """Set a value; of two concurrent writers the later wins."""
    row = {"organization_id": organization_id, "name": name, "value": value, "updated_at": now(), "updated_by": by}
    connection.execute(sql.put(connection), row)


def unset_setting(connection: sa.Connection, organization_id: str, name: str) -> bool:
    """Remove a value; return False if there was none."""
    return connection.execute(sql.DELETE, {"of": organization_id, "which": name}).rowcount == 1
