"""Open a SQLite or PostgreSQL database, keep its tables up to date, and hand out connections."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from prowess.errors import Invalid, Unavailable
from prowess.storage.database_url import SQLITE_PREFIX, database_exists
from prowess.storage.driver_errors import URL_HINT, is_missing_table, translate_error
from prowess.storage.rows import fetch, from_json, to_json
from prowess.storage.schema_check import add_mark, check_mark, check_schema, has_mark
from prowess.storage.seals import PROCESS_SEALS, Seals
from prowess.storage.sqlite import DeadlineConnection, WriterLock, create_private_file, no_deadline, was_interrupted
from prowess.storage.sqlite_driver import DriverPool
from prowess.storage.transaction import SharedRead, Snapshot, SnapshotOfThread, Transaction, close_returned

if TYPE_CHECKING:
    import sqlalchemy as sa

HEAD_REVISION = "0022"
"""The newest revision. It is repeated here so that an up-to-date database opens without importing alembic."""

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"

NEW_DATABASE = Path(__file__).with_name("new_database.sql")
"""The tables of the newest revision for SQLite, written by scripts/schema.py."""

# An arbitrary number; every Prowess must use the same one.
_ADVISORY_LOCK = 7769657373
# alembic passes the running migration to its scripts through module globals, so only one thread may migrate.
_alembic_lock = threading.Lock()


def revision(connection: sa.Connection) -> str | None:
    """Return the revision of the tables, or None if there are none yet."""
    try:
        rows = fetch(connection, "SELECT version_num FROM alembic_version LIMIT 1")
    except Exception as error:
        if is_missing_table(error):
            return None
        raise
    return rows[0][0] if rows else None


def check_revision(found: str | None, location: str) -> bool:
    """Return True if the tables are up to date. Reject a database of a newer Prowess or of another program."""
    if found in (HEAD_REVISION, None) or (found.isdigit() and int(found) < int(HEAD_REVISION)):
        return found == HEAD_REVISION
    if found.isdigit():
        raise Unavailable(
            f"The database {location} was written by a newer version of Prowess (revision {found}; "
            f"this version supports {HEAD_REVISION}).",
            hint="Upgrade with `pip install -U prowess`, or run "
            f"`prowess database downgrade --to {HEAD_REVISION}` with the newer version (for a workspace: `--scope workspace`).",
        )
    raise Invalid(
        f"The database {location} belongs to another program (its revision is {found[:40]!r}).",
        hint="Use a separate database for Prowess.",
    )


def upgrade(connection: sa.Connection, location: str) -> None:
    """Run the missing migrations in the transaction of `connection`, which holds the write lock on SQLite.

    A new database gets the mark of this installation. On PostgreSQL an advisory lock lets one process migrate while the others wait and then find it done.
    """
    lock_migrations(connection)
    found = _postgres_revision(connection) if connection.dialect.name == "postgresql" else revision(connection)
    if not check_revision(found, location) and not _create_tables(connection):
        run_alembic(connection)
    if found is None:
        add_mark(connection)


def lock_migrations(connection: sa.Connection) -> None:
    """Let one process at a time migrate, until the transaction ends. On SQLite the transaction holds the write lock."""
    if connection.dialect.name == "postgresql":
        fetch(connection, "SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))


def _postgres_revision(connection: sa.Connection) -> str | None:
    """Return the revision without provoking an error, which would abort the transaction."""
    [(exists,)] = fetch(connection, "SELECT to_regclass('alembic_version')")
    return revision(connection) if exists else None


def _create_tables(connection: sa.Connection) -> bool:
    """Create the tables of an empty SQLite database at once, a tenth of the time of all migrations; False if it is not empty.

    Also False while the file is older than a new migration.
    """
    if connection.dialect.name != "sqlite" or fetch(connection, "SELECT 1 FROM sqlite_master"):
        return False
    head, _, text = NEW_DATABASE.read_text("utf-8").partition("\n")
    if not head.startswith(f"-- Revision {HEAD_REVISION}."):
        return False
    for statement in text.split(";\n")[:-1]:
        fetch(connection, statement)
    fetch(connection, "INSERT INTO alembic_version VALUES (?)", (HEAD_REVISION,))
    return True


def run_alembic(connection: sa.Connection, to: str = "head", *, down: bool = False) -> None:
    """Migrate to a revision, the newest by default."""
    # Imported only here: a database that is up to date opens without alembic, which is slow to import.
    from alembic import command
    from alembic.config import Config

    config = Config()
    # alembic reads its options with `ConfigParser`, which interprets percent signs.
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _alembic_lock:
        (command.downgrade if down else command.upgrade)(config, to)


class Connections(Protocol):
    """Gives out connections to one database. Every failure is raised as a `ProwessError`."""

    location: str
    """The location of the database, to show to people."""

    url: str
    """The whole URL with the password, to open another connection; never show it."""

    def read(self) -> AbstractContextManager[sa.Connection]:
        """Return a connection that sees one state of the database throughout."""
        ...

    def write(self) -> AbstractContextManager[sa.Connection]:
        """Return a transaction: committed when the block ends, rolled back if it raises."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all reads that this thread makes inside the block share one transaction.

        This is cheaper and gives a consistent view. The reads do not see what is written inside the block.
        """
        ...


class Database:
    """A database with Prowess's tables. Safe for many threads; a forked child opens connections of its own."""

    def __init__(self, url: str | Path, seals: Seals = PROCESS_SEALS) -> None:
        """Take a URL, or the path of a SQLite file. Raise `Invalid` if it is not one of a supported database."""
        self._seals = seals
        self._snapshot = SnapshotOfThread()
        self._engines: tuple[sa.Engine, sa.Engine] | None = None
        self._engines_lock = threading.Lock()
        self._driver: DriverPool | None = None
        self._writer_lock: WriterLock | None = None
        # The rest of a SQLite URL is taken literally. Parsed, a question mark in the name of a file would start options.
        if isinstance(url, Path) or url.startswith(SQLITE_PREFIX):
            self.location = path = str(url).removeprefix(SQLITE_PREFIX)
            if not path or path == ":memory:":
                raise Invalid("A SQLite database needs a file path.", hint=URL_HINT)
            create_private_file(Path(path))
            self.url = f"{SQLITE_PREFIX}{path}"
            self._driver_error: type[Exception] = sqlite3.Error
            self._writer_lock = WriterLock()
            self._driver = DriverPool(path, seals, self._adopt)
            self._connect: Callable[[bool], sa.Connection] = cast("Any", self._driver.connect)
        else:
            from prowess.storage.postgres import mask_password, parse_url, postgres_engines

            parsed = parse_url(url)
            self.location, self.url = mask_password(parsed), parsed.render_as_string(hide_password=False)
            engines = self._use_engines(*postgres_engines(parsed, **_ENGINE_OPTIONS))
            self._driver_error = cast("type[Exception]", engines[1].dialect.loaded_dbapi.Error)
            self._connect = lambda write: engines[write].connect()
            _engines.add(engines[1])

    def _use_engines(self, reader: sa.Engine, writer: sa.Engine) -> tuple[sa.Engine, sa.Engine]:
        # Functions that get a connection find the seals in its options, see `seals_of`.
        options = {"seals": self._seals}
        self._engines = (reader.execution_options(**options), writer.execution_options(**options))
        return self._engines

    def _adopt(self, connection: DeadlineConnection, write: bool) -> sa.Connection:
        """Return SQLAlchemy's view of a connection of the driver."""
        from prowess.storage.sqlite_dialects import adopt_connection, sqlite_engines

        with self._engines_lock:
            engines = self._engines or self._use_engines(*sqlite_engines(self.location, **_ENGINE_OPTIONS))
        return adopt_connection(engines[write], connection)

    def _begin(self, write: bool, *lock_and_after: Any) -> Transaction:
        return Transaction(partial(self._connect, write), self.raise_translated, *lock_and_after)

    def read(self) -> AbstractContextManager[sa.Connection]:
        """Return a connection that sees one state of the database throughout."""
        shared = self._snapshot.current
        return self._begin(False) if shared is None else SharedRead(shared, self.raise_translated)

    def write(self, *, after: Callable[[], None] | None = None) -> AbstractContextManager[sa.Connection]:
        """Return a transaction: committed when the block ends, rolled back if it raises; `after` runs once committed."""
        return self._begin(True, self._writer_lock, after)

    @property
    def has_snapshot(self) -> bool:
        """True inside a `snapshot` of this thread."""
        return self._snapshot.current is not None

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all reads that this thread makes inside the block share one transaction."""
        # Inside another snapshot of this thread, the outer one continues.
        return nullcontext() if self.has_snapshot else Snapshot(self._begin(False), self._snapshot)

    def raise_translated(self, error: BaseException) -> None:
        """Raise the `ProwessError` for an error of SQLAlchemy or the driver; return for any other error."""
        cause = getattr(error, "orig", error)
        if getattr(cause, "sqlite_errorname", "") == "SQLITE_INTERRUPT" and was_interrupted():
            raise KeyboardInterrupt from error
        translated = translate_error(error, self.location, self._driver_error)
        if translated is not None:
            raise translated from error

    def migrate(self, *, ours_only: bool = False) -> None:
        """Bring the tables up to date; costs two queries if they already are.

        Raise `Refused` if the tables of a SQLite file are not ours, and with `ours_only` if another installation made it.
        """
        with self.read() as connection:
            is_empty = self._driver is not None and not check_schema(connection, self.location, run_alembic)
            found = None if is_empty else revision(connection)
            current = check_revision(found, self.location)
            if ours_only and found is not None:
                check_mark(connection, found, self.location)
        if self._driver is not None:
            try:
                self._driver.use_wal()
            except BaseException as error:
                self.raise_translated(error)
                raise
        if not current:
            # Without the lock of this process: alembic's own lock comes first, and SQLite waits for its file lock.
            with self._begin(True) as connection, no_deadline(connection):
                upgrade(connection, self.location)

    def close(self) -> None:
        """Close all idle connections, and from now on each other one as soon as it is returned."""
        if self._driver is not None:
            self._driver.close()
        elif self._engines is not None:
            from sqlalchemy import event

            event.listen(self._engines[1].pool, "checkin", close_returned)
            self._engines[1].dispose()


def open_database(url: str | Path, seals: Seals = PROCESS_SEALS, *, ours_only: bool = False) -> Database:
    """Open a database; create and migrate it if needed. Its rows are sealed, and their seals checked, with `seals`.

    With `ours_only`, raise `Refused` for a database that this installation did not make.

    A `Path`, or everything after `sqlite:///`, is taken literally as the path of a SQLite file.

    Raise `Unavailable` if it cannot be reached or used or was written by a newer Prowess, and `Invalid` if the URL is not
    one of a supported database.
    """
    if ours_only and not database_exists(str(url)):
        seals.require_key()  # with a key that is lost, the next process would refuse what this one makes
    database = connect_database(url, seals)
    try:
        database.migrate(ours_only=ours_only)
    except BaseException:
        database.close()
        raise
    return database


def connect_database(url: str | Path, seals: Seals = PROCESS_SEALS) -> Database:
    """Return a database as it is, neither migrated nor checked. Raise `Invalid` if the URL is not one of a supported database."""
    return Database(url, seals)


def adopt_database(url: str, seals: Seals) -> None:
    """Mark a database that another installation made as one of this installation. Its tables are checked as always."""
    seals.require_key()
    database = open_database(url, seals)
    try:
        with database.write() as connection:
            if not has_mark(connection):
                add_mark(connection)
    finally:
        database.close()


_ENGINE_OPTIONS: dict[str, Any] = {"json_serializer": to_json, "json_deserializer": from_json}
_engines: weakref.WeakSet[sa.Engine] = weakref.WeakSet()


def _drop_inherited_connections() -> None:
    """Forget the parent's connections in a forked child. Using or closing them would disturb the parent."""
    for engine in _engines:
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited_connections)
