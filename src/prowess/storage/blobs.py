"""Store the bytes of files once per content: versions and skills that share a file share its row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import sqlalchemy as sa

from prowess.errors import Unavailable
from prowess.skill.package import File, FileEntry, Package
from prowess.storage.tables import dialect_insert, skill_blobs

_insert = dialect_insert(skill_blobs, lambda insert: insert.on_conflict_do_nothing())
_SELECT = sa.select(skill_blobs.c.sha256, skill_blobs.c.content).where(
    skill_blobs.c.sha256.in_(sa.bindparam("wanted", expanding=True))
)
# SQLite builds with the old default accept at most 999 parameters per statement.
CHUNK_SIZE = 500


def put_blobs(connection: sa.Connection, packages: Iterable[Package]) -> None:
    """Store every file of these packages."""
    files = {file.entry.sha256: file.content for package in packages for file in package.files}
    # Always in the same order, so that two writers of the same files cannot deadlock.
    rows = [{"sha256": sha256, "size": len(files[sha256]), "content": files[sha256]} for sha256 in sorted(files)]
    if rows:
        connection.execute(_insert(connection), rows)


def get_package(connection: sa.Connection, name: str, manifest: Sequence[FileEntry]) -> Package:
    """Return the files of a manifest as a package; raise `Unavailable` if bytes are missing."""
    blobs: dict[str, bytes] = {}
    for wanted in split_chunks(sorted({entry.sha256 for entry in manifest})):
        blobs.update((row.sha256, bytes(row.content)) for row in connection.execute(_SELECT, {"wanted": wanted}))
    missing = [entry.path for entry in manifest if entry.sha256 not in blobs]
    if missing:
        raise _missing_bytes(missing[0])
    files = (File(path=entry.path, content=blobs[entry.sha256], mode=entry.mode) for entry in manifest)
    return Package(name=name, files=tuple(files))


def get_blob(connection: sa.Connection, path: str, sha256: str) -> bytes:
    """Return the bytes of one file; raise `Unavailable` if they are missing."""
    row = connection.execute(_SELECT, {"wanted": [sha256]}).first()
    if row is None:
        raise _missing_bytes(path)
    return bytes(row.content)


def _missing_bytes(path: str) -> Unavailable:
    return Unavailable(
        f"The bytes of {path!r} are gone from the database.",
        hint="Restore the database from a backup, or import the skill again.",
    )


def dump_manifest(manifest: Iterable[FileEntry]) -> list[list[str | int]]:
    """Return a manifest in its stored form."""
    return [[entry.path, entry.mode, entry.size, entry.sha256] for entry in manifest]


def load_manifest(rows: Iterable[Sequence[Any]]) -> tuple[FileEntry, ...]:
    """Return the manifest of a stored form."""
    return tuple(FileEntry(path=path, mode=mode, size=size, sha256=sha256) for path, mode, size, sha256 in rows)


def split_chunks(values: Sequence[str]) -> Iterable[list[str]]:
    """Yield the values in chunks that fit into one query."""
    rest = iter(values)
    while chunk := list(islice(rest, CHUNK_SIZE)):
        yield chunk
