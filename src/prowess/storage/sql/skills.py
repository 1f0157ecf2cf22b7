"""The statements of `storage.skills`, `storage.artifacts` and `storage.index_texts`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from prowess.storage.index_texts import PORTION
from prowess.storage.owner import Tenant, tenant_condition
from prowess.storage.rows import CompiledSelect, CompiledWrite, raw_json
from prowess.storage.skills import KEY_TEXTS, ORIGIN
from prowess.storage.tables import or_empty, skill_artifacts, skills

_OURS = tenant_condition(skills)
_SELECT_KEY = sa.select(*(skills.c[name] for name in (*KEY_TEXTS, *ORIGIN))).where(_OURS)
_OF_ID = skills.c.id == sa.bindparam("which")
_OF_SLUGS = skills.c.slug.in_(sa.bindparam("of", expanding=True))

CARDS = CompiledSelect(
    sa.select(
        skills.c.slug,
        skills.c.name,
        skills.c.description,
        skills.c.version,
        raw_json(skills.c.tags),
        skills.c.source,
        skills.c.digest,
        raw_json(skills.c.kinds),
        skills.c.content_length,
    )
    .where(_OURS)
    .order_by(skills.c.slug)
)
_SLUGS = sa.select(skills.c.slug).where(_OURS)
SLUGS = CompiledSelect(_SLUGS)
ANY_SLUG = CompiledSelect(_SLUGS.limit(1))
DIGESTS = CompiledSelect(sa.select(skills.c.slug, skills.c.digest).where(_OURS))
BY_ID = CompiledSelect(_SELECT_KEY.where(_OF_ID))
BY_SLUG = CompiledSelect(_SELECT_KEY.where(skills.c.slug == sa.bindparam("which")))
_FILES_OF = sa.select(
    skills.c.slug, skills.c.digest, skills.c.form, skills.c.package, raw_json(skills.c.manifest)
).where(_OURS, _OF_ID)
FILES = CompiledSelect(_FILES_OF)
FILES_LOCKED = CompiledSelect(_FILES_OF.with_for_update())
# Two ranges of the index instead of `!=` or `OR`, for which SQLite walks through all rows: no row is read when all are
# current, however many there are.
_READERS = sa.select(skills.c.slug, skills.c.reader).where(_OURS)
OTHER_READER = CompiledSelect(
    sa.union_all(
        _READERS.where(skills.c.reader < sa.bindparam("reader")),
        _READERS.where(skills.c.reader > sa.bindparam("reader")),
    )
)
# Answered by the index alone, see `tables.skills`.
_MARKS = sa.select(skills.c.slug, skills.c.reader, skills.c.seal, skills.c.people_only).where(_OURS)
MARKS = CompiledSelect(_MARKS)
MARKS_OF = CompiledSelect(_MARKS.where(_OF_SLUGS))
_STATE = _SELECT_KEY.add_columns(skills.c.reader, skills.c.seal)
STATE_LOCKED = CompiledSelect(_STATE.where(skills.c.slug == sa.bindparam("of")).with_for_update())
_STORED = _STATE.where(_OF_SLUGS).order_by(skills.c.slug)
STORED = CompiledSelect(_STORED)
# Rows are locked in the order of their slugs, so that two writers of many skills cannot deadlock.
STORED_LOCKED = CompiledSelect(_STORED.with_for_update())
TAKEN = CompiledSelect(sa.select(skills.c.id).where(skills.c.id.in_(sa.bindparam("of", expanding=True))))
_THIS = (*Tenant(scope="account").key, "which")
INSERT = CompiledWrite(sa.insert(skills), values=skills.c.keys())
UPDATE = CompiledWrite(
    sa.update(skills).where(_OURS, _OF_ID),
    values=(*_THIS, *(column.name for column in skills.c if column.name != "enabled")),
)
DELETE = CompiledWrite(sa.delete(skills).where(_OURS, _OF_ID), values=_THIS)

_OF_ORGANIZATION = or_empty(skills.c.organization_id) == sa.bindparam("of")
_IS_OFF = skills.c.slug.in_(sa.bindparam("off", expanding=True))
SWITCH_OFF = sa.update(skills).where(_OF_ORGANIZATION, skills.c.enabled, _IS_OFF).values(enabled=False)
SWITCH_ON = sa.update(skills).where(_OF_ORGANIZATION, ~skills.c.enabled, ~_IS_OFF).values(enabled=True)


def of_kinds(kinds: Collection[str]) -> sa.Select[*tuple[Any, ...]]:
    """Return a select of one skill that has an artifact of one of these kinds."""
    # A search in the text works the same on both databases. With the quotes, a kind is not found inside a longer name.
    written = sa.cast(skills.c.kinds, sa.Text)
    return _SLUGS.where(sa.or_(*(written.contains(f'"{kind}"', autoescape=True) for kind in kinds))).limit(1)


_OUR_ARTIFACTS = tenant_condition(skill_artifacts)
_OF_SKILL = skill_artifacts.c.skill_id == sa.bindparam("of")
_ARTIFACTS_MADE = sa.select(skill_artifacts.c.id, skill_artifacts.c.created_at).where(_OUR_ARTIFACTS)

ARTIFACT_OWNER = CompiledSelect(
    sa.select(skill_artifacts.c.skill_id).where(_OUR_ARTIFACTS, skill_artifacts.c.id == sa.bindparam("which"))
)
ARTIFACTS_MADE = CompiledSelect(
    _ARTIFACTS_MADE.where(skill_artifacts.c.skill_id.in_(sa.bindparam("of", expanding=True)))
)
ARTIFACTS_MADE_OF = CompiledSelect(_ARTIFACTS_MADE.where(_OF_SKILL))
DELETE_ARTIFACTS = CompiledWrite(
    sa.delete(skill_artifacts).where(_OUR_ARTIFACTS, _OF_SKILL), values=(*Tenant(scope="account").key, "of")
)
INSERT_ARTIFACTS = CompiledWrite(sa.insert(skill_artifacts), values=skill_artifacts.c.keys())


# A literal, because SQLAlchemy adds an OFFSET parameter on SQLite that `CompiledSelect` would not bind.
_NO_OFFSET = sa.literal_column("0", sa.Integer)
# The first instructions artifact, as in `Skill.body`.
_BODY = (
    sa.select(skill_artifacts.c.content)
    .where(skill_artifacts.c.skill_id == skills.c.id, skill_artifacts.c.kind == sa.literal_column("'instructions'"))
    .order_by(skill_artifacts.c.position)
    .limit(sa.literal_column("1"))
    .offset(_NO_OFFSET)
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
NEXT_TEXTS = CompiledSelect(
    _TEXTS.where(skills.c.slug > sa.bindparam("after"))
    .order_by(skills.c.slug)
    .limit(sa.literal_column(str(PORTION)))
    .offset(_NO_OFFSET)
)
TEXTS_OF = CompiledSelect(_TEXTS.where(skills.c.slug.in_(sa.bindparam("of", expanding=True))))
