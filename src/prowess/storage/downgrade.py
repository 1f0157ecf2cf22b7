"""Show the revision of a database, and migrate it down so that an older Prowess can use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from prowess.errors import Conflict, Invalid
from prowess.storage.database import HEAD_REVISION, Database, lock_migrations, revision, run_alembic
from prowess.storage.sqlite import no_deadline
from prowess.storage.sqlite_driver import real_connection

DERIVED = frozenset(
    {
        "installation",
        "registry_entries.digest",
        "session_skills.seal",
        "skill_versions.feed",
        "skills.people_only",
        "skills.reader",
        "skills.seal",
    }
)
"""Tables and columns that are computed again from others when they are missing, so that nothing is lost with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStatus:
    """The revision of a database's tables, and the one that this Prowess uses."""

    revision: str
    newest: str
    state: Literal["current", "older", "newer", "empty", "foreign"]
    server: str
    bytes: int


def read_status(database: Database) -> SchemaStatus:
    """Return the revision of a database and its size. Changes nothing."""
    with database.read() as connection:
        sqlite = connection.dialect.name == "sqlite"
        version = "SELECT sqlite_version()" if sqlite else "SHOW server_version"
        server = (
            f"{'SQLite' if sqlite else 'PostgreSQL'} {str(connection.execute(sa.text(version)).scalar()).split()[0]}"
        )
        tables = sa.inspect(real_connection(connection)).get_table_names()
        found = (revision(connection) or "") if "alembic_version" in tables else ""
        size = "page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        query = f"SELECT {size if sqlite else 'pg_database_size(current_database())'}"
        bytes_used = int(connection.execute(sa.text(query)).scalar_one())
    return SchemaStatus(
        revision=found, newest=HEAD_REVISION, state=_state(found, tables), server=server, bytes=bytes_used
    )


def _state(found: str, tables: list[str]) -> Literal["current", "older", "newer", "empty", "foreign"]:
    if not found:
        return "foreign" if set(tables) - {"alembic_version"} else "empty"
    if not found.isdigit():
        return "foreign"
    return "current" if found == HEAD_REVISION else "older" if found < HEAD_REVISION else "newer"


def migrate_down(database: Database, to: str, *, lose_data: bool = False) -> dict[str, int]:
    """Migrate a database down to a revision, and return what was deleted: tables and columns, each with its number of rows.

    Raise `Invalid` for a revision that is not older than the present one, and `Conflict`, with nothing changed, if rows
    would be deleted and `lose_data` is not set. Both happen in the transaction that changes the tables, so nobody can
    write in between.
    """
    with database.write() as connection, no_deadline(connection):
        lock_migrations(connection)
        _check_target(revision(connection) or "", to)
        before = _count_values(connection)
        run_alembic(connection, to, down=True)
        remaining = _tables_and_columns(connection)
        gone = {name: rows for name, rows in before.items() if rows and name not in remaining and name not in DERIVED}
        # The columns of a table that is gone go without saying.
        lost = {name: rows for name, rows in gone.items() if "." not in name or name.partition(".")[0] in remaining}
        if lost and not lose_data:
            listed = ", ".join(
                f"{name} ({rows:,} {'row' if rows == 1 else 'rows'})" for name, rows in sorted(lost.items())
            )
            raise Conflict(
                f"Migrating down to {to} would delete data that the older version cannot keep: {listed}.",
                hint="Make a backup, then pass --delete-data to delete it.",
            )
    return lost


def _check_target(found: str, to: str) -> None:
    known = [f"{number:04}" for number in range(1, int(HEAD_REVISION) + 1)]
    if found not in known:
        raise Invalid(
            f"The database has the revision {found or 'none'!r}, which this version of Prowess cannot migrate.",
            hint="Run `prowess database status`.",
        )
    if to not in known or to >= found:
        raise Invalid(
            f"Cannot migrate down from {found} to {to[:40]!r}.",
            hint=f"Use a revision from 0001 to {known[max(0, int(found) - 2)]}." if found > "0001" else "",
        )


def _tables_and_columns(connection: sa.Connection) -> set[str]:
    inspector = sa.inspect(real_connection(connection))
    tables = inspector.get_table_names()
    return {*tables, *(f"{table}.{column['name']}" for table in tables for column in inspector.get_columns(table))}


def _count_values(connection: sa.Connection) -> dict[str, int]:
    """Return the number of rows of each table, and of values in each column."""
    inspector = sa.inspect(real_connection(connection))
    counts: dict[str, int] = {}
    for table in inspector.get_table_names():
        names = [column["name"] for column in inspector.get_columns(table)]
        source = sa.table(table, *map(sa.column, names))
        query = sa.select(sa.func.count(), *(sa.func.count(source.c[name]) for name in names)).select_from(source)
        rows, *values = connection.execute(query).one()
        counts |= {table: rows, **{f"{table}.{name}": many for name, many in zip(names, values, strict=True)}}
    return counts
