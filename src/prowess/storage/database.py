"""Open a SQLite or PostgreSQL database, keep its tables up to date, and hand out connections."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import sqlalchemy as sa
from sqlalchemy import event, exc

from prowess.errors import Invalid, Refused, Unavailable
from prowess.storage.database_url import SQLITE_PREFIX, database_exists, display_url, sqlite_path
from prowess.storage.driver_errors import PLAIN_TEXT_HINT, URL_HINT, is_missing_table, mask_password, translate_error
from prowess.storage.rows import from_json
from prowess.storage.schema_check import add_mark, check_mark, check_schema, has_mark
from prowess.storage.seals import PROCESS_SEALS, Seals
from prowess.storage.sqlite import WriterLock, no_deadline, sqlite_engines, was_interrupted
from prowess.storage.transaction import SharedRead, Snapshot, Transaction, close_returned

HEAD_REVISION = "0020"
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
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    except exc.DBAPIError as error:
        if is_missing_table(error):
            return None
        raise


def check_revision(found: str | None, location: str) -> bool:
    """Return True if the tables are up to date. Reject a database of a newer Prowess or of another program."""
    if found in (HEAD_REVISION, None) or (found.isdigit() and int(found) < int(HEAD_REVISION)):
        return found == HEAD_REVISION
    if found.isdigit():
        raise Unavailable(
            f"The database {location} was written by a newer version of Prowess (revision {found}; "
            f"this version supports {HEAD_REVISION}).",
            hint="Upgrade with `pip install -U prowess`, or run "
            f"`prowess database downgrade --to {HEAD_REVISION}` with the newer version.",
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
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))


def _postgres_revision(connection: sa.Connection) -> str | None:
    """Return the revision without provoking an error, which would abort the transaction."""
    exists = connection.execute(sa.text("SELECT to_regclass('alembic_version')")).scalar()
    return revision(connection) if exists else None


def _create_tables(connection: sa.Connection) -> bool:
    """Create the tables of an empty SQLite database at once, a tenth of the time of all migrations; False if it is not empty.

    Also False while the file is older than a new migration.
    """
    if connection.dialect.name != "sqlite" or connection.execute(sa.text("SELECT 1 FROM sqlite_master")).first():
        return False
    head, _, text = NEW_DATABASE.read_text("utf-8").partition("\n")
    if not head.startswith(f"-- Revision {HEAD_REVISION}."):
        return False
    # Past SQLAlchemy, which would take longer over each of these statements than SQLite.
    cursor = connection.connection.cursor()
    for statement in text.split(";\n")[:-1]:
        cursor.execute(statement)
    cursor.close()
    connection.execute(sa.text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": HEAD_REVISION})
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

    def __init__(self, reader: sa.Engine, writer: sa.Engine, seals: Seals = PROCESS_SEALS) -> None:
        self.location = mask_password(writer.url)
        self.url = _full_url(writer.url)
        # Functions that get a connection find the seals in its options, see `seals_of`.
        self._reader = reader.execution_options(seals=seals)
        self._writer = writer.execution_options(seals=seals)
        self._writer_lock = WriterLock() if writer.dialect.name == "sqlite" else None
        self._driver_error = cast("type[Exception]", writer.dialect.loaded_dbapi.Error)
        self._of_thread = threading.local()
        _engines.add(writer)

    def read(self) -> AbstractContextManager[sa.Connection]:
        """Return a connection that sees one state of the database throughout."""
        shared = getattr(self._of_thread, "snapshot", None)
        return (
            Transaction(self._reader, self.raise_translated)
            if shared is None
            else SharedRead(shared, self.raise_translated)
        )

    def write(self, *, after: Callable[[], None] | None = None) -> AbstractContextManager[sa.Connection]:
        """Return a transaction: committed when the block ends, rolled back if it raises; `after` runs once committed."""
        return Transaction(self._writer, self.raise_translated, self._writer_lock, after)

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Let all reads that this thread makes inside the block share one transaction."""
        # Inside another snapshot of this thread, the outer one goes on.
        if getattr(self._of_thread, "snapshot", None) is not None:
            yield
            return
        shared = self._of_thread.snapshot = Snapshot(Transaction(self._reader, self.raise_translated))
        try:
            yield
        finally:
            self._of_thread.snapshot = None
            shared.close()

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
            if connection.dialect.name == "sqlite":
                found = revision(connection) if check_schema(connection, self.location, run_alembic) else None
            else:
                found = revision(connection)
            current = check_revision(found, self.location)
            if ours_only and found is not None:
                check_mark(connection, found, self.location)
        if not current:
            # Without the lock of this process: alembic's own lock comes first, and SQLite waits for its file lock.
            with Transaction(self._writer, self.raise_translated) as connection, no_deadline(connection):
                upgrade(connection, self.location)

    def close(self) -> None:
        """Close all idle connections, and from now on each other one as soon as it is returned."""
        event.listen(self._writer.pool, "checkin", close_returned)
        self._writer.dispose()


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
    parsed = _parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return Database(*sqlite_engines(parsed, **_ENGINE_OPTIONS), seals)
    from prowess.storage.postgres import postgres_engines

    return Database(*postgres_engines(parsed, **_ENGINE_OPTIONS), seals)


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


