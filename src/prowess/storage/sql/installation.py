"""The statements of `storage.schema_check`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, CompiledWrite
from prowess.storage.skills import ORIGIN
from prowess.storage.tables import installation, skill_versions, skills

MARKS = CompiledSelect(sa.select(installation.c.id, installation.c.seal))
INSERT = CompiledWrite(sa.insert(installation), values=installation.c.keys())

_NOWHERE = dict.fromkeys(ORIGIN) | {"source": "user", "source_type": "manual"}
FORGET_ORIGINS = sa.update(skills).values(_NOWHERE)
FORGET_AGENTS = sa.update(skill_versions).where(skill_versions.c.actor.startswith("agent:")).values(actor="")
