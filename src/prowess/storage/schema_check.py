"""Check that a SQLite file holds exactly the tables and indexes of Prowess, before anything is read from them.

A database may come from anyone, for instance with a cloned workspace. A trigger would change what is written, and a view
named like one of our tables could return anything, or never end. So the text of every table and index is compared with
the output of the migrations of its revision. A mark records which installation made a database: one in a workspace is
used only if this installation made it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from prowess.errors import Refused
from prowess.storage.rows import LazyStatements, fetch
from prowess.storage.seals import seals_of
from prowess.storage.sqlite import no_deadline

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import installation as sql
else:
    sql = LazyStatements("installation")

FINGERPRINTS = {
    "0001": "0c316a943c65ee0d9e21fca3c8e44a81",
    "0002": "400b8ed4c21e01a298185eecb32bcc17",
    "0003": "088ea4b355bb6b7aeab16c21858c0956",
    "0004": "b6812f70a9bd65227dbf18c3591a72e6",
    "0005": "737f62e39825332d953062d22a0ac353",
    "0006": "470abeb67c50d2382edb4c28ab18b167",
    "0007": "4e9b550efc1380adff8b3ef62be7fe12",
    "0008": "7dfb2819d203a0baa0aa5f84e1be0dc2",
    "0009": "9e90e833581e11437506a8051ccdb430",
    "0010": "9e90e833581e11437506a8051ccdb430",
    "0011": "03d5baf01c32c412f2b25c4394e6027e",
    "0012": "b84e14ce757b3ce4cd26c1f127404d7d",
    "0013": "178826e1017601f931773bfae544f879",
    "0014": "6c060574e06f65380532f0608af5578f",
    "0015": "984a4dd6bf95d948c740911ae1c23b96",
    "0016": "6d0ec24e20feebe22bb7c6f5b3a0500a",
    "0017": "e1c29133e901412e4d0aa4afbb90a427",
    "0018": "a2465573e674159494ef1b2b25b463b3",
    "0019": "2ccfaabe81370fa1c046a7a1a6f98fb9",
    "0020": "15f02b7638deb96f80c67d0dd35e990b",
    "0021": "a3704e6d5771fbfbd09d9035088cabca",
    "0022": "d9a0391718c10428a0ec89a442e84c99",
}
"""The fingerprint of each revision. `tests/storage/test_schema_check.py` prints the line to add for a new one."""

SchemaRow = tuple[str, str, str, str | None]
"""Type, name, table and text of an object, as SQLite stores them."""

Migrate = Callable[["sa.Connection", str], None]

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_VERSION_TABLE = (
    "CREATE TABLE alembic_version ( version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num) )"
)
# `ANALYZE` makes these. SQLite's planner alone reads them.
_STATISTICS = {"CREATE TABLE sqlite_stat1(tbl,idx,stat)", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"}


def check_schema(connection: sa.Connection, location: str, migrate: Migrate) -> bool:
    """Return True if the file holds tables, and False if it is empty. Raise `Refused` if any object is not ours.

    `migrate` brings an empty database to a revision.
    """
    rows = [(kind, name, table, _normalize(text)) for kind, name, table, text in fetch(connection, _SCHEMA)]
    rows = [row for row in rows if row[3] not in _STATISTICS]
    if not rows:
        return False
    # A database that was migrated down to nothing has one table left.
    if fingerprint(rows) in FINGERPRINTS.values() or {text for *_, text in rows} <= {"", _VERSION_TABLE}:
        return True
    odd = [f"{kind} {name}" for kind, name, _, text in rows if kind not in ("table", "index") or _is_virtual(text)]
    if not odd and _is_newer(connection, rows):
        return True
    if not odd and fingerprint(rows) in _fingerprints_here(migrate):
        return True
    what = f"It contains the unexpected {odd[0][:80]!r}." if odd else "Its tables differ from those of Prowess."
    raise Refused(
        f"The database {location} is not used because another program changed it. {what}",
        hint="Restore it from a backup, or move it away and import the skills again with `prowess import`.",
    )


def fingerprint(rows: Sequence[SchemaRow]) -> str:
    """Return a checksum over all objects of a schema."""
    text = json.dumps(sorted([kind, name, table, _normalize(text)] for kind, name, table, text in rows))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_schema(connection: sa.Connection) -> list[Any]:
    """Return all objects of a schema."""
    return fetch(connection, _SCHEMA)


def _normalize(text: str | None) -> str:
    return " ".join((text or "").split())


def _is_virtual(text: str) -> bool:
    return text.upper().startswith("CREATE VIRTUAL")


def _is_newer(connection: sa.Connection, rows: Sequence[SchemaRow]) -> bool:
    """Return True if a newer Prowess made the tables, so that the caller can report that."""
    if not any(text == _VERSION_TABLE for _, _, _, text in rows):
        return False
    # A file that someone else made may have any number of rows.
    numbers = fetch(connection, "SELECT version_num FROM alembic_version LIMIT 1")
    found = str(numbers[0][0]) if numbers else ""
    return found.isdigit() and int(found) > max(map(int, FINGERPRINTS))


def _fingerprints_here(migrate: Migrate) -> set[str]:
    """Return the fingerprints of the migrations with the installed SQLAlchemy, which may write other text."""
    import sqlalchemy as sa

    found: set[str] = set()
    with sa.create_engine("sqlite://").begin() as connection:
        for revision in FINGERPRINTS:
            migrate(connection, revision)
            found.add(fingerprint(read_schema(connection)))
    return found


_MARKED_SINCE = 8
"""The revision that added the table of marks."""


def add_mark(connection: sa.Connection) -> None:
    """Record that this installation made, or adopted, the database."""
    mark_id = secrets.token_hex(16)
    sql.INSERT.run(connection, [{"id": mark_id, "seal": seals_of(connection).make(("database", mark_id))}])


def has_mark(connection: sa.Connection) -> bool:
    """Return True if this installation made, or adopted, the database."""
    seals = seals_of(connection)
    return any(
        seals.check(seal, 0, ("database", mark_id)) == "valid" for mark_id, seal in sql.MARKS.rows(connection, {})
    )


def check_mark(connection: sa.Connection, revision: str, location: str) -> None:
    """Raise `Refused` if another installation made the database, whose tables have this revision."""
    if int(revision) < _MARKED_SINCE or not has_mark(connection):
        raise Refused(
            f"The database {location} is not used: it came with the workspace and was not created by "
            "Prowess on this machine.",
            hint="If you trust its source, run `prowess doctor --adopt-database`. Otherwise delete it.",
        )


def check_integrity(connection: sa.Connection) -> str:
    """Return the report of SQLite's integrity check; '' for an intact file, and for a server, which checks itself."""
    if connection.dialect.name != "sqlite":
        return ""
    with no_deadline(connection):
        [[problem]] = fetch(connection, "PRAGMA quick_check(1)")
    return "" if problem == "ok" else str(problem)
