"""Copy a SQLite database while others write to it, and put such a copy back in place.

A backup is one SQLite file with everything that was committed when it started. It does not contain the key of the
installation (see `seals`), so that a backup does not let anyone forge rows.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from time import time

import sqlalchemy as sa

from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.storage.audit_chain import AuditVerdict, verify_audit
from prowess.storage.database import check_revision, revision, run_alembic
from prowess.storage.database_url import connect_existing
from prowess.storage.retention import list_audited
from prowess.storage.schema_check import check_schema, has_mark
from prowess.storage.seals import Seals
from prowess.storage.sqlite import BUSY_SECONDS
from prowess.suggestions import did_you_mean

_COUNTED = {
    "skills": "skills",
    "versions": "skill_versions",
    "sessions": "sessions",
    "approvals": "approvals",
    "events": "events",
    "audit": "audit",
    "traces": "skill_execution_traces",
}


_LEFTOVER_SECONDS = 60 * 60
_ONLY_BACKUPS = "Pass a file that `prowess backup` has written."


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a database file: its size, revision and number of rows, and the verdict on each organization's audit."""

    bytes: int
    ours: bool
    """True if this installation made the database, or one with the same key."""
    revision: str
    rows: dict[str, int]
    audits: dict[str, AuditVerdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The restored database, and the path of the one that it replaced; None if there was none."""

    contents: Contents
    previous: Path | None


def back_up(source: Path, target: Path, seals: Seals, *, replace: bool = False) -> Contents:
    """Write a copy of a SQLite database to a new file with mode 0600, and return what it contains. Blocking.

    Others can write in the meantime; the copy has one consistent state. Raise `NotFound` if there is no database, `Invalid` if
    the target is the database, `Conflict` if it exists and `replace` is not set, and `Unavailable` if the copy cannot be written or is damaged.
    """
    if not source.exists():
        raise NotFound(f"There is no database at {str(source)!r}.", hint="Run `prowess doctor` to see where it is.")
    if target.exists() and target.samefile(source):
        # Programs that have it open would continue writing to a file without a name.
        raise Invalid(f"{str(target)!r} is the database itself.", hint="Choose another file for the backup.")
    if target.exists() and not replace:
        raise Conflict(f"{str(target)!r} already exists.", hint="Choose another name, or overwrite it with --replace.")
    with _temporary_copy(source, target) as copy:
        contents = examine(copy, seals, location=str(source))
        _move_into_place(copy, target, replace=replace)
    return contents


def restore(source: Path, target: Path, seals: Seals, *, replace: bool = False, any_key: bool = False) -> Restored:
    """Replace a database with a backup, after checking all of it, and return what it contains. Blocking.

    The database that was there is kept under another name. Raise `NotFound` if there is no backup, `Conflict` if there is a
    database and `replace` is not set, `Invalid` or `Refused` if the file is not a sound backup, and `Unavailable` if another
    process uses the database or a newer Prowess made the backup. Unless `any_key` is set, also raise `Refused` if another
    installation made it: everything that was accepted, allowed and configured there would count here.
    """
    if not source.exists():
        raise NotFound(
            f"There is no file {str(source)!r}.",
            hint=did_you_mean(source.name, _names_beside(source))
            or f"{_ONLY_BACKUPS} For a skill, use `prowess rollback SLUG VERSION`.",
        )
    if target.exists() and not replace:
        raise Conflict(
            f"A database already exists at {str(target)!r}.",
            hint="Pass --replace to replace it. The current database is kept under another name.",
        )
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _temporary_copy(source, target) as copy:
        try:
            contents = examine(copy, seals, location=str(source), whole=True)
        except Refused as error:
            raise Refused(error.message, hint=_ONLY_BACKUPS) from error
        if not (contents.ours or any_key):
            raise Refused(
                f"{str(source)!r} was made with another key. It may contain tokens, accepted skills and connectors of other people.",
                hint="If it is yours, restore the key first: PROWESS_SECRET_KEY, or database.key in PROWESS_HOME. If the key "
                "is lost, pass --accept-key.",
            )
        previous = _set_aside(target)
        _move_into_place(copy, target, replace=True)
    return Restored(contents=contents, previous=previous)


def examine(path: Path, seals: Seals, *, location: str = "", whole: bool = False) -> Contents:
    """Check the tables of a file, and with `whole` also every page and the audit, and return what it contains.

    Errors name the file by `location`, by default its path. Raise `Refused` for foreign tables, `Unavailable` for a
    newer revision, and `Invalid` for damaged pages.
    """
    location = location or str(path)
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(path, "ro"), poolclass=sa.NullPool)
    try:
        with engine.connect().execution_options(seals=seals) as connection:
            if not check_schema(connection, location, run_alembic):
                raise Invalid(f"The database {location!r} is empty.", hint=_ONLY_BACKUPS)
            found = revision(connection) or ""
            check_revision(found, location)
            _check_pages(connection, location, whole=whole)
            names = set(sa.inspect(connection).get_table_names())
            counts = {
                name: connection.execute(sa.select(sa.func.count()).select_from(sa.table(table))).scalar_one()
                for name, table in _COUNTED.items()
                if table in names
            }
            ours = "installation" in names and has_mark(connection)
            audits = {}
            if whole and "audit" in names:
                audits = {of: verify_audit(connection, of) for of in list_audited(connection)}
    finally:
        engine.dispose()
    return Contents(bytes=path.stat().st_size, ours=ours, revision=found, rows=counts, audits=audits)


def _check_pages(connection: sa.Connection, location: str, *, whole: bool) -> None:
    check = "integrity_check" if whole else "quick_check"
    problem = connection.exec_driver_sql(f"PRAGMA {check}(1)").scalar()
    if problem != "ok":
        raise Invalid(f"The database {location!r} is damaged: {problem}.", hint="Use another backup.")
    if whole and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
        raise Invalid(f"Rows are missing in the database {location!r}.", hint="Use another backup.")


def _connect(path: Path, mode: str, *, timeout: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open an existing file. It may come from anyone, so its schema may not call functions with side effects."""
    connection = connect_existing(str(path.absolute()), mode=mode, timeout=timeout, check_same_thread=False)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    return connection


def _names_beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


@contextmanager
def _temporary_copy(source: Path, target: Path) -> Generator[Path]:
    """Copy a database to a new file next to the target, for the owner only; remove it in the end unless it was moved."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        _remove_leftovers(target)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(_connect(source, "rw")) as database, closing(sqlite3.connect(path)) as copy:
            # All pages in one step: with several, the copy starts again whenever another process writes. The write-ahead
            # log lets others write in the meantime.
            database.backup(copy)
            # A backup must not need side files.
            copy.execute("PRAGMA journal_mode=DELETE")
        yield path
    except OSError as error:
        raise Unavailable(
            f"Cannot write {str(target)!r}: {error.strerror or error}.", hint="Use a folder that you can write to."
        ) from error
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise Invalid(
                f"{str(source)!r} is not a valid SQLite database: {error}.", hint="Use another file."
            ) from error
        raise Unavailable(
            f"Cannot copy {str(source)!r}: {error}.",
            hint="Check the disk, and that both files can be read and written.",
        ) from error
    finally:
        path.unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    """Remove what a copy that was killed has left behind. One that is being written is never that old."""
    for leftover in target.parent.glob(f".{escape(target.name)}.*.tmp"):
        if leftover.stat().st_mtime < time() - _LEFTOVER_SECONDS:
            leftover.unlink(missing_ok=True)


def _move_into_place(copy: Path, target: Path, *, replace: bool) -> None:
    with copy.open("rb+") as file:
        os.fsync(file.fileno())
    if replace:
        for side in _side_files(target):
            side.unlink()
        copy.replace(target)
    else:
        try:
            os.link(copy, target)  # unlike a rename, it fails if someone has made that file in the meantime
        except FileExistsError as error:
            raise Conflict(f"{str(target)!r} already exists.", hint="Choose another name.") from error
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _set_aside(target: Path) -> Path | None:
    """Keep a database under another name, with its side files, while its own name stays; return that name.

    Return None if there are at most side files. Raise `Unavailable` if another process uses the database.
    """
    replaced = target.with_name(f"{target.name}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    try:
        if target.exists():
            with closing(_connect(target, "rw", timeout=1)) as database:
                # This needs the file for itself, so it fails if another process has it open. It also empties and removes
                # the write-ahead log.
                database.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Unavailable(
                f"The database {str(target)!r} is in use.",
                hint="Stop `prowess serve`, `prowess mcp` and every other program that uses it, then try again.",
            ) from error
        # A damaged database is what backups are for: keep it as it is.
    for side in _side_files(target):
        side.rename(replaced.with_name(replaced.name + side.name.removeprefix(target.name)))
    if not target.exists():
        return None
    os.link(target, replaced)
    return replaced


def _side_files(path: Path) -> list[Path]:
    """Return the logs next to a database. A killed process leaves them, and SQLite applies them to any file of that name."""
    named = [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal")]
    return [side for side in named if side.exists()]
