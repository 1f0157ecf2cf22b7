"""The table and statements of `storage.org_settings`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, raw_json
from prowess.storage.tables import ORDERED_JSON, insert_or_update, metadata, texts

org_settings = sa.Table(
    "org_settings",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", ORDERED_JSON, nullable=False),
    *texts("updated_at", "updated_by"),
)

NAMED = sa.and_(org_settings.c.organization_id == sa.bindparam("of"), org_settings.c.name == sa.bindparam("which"))
GET = CompiledSelect(
    sa.select(org_settings.c.name, raw_json(org_settings.c.value))
    .where(org_settings.c.organization_id == sa.bindparam("of"))
    .order_by(org_settings.c.name)
)
DELETE = sa.delete(org_settings).where(NAMED)
put = insert_or_update(org_settings, "value", "updated_at", "updated_by")
LIST = sa.select(org_settings).where(org_settings.c.organization_id == sa.bindparam("of"))
