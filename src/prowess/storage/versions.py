"""Append to and read the version log of skills, and list which skills changed since a position.

Every version carries a number, `feed`, and a position says up to where the numbers were seen. SQLite has one writer at a
time, which continues from the tenant's last number, so later commits have higher numbers. PostgreSQL has many writers that
commit in any order: there the number is the id of the writing transaction, and a position is a snapshot that lists the
transactions it could not see yet. A position also names the newest version that was there, so that a restored or replaced
database is not mistaken for one that grew.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Literal

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.form_info import FormName
from prowess.skill.model import Version
from prowess.skill.package import FileEntry, Package
from prowess.storage.blobs import changed_bytes, dump_manifest, get_package, load_manifest, split_chunks
from prowess.storage.clock import now
from prowess.storage.driver_errors import reading, wrong_value
from prowess.storage.owner import Tenant
from prowess.storage.rows import LazyStatements, decode_json, lock_name
from prowess.storage.seals import Seals, seals_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import versions as sql
else:
    sql = LazyStatements("versions")

# At most 18 digits, so that every number fits into a bigint.
_POSITION = lazy_pattern(
    r"(?P<least>\d{1,18}):(?P<end>\d{1,18}):(?P<open>(?:\d{1,18}(?:,\d{1,18})*)?)/(?P<log>[0-9.]*)/(?P<newest>[0-9a-f-]*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """Numbers below `end` were seen, except the `open` ones; everything unseen is at least `least`.

    `log` identifies the table and database if that is known, and `newest` is the id of a version in it.
    """

    least: int
    end: int
    open: frozenset[int]
    log: str
    newest: str

    def saw(self, number: int) -> bool:
        """Return True if a version with that number was visible."""
        return number < self.end and number not in self.open

    def __str__(self) -> str:
        return f"{self.least}:{self.end}:{','.join(map(str, sorted(self.open)))}/{self.log}/{self.newest}"


def next_numbers(connection: sa.Connection, tenant: Tenant) -> Iterator[int]:
    """Return the numbers for the versions that a transaction is about to add."""
    if connection.dialect.name == "postgresql":
        return repeat(connection.execute(sql.TRANSACTION).scalar_one())
    [last] = sql.LAST_NUMBER.first(connection, _log_key(tenant)) or (0,)
    return count((last or 0) + 1)


def read_feed(connection: sa.Connection, tenant: Tenant, since: str) -> tuple[str, frozenset[str] | None]:
    """Return the current position, and the slugs that changed since another; None if that is unknown."""
    now = _current_position(connection, tenant)
    if str(now) == since:
        return since, frozenset()
    seen = _parse_position(since)
    if seen is None or not _continues(connection, tenant, seen, now):
        return str(now), None
    rows = sql.CHANGED_SINCE.rows(connection, {**_log_key(tenant), "least": seen.least})
    return str(now), frozenset(slug for slug, number in rows if number < now.end and not seen.saw(number))


def _current_position(connection: sa.Connection, tenant: Tenant) -> _Position:
    feed, newest = sql.NEWEST.first(connection, {**_log_key(tenant), "most": 1}) or (None, "")
    if connection.dialect.name != "postgresql":
        if not isinstance(feed, int | None):
            raise wrong_value()
        end = feed + 1 if feed is not None else 0
        return _Position(least=end, end=end, open=frozenset(), log="", newest=newest)
    snapshot, log = connection.execute(sql.SNAPSHOT).one()
    least, end, running = snapshot.split(":")
    open_ones = frozenset(map(int, running.split(","))) if running else frozenset[int]()
    return _Position(least=int(least), end=int(end), open=open_ones, log=log or "", newest=newest)


def _continues(connection: sa.Connection, tenant: Tenant, seen: _Position, now: _Position) -> bool:
    """Return True if the log is the one that the position is from, and nothing was removed from it."""
    # A log that is shorter, or lacks a version that was there, is another one: a restored backup, for instance.
    if seen.end > now.end or seen.log != now.log:
        return False
    return not seen.newest or sql.NUMBER_OF.first(connection, {**_log_key(tenant), "which": seen.newest}) is not None


def _parse_position(text: str) -> _Position | None:
    found = _POSITION.fullmatch(text)
    if found is None:
        return None
    running = frozenset(map(int, found["open"].split(","))) if found["open"] else frozenset[int]()
    return _Position(
        least=int(found["least"]), end=int(found["end"]), open=running, log=found["log"], newest=found["newest"]
    )


VERSION_COLUMNS = ("slug", "number", "digest", "change", "created_at", "actor", "note", "form")
"""The columns of a version without its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """The content of a new version."""

    slug: str
    package: str
    manifest: tuple[FileEntry, ...]
    digest: str
    form: FormName
    change: Literal["create", "update", "delete", "rollback"]
    actor: str = ""
    note: str = ""


