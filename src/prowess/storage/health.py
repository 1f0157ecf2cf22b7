"""Whether a database is sound."""

from __future__ import annotations

from prowess.storage.database import Database


def damage(database: Database) -> str:
    """What SQLite's own check finds wrong with the file; '' for a sound one, and for a server, which checks itself."""
    with database.read() as connection:
        if connection.dialect.name != "sqlite":
            return ""
        told = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    return "" if told == "ok" else str(told)