def _full_url(url: sa.URL) -> str:
    """Return the URL that opens the same database again."""
    if url.get_backend_name() == "sqlite":
        return f"{SQLITE_PREFIX}{url.database}"
    return url.render_as_string(hide_password=False)


def _parse_url(url: str | Path) -> sa.URL:
    if isinstance(url, Path) or url.startswith(SQLITE_PREFIX):
        # Not parsed: `make_url` would take a question mark in the name of a file for the start of options.
        return sa.URL.create("sqlite", database=str(url).removeprefix(SQLITE_PREFIX))
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise Invalid("The database URL is not valid.", hint=URL_HINT) from error
    # Hosting services print `postgres://`, which SQLAlchemy does not accept.
    if parsed.drivername in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "postgresql+psycopg":
        return parsed
    raise Invalid(f"Databases of the type {parsed.drivername[:40]!r} are not supported.", hint=URL_HINT)


# ASCII, so that any database encoding accepts it; NaN and infinity are not JSON.
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def _to_json(value: object) -> str:
    try:
        return _encode(value)
    except ValueError as error:
        raise Invalid(f"The database cannot store this value: {error}.", hint=PLAIN_TEXT_HINT) from error


_ENGINE_OPTIONS: dict[str, Any] = {"json_serializer": _to_json, "json_deserializer": from_json}
_engines: weakref.WeakSet[sa.Engine] = weakref.WeakSet()


def _drop_inherited_connections() -> None:
    """Forget the parent's connections in a forked child. Using or closing them would disturb the parent."""
    for engine in _engines:
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited_connections)


_FileIdentity = tuple[int, int] | None


class DeferredDatabase:
    """A database that is opened on first use, and reopened if its file was replaced.

    A SQLite file that is removed or replaced while open would silently accept writes that can never be read, so the file is
    checked before each use and after each write.
    """

    def __init__(self, url: str, seals: Seals = PROCESS_SEALS, *, ours_only: bool = False) -> None:
        self.location = display_url(url)
        self.url = url
        self._seals = seals
        self._ours_only = ours_only
        self._path = sqlite_path(url)
        self._lock = threading.Lock()
        self._opened: tuple[Database, _FileIdentity] | None = None
        self._refused: tuple[object, Refused] | None = None

    def read(self) -> AbstractContextManager[sa.Connection]:
        """Return a connection that sees one state of the database throughout."""
        return self._current()[0].read()

    def write(self) -> AbstractContextManager[sa.Connection]:
        """Return a transaction: committed when the block ends, rolled back if it raises."""
        database, identity = self._current()

        def check_replaced() -> None:
            if self._identity() != identity:
                raise Unavailable(
                    f"The database {self.location} was removed or replaced during a write.",
                    hint="Repeat the change; it is then written to the current database.",
                )

        return database.write(after=check_replaced)

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all reads that this thread makes inside the block share one transaction."""
        return self._current()[0].snapshot()

    def refusal(self) -> Refused | None:
        """Return why the content of the file prevents its use; None if it can be used, or does not exist yet."""
        try:
            found = os.stat(self._path) if self._path else None  # noqa: PTH116  (as in `_identity`)
        except OSError:
            return None
        # Judging a file may take half a second, so that is not repeated while it stays the same.
        state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size) if found else None
        if self._refused is None or self._refused[0] != state:
            self._refused = None
            try:
                self._current()
            except Refused as error:
                self._refused = (state, error)
        return self._refused[1] if self._refused else None

    @property
    def is_open(self) -> bool:
        """True if the database was used before."""
        return self._opened is not None

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            if self._opened:
                self._opened[0].close()
            self._opened = None

    def _current(self) -> tuple[Database, _FileIdentity]:
        with self._lock:
            if self._opened is None or self._opened[1] != self._identity():
                if self._opened:
                    self._opened[0].close()
                self._opened = None
                database = open_database(self.url, self._seals, ours_only=self._ours_only)
                self._opened = (database, self._identity())  # only now: opening creates a missing file
            return self._opened

    def _identity(self) -> _FileIdentity:
        """Return the device and inode of the file; None for a server or a missing file."""
        try:
            found = os.stat(self._path) if self._path else None  # noqa: PTH116  (called at each use, and faster than pathlib)
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if found else None
