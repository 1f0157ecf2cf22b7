"""Read, in one query, whether the skills in reach of a user may have changed, in this process or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prowess.storage.owner import Owner
from prowess.storage.rows import LazyStatements
from prowess.storage.tenant import Tenant

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import ledger as sql
else:
    sql = LazyStatements("ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogState:
    """The state of an organization's skills in a database, and whether a user has skills that nobody else sees.

    Skills of the database have not changed as long as the `mark` is the same: anyone who writes one adds a row to the audit
    before the write is acknowledged. The same is true of settings and of what was accepted.
    """

    mark: str
    private: bool


def read_catalog_state(connection: sa.Connection, owner: Owner) -> CatalogState:
    """Return the state for a user of an organization."""
    tenant = Tenant(organization_id=owner.organization_id, user_id=owner.user_id, scope="user")
    [(mark, private)] = sql.CATALOG_STATE.rows(connection, tenant.key)
    return CatalogState(mark=mark or "", private=bool(private))
