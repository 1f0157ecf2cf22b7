"""The statements of `storage.versions`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.owner import tenant_condition
from prowess.storage.rows import CompiledSelect, CompiledWrite, raw_json
from prowess.storage.tables import skill_versions
from prowess.storage.versions import VERSION_COLUMNS

_OURS = sa.and_(tenant_condition(skill_versions), skill_versions.c.place == sa.bindparam("tenant_place"))
LAST_NUMBER = CompiledSelect(sa.select(sa.func.max(skill_versions.c.feed)).where(_OURS))
NEWEST = CompiledSelect(
    sa.select(skill_versions.c.feed, skill_versions.c.id)
    .where(_OURS)
    .order_by(skill_versions.c.feed.desc(), skill_versions.c.id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
NUMBER_OF = CompiledSelect(sa.select(skill_versions.c.feed).where(_OURS, skill_versions.c.id == sa.bindparam("which")))
CHANGED_SINCE = CompiledSelect(
    sa.select(skill_versions.c.slug, skill_versions.c.feed)
    .where(_OURS, skill_versions.c.feed >= sa.bindparam("least"))
    .distinct()
)
# Through text, because PostgreSQL has no cast from xid8 to bigint.
TRANSACTION = sa.text("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)")
# The object ids of database and table change when either is created again, for instance by a restore.
SNAPSHOT = sa.text(
    "SELECT CAST(pg_current_snapshot() AS text), oid || '.' || CAST(to_regclass('skill_versions') AS oid)"
    " FROM pg_database WHERE datname = current_database()"
)

_OF_SLUG = skill_versions.c.slug == sa.bindparam("of")
_BARE = sa.select(*(skill_versions.c[name] for name in VERSION_COLUMNS)).where(_OURS, _OF_SLUG)
LOG = CompiledSelect(_BARE.add_columns(raw_json(skill_versions.c.manifest)).order_by(skill_versions.c.number))
_WITH_ID = sa.select(*(skill_versions.c[name] for name in ("id", *VERSION_COLUMNS))).where(_OURS, _OF_SLUG)
FIRST = CompiledSelect(_WITH_ID.order_by(skill_versions.c.number).limit(1))
NEWEST_OF = CompiledSelect(_WITH_ID.order_by(skill_versions.c.number.desc()).limit(1))
FILES = CompiledSelect(
    sa.select(skill_versions.c.package, skill_versions.c.digest, raw_json(skill_versions.c.manifest)).where(
        _OURS, _OF_SLUG, skill_versions.c.number == sa.bindparam("which")
    )
)
LAST = CompiledSelect(
    sa.select(skill_versions.c.slug, sa.func.max(skill_versions.c.number))
    .where(_OURS, skill_versions.c.slug.in_(sa.bindparam("of", expanding=True)))
    .group_by(skill_versions.c.slug)
)
LAST_OF = CompiledSelect(sa.select(sa.func.max(skill_versions.c.number)).where(_OURS, _OF_SLUG))
INSERT = CompiledWrite(sa.insert(skill_versions), values=skill_versions.c.keys())
