"""Find values in a SQLite file that their columns cannot hold. Only another program can have written them.

SQLite stores a value of any type in any column. To check each one when it is read would slow down every command, so this
is done once something has failed, and by `prowess doctor`. PostgreSQL checks types by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.storage.rows import fetch

if TYPE_CHECKING:
    import sqlalchemy as sa

_OBJECTS = ("data", "detail", "pending")
"""Columns with a JSON object. Others may have a list or a single value."""


def find_wrong_values(connection: sa.Connection) -> dict[str, int]:
    """Return how many values of a column have a wrong type, or are not valid JSON, by `table.column`."""
    if connection.dialect.name != "sqlite":
        return {}
    found: dict[str, int] = {}
    for (table,) in fetch(
        connection, "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE %'"
    ):
        columns = fetch(connection, "SELECT name, type FROM pragma_table_info(?)", (table,))
        tests = {name: test for name, kind in columns if (test := _wrong(name, kind))}
        if not tests:
            continue
        sums = ", ".join(f"sum({test})" for test in tests.values())
        # The names are those of our tables: a file with others is not opened.
        (counts,) = fetch(connection, f'SELECT {sums} FROM "{table}"')  # noqa: S608
        found |= {f"{table}.{name}": count for name, count in zip(tests, counts, strict=True) if count}
    return found


def _wrong(name: str, kind: str) -> str:
    """Return an SQL expression that is true for a wrong value of a column; '' if any value is right."""
    column = f'"{name}"'
    match kind.partition("(")[0]:
        case "TEXT" | "VARCHAR":
            return f"typeof({column}) = 'blob'"
        case "INTEGER" | "BIGINT" | "BOOLEAN":
            return f"typeof({column}) NOT IN ('integer', 'null')"
        case "FLOAT":
            return f"typeof({column}) NOT IN ('real', 'integer', 'null')"
        case "JSON":
            # Not both in one condition: `json_type` fails for what is not JSON.
            other = f"coalesce(json_type({column}), 'object') <> 'object'" if name in _OBJECTS else "0"
            return (
                f"CASE WHEN typeof({column}) = 'blob' OR NOT coalesce(json_valid({column}), 1) THEN 1 ELSE {other} END"
            )
        case _:
            return ""
