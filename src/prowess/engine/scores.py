"""Read the scores that evaluations gave to skills. Each is valid for exactly the bytes that were measured."""

from __future__ import annotations

from collections.abc import Iterable

from prowess.engine.context import Context
from prowess.errors import Invalid, Refused, Unavailable
from prowess.storage.database_url import sqlite_path
from prowess.storage.scores import SkillScore, read_file_scores


def read_scores(context: Context) -> dict[tuple[str, str], SkillScore]:
    """Return the scores of the organization's skills by slug and digest; none if the database cannot be read. Blocking.

    A database that does not answer hides no skill: `Skills.look` reports it together with the skills of the folders.
    """
    try:
        found = _read(context)
    except (Invalid, Refused, Unavailable):
        return {}
    return {(score.skill_slug, score.skill_digest): score for score in found}


def _read(context: Context) -> Iterable[SkillScore]:
    resources = context.resources
    if not resources.has_records():
        return ()
    if path := sqlite_path(resources.records_url):
        return read_file_scores(path, context.actor.organization) or ()
    from prowess.storage.evals import read_scores as read

    with resources.records().read() as connection:
        return read(connection, context.actor.organization)
