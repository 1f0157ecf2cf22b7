"""The tables and statements of `storage.sources`."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, raw_columns
from prowess.storage.sources import Source
from prowess.storage.tables import insert_or_update, make_table, metadata, texts

skill_sources = make_table("skill_sources", Source, sequence=sa.BigInteger)
skill_source_items = sa.Table(
    "skill_source_items",
    metadata,
    sa.Column(
        "source_id",
        sa.Text,
        sa.ForeignKey("skill_sources.id", ondelete="CASCADE", name="fk_skill_source_items_source_id"),
        primary_key=True,
    ),
    sa.Column("slug", sa.Text, primary_key=True),
    *texts("organization_id", "path"),
    sa.Column("digest", sa.Text, nullable=False),  # as the source delivered it; the skill may have been edited since
    *texts("revision", "updated_at"),
)

sa.Index("ix_skill_sources_owner", skill_sources.c.organization_id, skill_sources.c.user_id)

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
_FREE = sa.or_(
    _sources.lease_until.is_(None),
    _sources.lease_until <= sa.bindparam("moment"),
    _sources.lease_until > sa.bindparam("latest"),
)
_HELD = _sources.lease_owner == sa.bindparam("holder")

INSERT = sa.insert(skill_sources)
ONE = sa.select(skill_sources).where(_ONE)
LIST = CompiledSelect(sa.select(*raw_columns(_sources)).where(_VISIBLE).order_by(_sources.name, _sources.id))
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
put_items = insert_or_update(skill_source_items, "path", "digest", "revision", "updated_at")
DELETE_ITEMS = sa.delete(skill_source_items).where(_OF_SOURCE)


def delete_items(slugs: Sequence[str]) -> sa.Delete:
    """Return a delete of these items of a source."""
    return DELETE_ITEMS.where(_items.slug.in_(slugs))
