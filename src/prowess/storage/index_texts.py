"""Read the texts of many skills in portions, for the search index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from prowess.storage.blobs import split_chunks
from prowess.storage.owner import Tenant
from prowess.storage.rows import LazyStatements, decode_json

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import skills as sql
else:
    sql = LazyStatements("skills")

PORTION = 500

Texts = tuple[
    str, str, str, str, str, tuple[str, ...], tuple[str, ...], tuple[str, ...], str, tuple[str, ...], int, str
]
"""Slug, title, description, version, digest, tags, trigger phrases, intent patterns, when to use, keywords, content length and body."""


def next_texts(connection: sa.Connection, tenant: Tenant, after: str) -> list[tuple[Any, ...]]:
    """Return the next rows by slug after a slug; '' starts. Fewer than `PORTION` rows mean the end."""
    return sql.NEXT_TEXTS.rows(connection, {**tenant.key, "after": after})


def texts_of(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the rows of those of these slugs that exist."""
    found: list[tuple[Any, ...]] = []
    for chunk in split_chunks(sorted(slugs)):
        found += sql.TEXTS_OF.rows(connection, {**tenant.key, "of": chunk})
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
