"""Bringing a database's tables up to date, exactly once, however many programs open it at the same moment."""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from prowess.errors import Invalid, Unavailable
from prowess.storage.faults import is_missing_table

HEAD = "0005"
"""The newest revision; known here so that an up-to-date database is opened without importing alembic."""

MIGRATIONS = Path(__file__).parent / "migrations"

# Any fixed number will do, as long as every Prowess takes the same one.
_ADVISORY_LOCK = 7769657373
# alembic hands the running migration to its scripts through module globals.
_alembic = threading.Lock()


def revision(connection: sa.Connection) -> str | None:
    """The revision that the tables are at, or None where there are none yet."""
    try:
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    except exc.DBAPIError as error:
        if is_missing_table(error):
            return None
        raise


def check_revision(found: str | None, location: str) -> bool:
    """Whether the tables are up to date; a database from the future, or somebody else's, is refused."""
    if found in (HEAD, None) or (found.isdigit() and int(found) < int(HEAD)):
        return found == HEAD
    if found.isdigit():
        raise Unavailable(
            f"The database {location} was written by a newer Prowess (revision {found}; this one knows {HEAD}).",
            hint="Upgrade with `pip install -U prowess`, or name another database.",
        )
    raise Invalid(
        f"The database {location} belongs to another program (its revision is {found[:40]!r}).",
        hint="Name a database of its own for Prowess.",
    )


def upgrade(connection: sa.Connection, location: str) -> None:
    """Run what is missing, in the transaction of `connection`, which holds the write lock on SQLite.

    On PostgreSQL an advisory lock lets one program migrate while the others wait and then find it done.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        found = _postgres_revision(connection)
    else:
        found = revision(connection)
    if not check_revision(found, location):
        run_alembic(connection)


def _postgres_revision(connection: sa.Connection) -> str | None:
    """As `revision`, but without an error, which would end the transaction."""
    exists = connection.execute(sa.text("SELECT to_regclass('alembic_version')")).scalar()
    return revision(connection) if exists else None


def run_alembic(connection: sa.Connection) -> None:
    """Upgrade to the newest revision."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _alembic:
        command.upgrade(config, "head")
