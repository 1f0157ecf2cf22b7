"""Store skills as rows of `skills` and read them back, one tenant at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from prowess.skill.form_info import FormName
from prowess.skill.kinds import Kind
from prowess.skill.model import Provenance, Skill, SkillCard
from prowess.skill.package import FileEntry, Package
from prowess.skill.reader_version import is_current, reader_version
from prowess.storage.artifacts import ARTIFACT_COLUMNS, to_artifact
from prowess.storage.blobs import dump_manifest, load_manifest, split_chunks
from prowess.storage.rows import (
    CompiledSelect,
    build_model,
    check_reader,
    decode_json,
    field_defaults,
    fill_defaults,
    raw_json,
)
from prowess.storage.tables import skill_artifacts, skills
from prowess.storage.tenant import Tenant, tenant_condition

_PLAIN = {
    "slug": skills.c.slug,
    "title": skills.c.name,
    "description": skills.c.description,
    "version": skills.c.version,
    "author": skills.c.author,
    "form": skills.c.form,
    "digest": skills.c.digest,
    "content_length": skills.c.content_length,
    "id": skills.c.id,
    "created_at": skills.c.created_at,
    "updated_at": skills.c.updated_at,
}
_ORIGIN = ("source", "source_type", "source_url", "source_ref", "source_id", "marketplace_id", "sync_etag")
_WORDS = ("tags", "trigger_phrases", "intent_patterns")
# Every other field of a skill, also ones added later, is stored in one document.
_DETAILS = tuple(
    name
    for name in Skill.model_fields
    if name not in {*_PLAIN, *_WORDS, "provenance", "artifacts", "manifest", "scope", "location"}
)
_DEFAULTS = field_defaults(Skill, _DETAILS)
# Where in a row of `_READ` the origin, the words, the documents with the reader, and the artifact begin.
_A = len(_PLAIN)
_B = _A + len(_ORIGIN)
_C = _B + len(_WORDS)
_D = _C + 3

_CARDS = (
    sa.select(
        skills.c.slug,
        skills.c.name,
        skills.c.description,
        skills.c.version,
        raw_json(skills.c.tags),
        skills.c.source,
        skills.c.digest,
        raw_json(skills.c.kinds),
    )
    .where(tenant_condition(skills))
    .order_by(skills.c.slug)
)
_SLUGS = sa.select(skills.c.slug).where(tenant_condition(skills))


def _on_first_row(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return a wide column of the skill on the row of its first artifact only, so that it is not sent once per artifact."""
    # NULL > 0 is not true, so the row of a skill without artifacts has the column, too.
    return sa.case((skill_artifacts.c.position > sa.literal_column("0"), sa.null()), else_=column)


# One query for the skill and its artifacts: one round trip, and both from one state.
_READ = (
    sa.select(
        *_PLAIN.values(),
        *(skills.c[name] for name in _ORIGIN),
        *(raw_json(skills.c[name]) for name in _WORDS),
        _on_first_row(raw_json(skills.c.manifest)),
        _on_first_row(raw_json(skills.c.details)),
        _on_first_row(skills.c.reader),
        *ARTIFACT_COLUMNS,
    )
    .select_from(skills.outerjoin(skill_artifacts))
    .where(tenant_condition(skills))
)
_BY_ID = CompiledSelect(_READ.where(skills.c.id == sa.bindparam("which")))
_BY_SLUG = CompiledSelect(_READ.where(skills.c.slug == sa.bindparam("which")))
_FILES = sa.select(skills.c.slug, skills.c.digest, skills.c.form, skills.c.package, skills.c.manifest).where(
    tenant_condition(skills), skills.c.id == sa.bindparam("which")
)
_FILES_LOCKED = _FILES.with_for_update()
# Two ranges of the index instead of `!=` or `OR`, for which SQLite walks through all rows: no row is read when all are
# current, however many there are.
_READERS = sa.select(skills.c.slug, skills.c.reader).where(tenant_condition(skills))
_OTHER_READER = CompiledSelect(
    sa.union_all(
        _READERS.where(skills.c.reader < sa.bindparam("reader")),
        _READERS.where(skills.c.reader > sa.bindparam("reader")),
    )
)
_STORED = (
    sa.select(skills.c.slug, skills.c.id, skills.c.digest, skills.c.created_at, skills.c.updated_at, skills.c.reader)
    .where(tenant_condition(skills), skills.c.slug.in_(sa.bindparam("of", expanding=True)))
    .order_by(skills.c.slug)
)
# Rows are locked in the order of their slugs, so that two writers of many skills cannot deadlock.
_STORED_LOCKED = _STORED.with_for_update()
_TAKEN = sa.select(skills.c.id).where(skills.c.id.in_(sa.bindparam("of", expanding=True)))
_INSERT = sa.insert(skills)
_UPDATE = sa.update(skills).where(tenant_condition(skills), skills.c.id == sa.bindparam("which"))
_DELETE = sa.delete(skills).where(tenant_condition(skills), skills.c.id == sa.bindparam("which"))

