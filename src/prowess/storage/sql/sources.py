"""The statements of `storage.sources`."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, raw_json
from prowess.storage.source_tables import skill_source_items, skill_sources
from prowess.storage.sources import SOURCE_DOCUMENTS
from prowess.storage.tables import dialect_insert

_sources = skill_sources.c
_items = skill_source_items.c
_VISIBLE = sa.and_(
    _sources.organization_id == sa.bindparam("owner_organization"),
    sa.or_(_sources.user_id == sa.literal_column("''"), _sources.user_id == sa.bindparam("owner_user")),
)
_ONE = sa.and_(_VISIBLE, _sources.id == sa.bindparam("which"))
_OF_SOURCE = sa.and_(
    _items.source_id == sa.bindparam("of_source"), _items.organization_id == sa.bindparam("of_organization")
)
_FREE = sa.or_(_sources.lease_until.is_(None), _sources.lease_until <= sa.bindparam("moment"))
_HELD = _sources.lease_owner == sa.bindparam("holder")

INSERT = sa.insert(skill_sources)
ONE = sa.select(skill_sources).where(_ONE)
LIST = CompiledSelect(
    sa.select(*(raw_json(column) if column.name in SOURCE_DOCUMENTS else column for column in _sources))
    .where(_VISIBLE)
    .order_by(_sources.name, _sources.id)
)
AUTOMATIC = (
    sa.select(skill_sources)
    .where(_sources.enabled)
    .order_by(_sources.last_sync_at.is_not(None), _sources.last_sync_at, _sources.id)
)
UPDATE = sa.update(skill_sources).where(_ONE)
UPDATE_FREE = UPDATE.where(_FREE)
UPDATE_HELD = UPDATE.where(_HELD)
DELETE = sa.delete(skill_sources).where(_ONE)
ITEMS = (
    sa.select(_items.slug, _items.path, _items.digest, _items.revision, _items.updated_at)
    .where(_OF_SOURCE)
    .order_by(_items.slug)
)
put_items = dialect_insert(
    skill_source_items,
    lambda insert: insert.on_conflict_do_update(
        index_elements=("source_id", "slug"),
        set_={name: insert.excluded[name] for name in ("path", "digest", "revision", "updated_at")},
    ),
)
DELETE_ITEMS = sa.delete(skill_source_items).where(_OF_SOURCE)


def delete_items(slugs: Sequence[str]) -> sa.Delete:
    """Return a delete of these items of a source."""
    return DELETE_ITEMS.where(_items.slug.in_(slugs))