def append_versions(connection: sa.Connection, tenant: Tenant, entries: Sequence[NewVersion]) -> list[Version]:
    """Append the next version of each skill (each slug at most once); the files must be stored already.

    The caller holds the lock on the skills, so that no two writers continue from the same number.
    """
    if not entries:
        return []
    last = last_numbers(connection, tenant, [entry.slug for entry in entries])
    moment = now()
    versions = [_version(entry, last.get(entry.slug, 0) + 1, moment) for entry in entries]
    numbers, seals = next_numbers(connection, tenant), seals_of(connection)
    rows = [
        _row(tenant, version, entry.package, number, seals)
        for version, entry, number in zip(versions, entries, numbers, strict=False)  # the numbers never end
    ]
    sql.INSERT.run(connection, rows)
    return versions


def last_numbers(connection: sa.Connection, tenant: Tenant, slugs: Sequence[str]) -> dict[str, int]:
    """Return the highest version number of each of these slugs."""
    if len(slugs) == 1:  # most writes are about one skill
        [number] = sql.LAST_OF.first(connection, {**_log_key(tenant), "of": slugs[0]}) or (None,)
        return {} if number is None else {slugs[0]: number}
    found: dict[str, int] = {}
    for chunk in split_chunks(slugs):
        found.update((slug, number) for slug, number in sql.LAST.rows(connection, {**_log_key(tenant), "of": chunk}))
    return found


def get_versions(connection: sa.Connection, tenant: Tenant, slug: str) -> list[Version]:
    """Return all versions of a skill, oldest first."""
    rows = sql.LOG.rows(connection, {**_log_key(tenant), "of": slug})
    return [_version_of(row[:-1], row[-1]) for row in rows]


def get_ends(connection: sa.Connection, tenant: Tenant, slug: str) -> tuple[Version, Version] | None:
    """Return the first and last version of a skill without manifests; None if it has none.

    A workspace may come from anyone, and its database with it: an actor that another installation wrote there is left out.
    """
    key = {**_log_key(tenant), "of": slug}
    last = sql.NEWEST_OF.first(connection, key)
    if last is None:
        return None
    newest = _version_of(last[1:])
    if tenant.scope == "workspace" and not _is_ours(seals_of(connection), tenant, newest, last[0]):
        newest = newest.model_copy(update={"actor": ""})
    first = sql.FIRST.first(connection, key) if newest.number > 1 else last
    return (newest if first is None or first is last else _version_of(first[1:]), newest)


def _version_of(row: Sequence[Any], *manifest: Any) -> Version:
    values: dict[str, Any] = dict(zip(VERSION_COLUMNS, row, strict=True))
    with reading(f"Version {values['number']} of the skill {values['slug']!r}"):
        if manifest:
            values["manifest"] = load_manifest(decode_json(manifest[0]))
        return Version.model_validate(values)


def get_version_package(connection: sa.Connection, tenant: Tenant, slug: str, number: int) -> Package | None:
    """Return the files of one version, or None. Errors are those of `blobs.get_package`."""
    row = sql.FILES.first(connection, {**_log_key(tenant), "of": slug, "which": number})
    if row is None:
        return None
    package, digest, manifest = row
    try:
        entries = load_manifest(decode_json(manifest))
    except (ValueError, TypeError) as error:
        raise changed_bytes(slug) from error
    return get_package(connection, package, entries, digest=digest, slug=slug)


def lock_slug(connection: sa.Connection, tenant: Tenant, slug: str) -> None:
    """Serialize writers of a version log that has no row in `skills` to lock."""
    lock_name(connection, "version", *_log_key(tenant).values(), slug)


def _log_key(tenant: Tenant) -> dict[str, str]:
    return {**tenant.key, "tenant_place": tenant.place}


def _version(entry: NewVersion, number: int, moment: str) -> Version:
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


def _row(tenant: Tenant, version: Version, package: str, number: int, seals: Seals) -> dict[str, Any]:
    return {
        **tenant.columns,
        **version.__dict__,
        "id": _seal_id(seals, tenant, version, secrets.token_hex(8)),
        "place": tenant.place,
        "package": package,
        "manifest": dump_manifest(version.manifest),
        "feed": number,
    }


def _seal_id(seals: Seals, tenant: Tenant, version: Version, salt: str) -> str:
    """Return the id of a version: random, and a checksum of who wrote what, which only this installation can make."""
    written = (salt, *_log_key(tenant).values(), version.slug, version.number, version.digest, version.actor)
    return str(uuid.UUID(salt + seals.make(("version", written)).partition(":")[2][:16]))


def _is_ours(seals: Seals, tenant: Tenant, version: Version, id: object) -> bool:
    """Return True if this installation wrote a version, and nobody has changed who wrote what."""
    return isinstance(id, str) and id == _seal_id(seals, tenant, version, id.replace("-", "")[:16])
