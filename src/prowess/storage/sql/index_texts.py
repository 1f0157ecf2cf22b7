"""The statements of `storage.index_texts`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.index_texts import PORTION
from prowess.storage.rows import CompiledSelect, raw_json
from prowess.storage.tables import skill_artifacts, skills
from prowess.storage.tenant import tenant_condition

# A literal, because SQLAlchemy adds an OFFSET parameter on SQLite that `CompiledSelect` would not bind.
_NONE = sa.literal_column("0", sa.Integer)
# The first instructions artifact, as in `Skill.body`.
_BODY = (
    sa.select(skill_artifacts.c.content)
    .where(skill_artifacts.c.skill_id == skills.c.id, skill_artifacts.c.kind == sa.literal_column("'instructions'"))
    .order_by(skill_artifacts.c.position)
    .limit(sa.literal_column("1"))
    .offset(_NONE)
    .scalar_subquery()
)
_TEXTS = sa.select(
    skills.c.slug,
    skills.c.name,
    skills.c.description,
    skills.c.version,
    skills.c.digest,
    raw_json(skills.c.tags),
    raw_json(skills.c.trigger_phrases),
    raw_json(skills.c.intent_patterns),
    raw_json(skills.c.details),
    skills.c.content_length,
    _BODY.label("body"),
).where(tenant_condition(skills))
NEXT = CompiledSelect(
    _TEXTS.where(skills.c.slug > sa.bindparam("after"))
    .order_by(skills.c.slug)
    .limit(sa.literal_column(str(PORTION)))
    .offset(_NONE)
)
OF = CompiledSelect(_TEXTS.where(skills.c.slug.in_(sa.bindparam("of", expanding=True))))
