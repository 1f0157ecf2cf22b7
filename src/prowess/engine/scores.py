"""Read the scores that evaluations gave to skills. Each is valid for exactly the bytes that were measured."""

from __future__ import annotations

from prowess.engine.context import Context
from prowess.storage.database_url import sqlite_path
from prowess.storage.scores import SkillScore, read_file_scores


def read_scores(context: Context) -> dict[tuple[str, str], SkillScore]:
    """Return the scores of the organization's skills by slug and digest. Blocking."""
    resources = context.resources
    if not resources.has_records():
        return {}
    path = sqlite_path(resources.records_url)
    found = read_file_scores(path, context.actor.organization) if path else None
    if found is None and not path:
        from prowess.storage.evals import read_scores as read

        with resources.records().read() as connection:
            found = read(connection, context.actor.organization)
    return {(one.skill_slug, one.skill_digest): one for one in found or ()}
