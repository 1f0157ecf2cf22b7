"""Store the connectors of organizations, and which connectors and tools people have allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from prowess.storage.clock import now
from prowess.storage.owner import Owner
from prowess.storage.rows import CompiledSelect, row_values
from prowess.storage.tables import insert_row, make_table, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRow:
    """A connector of an organization. `config` names secrets and never holds one."""

    organization_id: str
    name: str
    config: dict[str, Any]
    created_by: str
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorGrant:
    """A person's permission to open a connector, or to call one of its tools as it is defined now.

    `user_id` is '' if it holds for everyone in the organization, and `tool` is '' for the connector itself.
    """

    organization_id: str
    user_id: str
    connector: str
    config_digest: str
    tool: str = ""
    tool_digest: str = ""
    granted_by: str
    created_at: str = field(default_factory=now)


connectors = make_table("connectors", ConnectorRow, key=("organization_id", "name"))
connector_grants = make_table(
    "connector_grants", ConnectorGrant, key=("organization_id", "user_id", "connector", "config_digest", "tool")
)
_C, _G = connectors.c, connector_grants.c
_NAMES = CompiledSelect(sa.select(_C.name).where(_C.organization_id == sa.bindparam("of")))


def list_connectors(connection: sa.Connection, organization_id: str) -> list[ConnectorRow]:
    """Return the connectors of an organization, by name."""
    query = sa.select(connectors).where(_C.organization_id == organization_id).order_by(_C.name)
    return read_rows(connection, query, ConnectorRow)


def has_connectors(connection: sa.Connection, organization_id: str) -> bool:
    """Return True if an organization has a connector."""
    return _NAMES.first(connection, {"of": organization_id}) is not None


def put_connector(connection: sa.Connection, row: ConnectorRow) -> bool:
    """Store a connector, replacing the one with its name; return False if it replaced one."""
    this = (_C.organization_id == row.organization_id, _C.name == row.name)
    changed = sa.update(connectors).where(*this).values(config=row.config, updated_at=row.updated_at)
    if connection.execute(changed).rowcount:
        return False
    insert_row(connection, connectors, row)
    return True


def remove_connector(connection: sa.Connection, organization_id: str, name: str) -> bool:
    """Remove a connector; return False if there is none of this name."""
    gone = sa.delete(connectors).where(_C.organization_id == organization_id, _C.name == name)
    return connection.execute(gone).rowcount == 1


def list_grants(connection: sa.Connection, owner: Owner) -> list[ConnectorGrant]:
    """Return what is allowed for this owner, by connector and tool: by the owner, or for everyone in the organization."""
    query = sa.select(connector_grants).where(
        _G.organization_id == owner.organization_id, _G.user_id.in_(("", owner.user_id))
    )
    return read_rows(connection, query.order_by(_G.connector, _G.tool, _G.user_id), ConnectorGrant)


def put_grants(connection: sa.Connection, grants: Sequence[ConnectorGrant]) -> None:
    """Store permissions, each replacing an earlier one for the same tool."""
    for grant in grants:
        values = row_values(grant)
        keys = [column for column in _G if column.primary_key]
        connection.execute(sa.delete(connector_grants).where(*(key == values[key.name] for key in keys)))
        connection.execute(sa.insert(connector_grants), values)


def remove_grants(connection: sa.Connection, owner: Owner, connector: str, tools: Sequence[str] = ()) -> int:
    """Remove the owner's permissions for a connector, or only those for some of its tools; return how many there were."""
    query = sa.delete(connector_grants).where(
        _G.organization_id == owner.organization_id, _G.user_id == owner.user_id, _G.connector == connector
    )
    return connection.execute(query.where(_G.tool.in_(tools)) if tools else query).rowcount


def remove_all_grants(connection: sa.Connection, organization_id: str, connector: str) -> None:
    """Remove everyone's permissions for a connector."""
    connection.execute(
        sa.delete(connector_grants).where(_G.organization_id == organization_id, _G.connector == connector)
    )