DAMAGE = (ValueError, TypeError, KeyError, AttributeError)
"""The exceptions of reading a row into which another program wrote an impossible value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSkill:
    """The stored state of a skill: id, digest, dates, and the version of the readers that derived the row."""

    id: str
    digest: str
    created_at: str
    updated_at: str
    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """The files of a skill without their bytes."""

    slug: str
    digest: str
    form: FormName
    package: str
    manifest: tuple[FileEntry, ...]


def get_cards(connection: sa.Connection, tenant: Tenant) -> list[SkillCard]:
    """Return the cards of all skills; raise one of `DAMAGE` if a row cannot be read."""
    rows = connection.execute(_CARDS, tenant.key)
    return [
        build_model(
            SkillCard,
            {
                "slug": slug,
                "title": title,
                "description": description,
                "version": version,
                "tags": tuple(decode_json(tags)),
                "scope": tenant.scope,
                "source": source,
                "digest": digest,
                "kinds": tuple(decode_json(kinds)),
                "hides": (),
            },
        )
        for slug, title, description, version, tags, source, digest, kinds in rows
    ]


def has_kinds(connection: sa.Connection, tenant: Tenant, kinds: Collection[Kind]) -> bool:
    """Return True if a skill has an artifact of one of these kinds, or if there is any skill when none is given."""
    # A search in the text works the same on both databases. With the quotes, a kind is not found inside a longer name.
    written = sa.cast(skills.c.kinds, sa.Text)
    having = [written.contains(f'"{kind}"', autoescape=True) for kind in kinds]
    query = _SLUGS.where(sa.or_(*having)) if having else _SLUGS
    return connection.execute(query.limit(1), tenant.key).first() is not None


def get_stale(connection: sa.Connection, tenant: Tenant) -> list[str]:
    """Return the slugs of the skills that another version of the readers derived, sorted."""
    rows = _OTHER_READER.rows(connection, {**tenant.key, "reader": reader_version()})
    return sorted(slug for slug, reader in rows if not is_current(reader))


def get_slugs(connection: sa.Connection, tenant: Tenant) -> list[str]:
    """Return the slugs of all skills."""
    return sorted(connection.execute(_SLUGS, tenant.key).scalars())


def get_skill(connection: sa.Connection, tenant: Tenant, id: str, location: str) -> Skill | None:
    """Return a skill with its artifacts by id, or None; raise `StaleRow` if outdated."""
    return _get(connection, tenant, _BY_ID, id, location)


def get_skill_by_slug(connection: sa.Connection, tenant: Tenant, slug: str, location: str) -> Skill | None:
    """Return a skill with its artifacts by slug, or None; raise `StaleRow` if outdated."""
    return _get(connection, tenant, _BY_SLUG, slug, location)


def get_files(connection: sa.Connection, tenant: Tenant, id: str) -> StoredFiles | None:
    """Return the files of a skill without their bytes."""
    return _files(connection.execute(_FILES, {**tenant.key, "which": id}).first())


def get_stored(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> dict[str, StoredSkill]:
    """Return what is stored under these slugs."""
    return _stored(connection, tenant, slugs, _STORED)


def lock_by_slug(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> dict[str, StoredSkill]:
    """Return what is stored under these slugs, locked against other writers until the transaction ends."""
    return _stored(connection, tenant, slugs, _STORED_LOCKED)


def _stored(
    connection: sa.Connection, tenant: Tenant, slugs: Sequence[str], query: sa.Select[*tuple[Any, ...]]
) -> dict[str, StoredSkill]:
    found: dict[str, StoredSkill] = {}
    for chunk in split_chunks(sorted(slugs)):
        for row in connection.execute(query, {**tenant.key, "of": chunk}):
            found[row.slug] = StoredSkill(
                id=row.id,
                digest=row.digest,
                created_at=row.created_at,
                updated_at=row.updated_at,
                reader=row.reader,
            )
    return found


def lock_files(connection: sa.Connection, tenant: Tenant, id: str) -> StoredFiles | None:
    """Return the files of a skill, locked against other writers."""
    return _files(connection.execute(_FILES_LOCKED, {**tenant.key, "which": id}).first())


def taken_ids(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Return which of these ids are in use by any tenant."""
    found: set[str] = set()
    for chunk in split_chunks(sorted(set(ids))):
        found.update(connection.execute(_TAKEN, {"of": chunk}).scalars())
    return found


