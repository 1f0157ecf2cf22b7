"""The rows of `skill_versions`: appended, read, never altered."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from prowess.skill.model import FormName, Version
from prowess.skill.package import FileEntry, Package
from prowess.storage.blobs import chunks, get_package, manifest_json, manifest_of
from prowess.storage.clock import now
from prowess.storage.feed import next_numbers
from prowess.storage.tables import skill_versions
from prowess.storage.tenant import Tenant, belongs

_OWN = sa.and_(belongs(skill_versions), skill_versions.c.place == sa.bindparam("tenant_place"))
_BARE = sa.select(
    skill_versions.c.slug,
    skill_versions.c.number,
    skill_versions.c.digest,
    skill_versions.c.change,
    skill_versions.c.created_at,
    skill_versions.c.actor,
    skill_versions.c.note,
    skill_versions.c.form,
).where(_OWN, skill_versions.c.slug == sa.bindparam("of"))
_LOG = _BARE.add_columns(skill_versions.c.manifest).order_by(skill_versions.c.number)
_ENDS = (
    _BARE.order_by(skill_versions.c.number).limit(1),
    _BARE.order_by(skill_versions.c.number.desc()).limit(1),
)
_FILES = sa.select(skill_versions.c.package, skill_versions.c.manifest).where(
    _OWN,
    skill_versions.c.slug == sa.bindparam("of"),
    skill_versions.c.number == sa.bindparam("which"),
)
_LAST = (
    sa.select(skill_versions.c.slug, sa.func.max(skill_versions.c.number))
    .where(_OWN, skill_versions.c.slug.in_(sa.bindparam("of", expanding=True)))
    .group_by(skill_versions.c.slug)
)
_INSERT = sa.insert(skill_versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a new version is made of."""

    slug: str
    package: str
    manifest: tuple[FileEntry, ...]
    digest: str
    form: FormName
    change: Literal["create", "update", "delete", "rollback"]
    actor: str = ""
    note: str = ""


def append_versions(connection: sa.Connection, tenant: Tenant, entries: Sequence[Entry]) -> list[Version]:
    """Add the next version of each skill (each slug at most once); the files are in `skill_blobs` already.

    The caller holds the lock on the skills, so that no two writers count up from the same number.
    """
    if not entries:
        return []
    last = last_numbers(connection, tenant, [entry.slug for entry in entries])
    moment = now()
    made = [_version(entry, last.get(entry.slug, 0) + 1, moment) for entry in entries]
    numbers = next_numbers(connection, tenant)
    rows = [
        _row(tenant, version, entry.package, number)
        for version, entry, number in zip(made, entries, numbers, strict=False)
    ]
    connection.execute(_INSERT, rows)
    return made


def last_numbers(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> dict[str, int]:
    """The highest number that each of these slugs ever had."""
    found: dict[str, int] = {}
    for chunk in chunks(slugs):
        found.update((slug, number) for slug, number in connection.execute(_LAST, {**_key(tenant), "of": chunk}))
    return found


def get_versions(connection: sa.Connection, tenant: Tenant, slug: str) -> list[Version]:
    """All versions of a skill, oldest first."""
    rows = connection.execute(_LOG, {**_key(tenant), "of": slug}).mappings()
    return [Version.model_validate({**row, "manifest": manifest_of(row["manifest"])}) for row in rows]


def get_ends(connection: sa.Connection, tenant: Tenant, slug: str) -> tuple[Version, Version] | None:
    """The first and the last version of a skill, without their manifests; None where it has none."""
    key = {**_key(tenant), "of": slug}
    rows = [connection.execute(query, key).mappings().first() for query in _ENDS]
    found = [Version.model_validate(dict(row)) for row in rows if row is not None]
    return (found[0], found[1]) if len(found) == 2 else None


def get_version_package(connection: sa.Connection, tenant: Tenant, slug: str, number: int) -> Package | None:
    """The files as of one version, or None where there is no such version."""
    row = connection.execute(_FILES, {**_key(tenant), "of": slug, "which": number}).first()
    return None if row is None else get_package(connection, row.package, manifest_of(row.manifest))


def lock_slug(connection: sa.Connection, tenant: Tenant, slug: str) -> None:
    """Let one writer at a time append to a log that has no row in `skills` to lock; SQLite locks anyway."""
    if connection.dialect.name == "postgresql":
        key = "\n".join([*_key(tenant).values(), slug])
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(key, 0))))


def _key(tenant: Tenant) -> dict[str, str]:
    return {**tenant.key, "tenant_place": tenant.place}


def _version(entry: Entry, number: int, moment: str) -> Version:
    return Version.model_construct(
        slug=entry.slug,
        number=number,
        digest=entry.digest,
        change=entry.change,
        created_at=moment,
        actor=entry.actor,
        note=entry.note,
        form=entry.form,
        manifest=entry.manifest,
    )


def _row(tenant: Tenant, version: Version, package: str, number: int) -> dict[str, Any]:
    return {
        **tenant.columns,
        **version.__dict__,
        "id": str(uuid.uuid4()),
        "place": tenant.place,
        "package": package,
        "manifest": manifest_json(version.manifest),
        "feed": number,
    }
