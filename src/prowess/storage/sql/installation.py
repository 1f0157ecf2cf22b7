"""The statements of `storage.schema_check`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, CompiledWrite
from prowess.storage.tables import installation

MARKS = CompiledSelect(sa.select(installation.c.id, installation.c.seal))
INSERT = CompiledWrite(sa.insert(installation), values=installation.c.keys())
