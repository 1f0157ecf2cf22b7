"""The table and statements of `storage.org_settings`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, raw_json
from prowess.storage.tables import ORDERED_JSON, dialect_insert, metadata, texts

org_settings = sa.Table(
    "org_settings",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", ORDERED_JSON, nullable=False),
    *texts("updated_at", "updated_by"),
)

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
