"""Store the bytes of files once per content: versions and skills that share a file share its row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard

from prowess.errors import Invalid, Problem, Unavailable
from prowess.skill.package import File, FileEntry, Package, compute_digest
from prowess.storage.rows import LazyStatements

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import blobs as sql
else:
    sql = LazyStatements("blobs")


# SQLite builds with the old default accept at most 999 parameters per statement.
CHUNK_SIZE = 500


def put_blobs(connection: sa.Connection, packages: Iterable[Package], *, replace: bool = False) -> None:
    """Store every file of these packages. With `replace`, also overwrite existing ones, because they may have been changed."""
    files = {file.entry.sha256: file.content for package in packages for file in package.files}
    # Always in the same order, so that two writers of the same files cannot deadlock.
    rows = [{"sha256": sha256, "size": len(files[sha256]), "content": files[sha256]} for sha256 in sorted(files)]
    if rows:
        (sql.REPLACE if replace else sql.INSERT).run(connection, rows)


def get_package(
    connection: sa.Connection, name: str, manifest: Sequence[FileEntry], *, digest: str, slug: str
) -> Package:
    """Return the files of a manifest as a package.

    Raise `Unavailable` if bytes are missing, and `Invalid` if the files are not exactly those that the digest identifies.
    """
    blobs = _read_blobs(connection, sorted({entry.sha256 for entry in manifest}))
    missing = [entry.path for entry in manifest if entry.sha256 not in blobs]
    if missing:
        raise _missing_bytes(missing[0]) if compute_digest(manifest) == digest else changed_bytes(slug)
    files = [File(path=entry.path, content=blobs[entry.sha256], mode=entry.mode) for entry in manifest]
    # Someone else may have written the name, which becomes the name of a folder when the skill is exported.
    package = Package(name=name if is_plain(name) else slug, files=tuple(sorted(files, key=lambda file: file.path)))
    # Computed from the bytes themselves: it covers the paths and modes of the manifest and the content of each blob.
    if package.digest != digest:
        raise changed_bytes(slug)
    return package


def _read_blobs(connection: sa.Connection, hashes: Sequence[str]) -> dict[str, bytes]:
    """Return the bytes of those of these files that are stored, by hash."""
    if len(hashes) == 1:  # most skills are one file
        return {sha256: _bytes(content) for sha256, content in sql.SELECT_ONE.rows(connection, {"wanted": hashes[0]})}
    found: dict[str, bytes] = {}
    for chunk in split_chunks(hashes):
        rows = sql.SELECT.rows(connection, {"wanted": chunk})
        found.update((sha256, _bytes(content)) for sha256, content in rows)
    return found


def get_blob(connection: sa.Connection, manifest: Sequence[FileEntry], path: str, *, digest: str, slug: str) -> bytes:
    """Return the bytes of one file of a manifest. Errors are those of `get_package`."""
    if compute_digest(manifest) != digest:
        raise changed_bytes(slug)
    sha256 = next(entry.sha256 for entry in manifest if entry.path == path)
    content = _read_blobs(connection, [sha256]).get(sha256)
    if content is None:
        raise _missing_bytes(path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise changed_bytes(slug)
    return content


def changed_bytes(slug: str) -> Invalid:
    """Return the error for a stored skill whose files no longer match its digest."""
    problem = Problem(
        code="changed-bytes",
        severity="error",
        message=f"The stored files of the skill {slug[:80]!r} do not match its digest: they were "
        "changed outside Prowess.",
        hint="Import the skill again with `prowess import PATH --replace`, or restore the database from a backup.",
    )
    return Invalid(problem.message, hint=problem.hint, problems=[problem])


def _bytes(value: bytes | str) -> bytes:
    # SQLite stores text in a column of bytes, too, if another program writes it.
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def is_plain(name: object) -> TypeGuard[str]:
    """Return True if the name is one part of a path."""
    return (
        isinstance(name, str)
        and name.isprintable()
        and name not in (".", "..")
        and "/" not in name
        and "\\" not in name
    )


def _missing_bytes(path: str) -> Unavailable:
    return Unavailable(
        f"The content of {path!r} is missing from the database.",
        hint="Restore the database from a backup, or import the skill again with `prowess import PATH --replace`.",
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