def insert_skills(connection: sa.Connection, tenant: Tenant, pairs: Iterable[tuple[Skill, Package]]) -> None:
    """Add rows for new skills."""
    rows = [_row(skill, package, tenant) for skill, package in pairs]
    if rows:
        connection.execute(_INSERT, rows)


def update_skills(connection: sa.Connection, tenant: Tenant, pairs: Iterable[tuple[Skill, Package]]) -> None:
    """Replace the rows of skills that exist."""
    rows = [{**_row(skill, package, tenant), **tenant.key, "which": skill.id} for skill, package in pairs]
    if rows:
        connection.execute(_UPDATE, rows)


def delete_skill(connection: sa.Connection, tenant: Tenant, id: str) -> None:
    """Delete a skill and its artifacts."""
    connection.execute(_DELETE, {**tenant.key, "which": id})


def _get(connection: sa.Connection, tenant: Tenant, query: CompiledSelect, which: str, location: str) -> Skill | None:
    rows = sorted(query.rows(connection, {**tenant.key, "which": which}), key=_position)
    if not rows:
        return None
    check_reader(rows[0][0], rows[0][_D - 1])
    values = _values(rows[0])
    artifacts = rows if rows[0][_D] is not None else ()
    values["artifacts"] = tuple(to_artifact(row[_D:], values["id"], values["digest"]) for row in artifacts)
    values["scope"] = tenant.scope
    values["location"] = location
    return build_model(Skill, values)


def _position(row: Sequence[Any]) -> int:
    return row[_D] or 0  # NULL without artifacts


def _files(row: Any) -> StoredFiles | None:
    if row is None:
        return None
    manifest = load_manifest(row.manifest)
    return StoredFiles(slug=row.slug, digest=row.digest, form=row.form, package=row.package, manifest=manifest)


def _values(row: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a skill from a row of `_READ`, by position."""
    plain, origin, words = row[:_A], row[_A:_B], row[_B:_C]
    manifest, details, _ = row[_C:_D]
    return {
        **dict(zip(_PLAIN, plain, strict=True)),
        **{name: tuple(decode_json(value)) for name, value in zip(_WORDS, words, strict=True)},
        **fill_defaults(_DEFAULTS, decode_json(details)),
        "provenance": build_model(Provenance, dict(zip(_ORIGIN, origin, strict=True))),
        "manifest": load_manifest(decode_json(manifest)),
    }


def _row(skill: Skill, package: Package, tenant: Tenant) -> dict[str, Any]:
    content = _skill_markdown(package)
    values: Mapping[str, Any] = {name: getattr(skill, name) for name in _DETAILS}
    return {
        **tenant.columns,
        **{name: getattr(skill.provenance, name) for name in _ORIGIN},
        "id": skill.id,
        "slug": skill.slug,
        "name": skill.title,
        "description": skill.description,
        "version": skill.version,
        "tags": list(skill.tags),
        "digest": skill.digest,
        "kinds": list(skill.kinds),
        "form": skill.form,
        "reader": reader_version((*skill.kinds, skill.form)),
        "author": skill.author,
        "created_at": skill.created_at,
        "updated_at": skill.updated_at,
        "intent_patterns": list(skill.intent_patterns),
        "trigger_phrases": list(skill.trigger_phrases),
        "content_length": skill.content_length,
        "content_hash": hashlib.sha256(content.encode()).hexdigest(),
        "package": package.name,
        "manifest": dump_manifest(skill.manifest),
        "details": {name: value for name, value in values.items() if value != _DEFAULTS[name]},
        "content": content,
    }


def _skill_markdown(package: Package) -> str:
    """Return SKILL.md as text for people who query the table; PostgreSQL cannot store NUL in text."""
    file = package.get("SKILL.md")
    return file.content.decode(errors="replace").replace("\x00", "\ufffd") if file else ""
