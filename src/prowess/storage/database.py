"""One database, SQLite or PostgreSQL: connections for reading and writing, and tables that are up to date."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, cast

import sqlalchemy as sa
from sqlalchemy import exc

from prowess.errors import Invalid, Unavailable
from prowess.storage import migrate
from prowess.storage.faults import PLAIN_HINT, URL_HINT, masked, translated
from prowess.storage.location import SQLITE
from prowess.storage.rows import from_json
from prowess.storage.sqlite import sqlite_engines
from prowess.storage.turns import Turns


class Connections(Protocol):
    """Where connections to one database come from; whatever goes wrong is raised as a ProwessError."""

    location: str
    """Where it is, for people."""

    url: str
    """Where it is, with the password, for a connection of one's own; never shown."""

    def read(self) -> AbstractContextManager[sa.Connection]:
        """A connection that sees one state of the database throughout."""
        ...

    def write(self) -> AbstractContextManager[sa.Connection]:
        """A transaction: all of it is kept when the block ends, nothing of it when the block raises."""
        ...


class Database:
    """A database with Prowess's tables. Safe for many threads; a forked child opens connections of its own.

    Whatever goes wrong in it is raised as a ProwessError.
    """

    def __init__(self, reader: sa.Engine, writer: sa.Engine) -> None:
        self.location = masked(writer.url)
        self.url = _whole(writer.url)
        self._reader = reader
        self._writer = writer
        self._turns = Turns() if writer.dialect.name == "sqlite" else nullcontext()
        self._errors = cast("type[Exception]", writer.dialect.loaded_dbapi.Error)
        _engines.add(writer)

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """A connection that sees one state of the database throughout."""
        with translated(self.location, self._errors), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """A transaction: all of it is kept when the block ends, nothing of it when the block raises."""
        with translated(self.location, self._errors), self._turns, self._writer.begin() as connection:
            yield connection

    def migrate(self) -> None:
        """Bring the tables up to date; costs one query when they are."""
        with translated(self.location, self._errors):
            with self._reader.connect() as connection:
                found = migrate.revision(connection)
            if not migrate.check_revision(found, self.location):
                with self._writer.begin() as connection:
                    migrate.upgrade(connection, self.location)

    def close(self) -> None:
        """Close every connection that is not in use."""
        self._writer.dispose()


def open_database(url: str | Path) -> Database:
    """Open a database, making and migrating it where needed.

    A `Path`, or all that follows `sqlite:///`, is the path of a SQLite file as it stands, whatever characters it has.

    `Unavailable` when it cannot be reached, cannot be used or was written by a newer Prowess; `Invalid` when the
    URL is not one of a database that Prowess knows.
    """
    parsed = _parse(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    database = Database(*sqlite_engines(parsed, **_OPTIONS)) if sqlite else Database(*_postgres_engines(parsed))
    try:
        database.migrate()
    except BaseException:
        database.close()
        raise
    return database


def _whole(url: sa.URL) -> str:
    """The URL that opens the same database again."""
    if url.get_backend_name() == "sqlite":
        return f"{SQLITE}{url.database}"
    return url.render_as_string(hide_password=False)


def _parse(url: str | Path) -> sa.URL:
    if isinstance(url, Path) or url.startswith(SQLITE):
        return sa.URL.create("sqlite", database=str(url).removeprefix(SQLITE))
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise Invalid("The database URL cannot be read.", hint=URL_HINT) from error
    if parsed.drivername in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "postgresql+psycopg":
        return parsed
    raise Invalid(f"Prowess does not work with databases of the kind {parsed.drivername[:40]!r}.", hint=URL_HINT)


def _postgres_engines(url: sa.URL) -> tuple[sa.Engine, sa.Engine]:
    try:
        writer = sa.create_engine(url, pool_pre_ping=True, pool_size=8, max_overflow=24, **_OPTIONS)
    except ModuleNotFoundError as error:
        raise Unavailable(
            "PostgreSQL needs the psycopg driver, which is not installed.", hint="pip install 'prowess[postgres]'"
        ) from error
    # Two selects of one read must see one state.
    return writer.execution_options(isolation_level="REPEATABLE READ"), writer


# ASCII, so that no database minds a character in it, and without the numbers that are not JSON.
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def _to_json(value: object) -> str:
    try:
        return _encode(value)
    except ValueError as error:
        raise Invalid(f"No database can hold this value: {error}.", hint=PLAIN_HINT) from error


_OPTIONS: dict[str, Any] = {"json_serializer": _to_json, "json_deserializer": from_json}
_engines: weakref.WeakSet[sa.Engine] = weakref.WeakSet()


def _forget_connections() -> None:
    """A forked child must not use, nor close, the connections of its parent."""
    for engine in _engines:
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)
