"""The statement of `storage.catalog_state`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect
from prowess.storage.sql.ledger import audit
from prowess.storage.tables import skills
from prowess.storage.tenant import tenant_condition

_LAST_AUDIT = (
    sa.select(audit.c.hash)
    .where(audit.c.organization_id == sa.bindparam("tenant_organization"))
    .order_by(audit.c.number.desc())
    .limit(1)
)
STATE = CompiledSelect(sa.select(_LAST_AUDIT.scalar_subquery(), sa.exists().where(tenant_condition(skills))))
