"""Read the texts of many skills in portions, for the search index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa

from prowess.storage.blobs import split_chunks
from prowess.storage.rows import CompiledSelect, decode_json, raw_json
from prowess.storage.tables import skill_artifacts, skills
from prowess.storage.tenant import Tenant, tenant_condition

PORTION = 500

Texts = tuple[
    str, str, str, str, str, tuple[str, ...], tuple[str, ...], tuple[str, ...], str, tuple[str, ...], int, str
]
"""Slug, title, description, version, digest, tags, trigger phrases, intent patterns, when to use, keywords, content length and body."""

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
_NEXT = CompiledSelect(
    _TEXTS.where(skills.c.slug > sa.bindparam("after"))
    .order_by(skills.c.slug)
    .limit(sa.literal_column(str(PORTION)))
    .offset(_NONE)
)
_OF = _TEXTS.where(skills.c.slug.in_(sa.bindparam("of", expanding=True)))


def next_texts(connection: sa.Connection, tenant: Tenant, after: str) -> list[tuple[Any, ...]]:
    """Return the next rows by slug after a slug; '' starts. Fewer than `PORTION` rows mean the end."""
    return _NEXT.rows(connection, {**tenant.key, "after": after})


def texts_of(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the rows of those of these slugs that exist."""
    found: list[tuple[Any, ...]] = []
    for chunk in split_chunks(sorted(slugs)):
        found += [tuple(row) for row in connection.execute(_OF, {**tenant.key, "of": chunk})]
    return found


def texts_in(row: tuple[Any, ...]) -> Texts:
    """Return the texts of a row; raise `ValueError`, `TypeError` or `AttributeError` if the row is damaged."""
    slug, title, description, version, digest, tags, phrases, patterns, details, chars, body = row
    more = decode_json(details)
    when, keywords = more.get("when_to_use") or "", more.get("keywords") or ()
    body = "" if body is None else body
    # As in `Skill.searched_description`.
    description = "" if more.get("described") is False else description
    if not all(type(text) is str for text in (slug, title, description, version, digest, when, body)):
        raise TypeError("not text")
    if type(chars) is not int:
        raise TypeError("not a number")
    return (
        slug,
        title,
        description,
        version,
        digest,
        _words(tags),
        _words(phrases),
        _words(patterns),
        when,
        _all_text(keywords),
        chars,
        body,
    )


def _words(value: Any) -> tuple[str, ...]:
    return () if value == "[]" else _all_text(decode_json(value))


def _all_text(words: Any) -> tuple[str, ...]:
    if not isinstance(words, (list, tuple)) or not all(type(word) is str for word in cast("Sequence[object]", words)):
        raise TypeError("not words")
    return tuple(cast("Sequence[str]", words))
