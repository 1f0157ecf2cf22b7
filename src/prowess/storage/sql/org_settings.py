"""The statements of `storage.org_settings`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.policy_tables import org_settings
from prowess.storage.rows import CompiledSelect, raw_json
from prowess.storage.tables import dialect_insert

CHANGED = ("value", "updated_at", "updated_by")
KEY = ("organization_id", "name")
NAMED = sa.and_(org_settings.c.organization_id == sa.bindparam("of"), org_settings.c.name == sa.bindparam("which"))
GET = CompiledSelect(
    sa.select(org_settings.c.name, raw_json(org_settings.c.value))
    .where(org_settings.c.organization_id == sa.bindparam("of"))
    .order_by(org_settings.c.name)
)
DELETE = sa.delete(org_settings).where(NAMED)
put = dialect_insert(
    org_settings,
    lambda insert: insert.on_conflict_do_update(
        index_elements=KEY, set_={name: insert.excluded[name] for name in CHANGED}
    ),
)
LIST = sa.select(org_settings).where(org_settings.c.organization_id == sa.bindparam("of"))
