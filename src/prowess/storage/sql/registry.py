"""The table and statements of `storage.registry`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.registry import REGISTRY_COLUMNS
from prowess.storage.rows import CompiledSelect, CompiledWrite
from prowess.storage.tables import dialect_insert, metadata, texts

registry_entries = sa.Table(
    "registry_entries",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),  # "prompt" or "rubric"
    sa.Column("entry_id", sa.Text, primary_key=True),
    sa.Column("version", sa.Text, primary_key=True),
    *texts("created_at", "created_by"),
    sa.Column("content", sa.Text, nullable=False),  # the entry as JSON
    sa.Column("digest", sa.Text, nullable=False, server_default=sa.text("''")),  # of the key and the content
)

_T = registry_entries.c
_OF = sa.and_(_T.organization_id == sa.bindparam("of"), _T.kind == sa.bindparam("which"))
_ID = _T.entry_id == sa.bindparam("named")
_VERSION = _T.version == sa.bindparam("at")
_READ = sa.select(*(_T[name] for name in REGISTRY_COLUMNS)).where(_OF).order_by(_T.entry_id, _T.version)
_ONE = ("of", "which", "named", "at")
ALL = CompiledSelect(_READ)
ALL_OF_ID = CompiledSelect(_READ.where(_ID))
ONE = CompiledSelect(_READ.where(_ID, _VERSION))
DELETE = CompiledWrite(sa.delete(registry_entries).where(_OF, _ID, _VERSION), values=_ONE)
INSERT = CompiledWrite(
    dialect_insert(registry_entries, lambda insert: insert.on_conflict_do_nothing()), values=REGISTRY_COLUMNS
)
