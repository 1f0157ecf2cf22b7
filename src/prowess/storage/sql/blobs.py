"""The statements of `storage.blobs`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, CompiledWrite
from prowess.storage.tables import dialect_insert, insert_or_update, skill_blobs

INSERT = CompiledWrite(
    dialect_insert(skill_blobs, lambda insert: insert.on_conflict_do_nothing()), values=skill_blobs.c.keys()
)
REPLACE = CompiledWrite(insert_or_update(skill_blobs, "size", "content"), values=skill_blobs.c.keys())
CONTENT = sa.select(skill_blobs.c.sha256, skill_blobs.c.content)
SELECT = CompiledSelect(CONTENT.where(skill_blobs.c.sha256.in_(sa.bindparam("wanted", expanding=True))))
SELECT_ONE = CompiledSelect(CONTENT.where(skill_blobs.c.sha256 == sa.bindparam("wanted")))
