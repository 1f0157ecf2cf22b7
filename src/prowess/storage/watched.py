"""Read which skills have an approved optimization whose live runs are watched, without SQLAlchemy: each run asks this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.storage.rows import fetch

if TYPE_CHECKING:
    import sqlalchemy as sa

_WATCHED = "SELECT DISTINCT organization_id, skill_slug FROM optimizer_proposals WHERE state = 'watching'"


def list_watched_skills(connection: sa.Connection) -> frozenset[tuple[str, str]]:
    """Return organization and slug of these skills, in all organizations."""
    return frozenset((organization, slug) for organization, slug in fetch(connection, _WATCHED))
