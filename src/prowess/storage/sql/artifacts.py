"""The statements of `storage.artifacts`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, CompiledWrite
from prowess.storage.tables import skill_artifacts
from prowess.storage.tenant import Tenant, tenant_condition

_OURS = tenant_condition(skill_artifacts)
_OF_SKILL = skill_artifacts.c.skill_id == sa.bindparam("of")
_MADE = sa.select(skill_artifacts.c.id, skill_artifacts.c.created_at).where(_OURS)

OWNER = CompiledSelect(
    sa.select(skill_artifacts.c.skill_id).where(_OURS, skill_artifacts.c.id == sa.bindparam("which"))
)
MADE = CompiledSelect(_MADE.where(skill_artifacts.c.skill_id.in_(sa.bindparam("of", expanding=True))))
MADE_OF = CompiledSelect(_MADE.where(_OF_SKILL))
DELETE = CompiledWrite(sa.delete(skill_artifacts).where(_OURS, _OF_SKILL), values=(*Tenant(scope="account").key, "of"))
INSERT = CompiledWrite(sa.insert(skill_artifacts), values=skill_artifacts.c.keys())
