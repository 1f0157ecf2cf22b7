"""Write two files in src/prowess/storage that save imports: new_database.sql and sqlite_texts.json.

The first creates the tables of a new SQLite database without alembic. The second has the text of each statement in
`storage.sql`, so that it is executed without SQLAlchemy. Run it after adding a migration or changing a statement:
`python scripts/schema.py`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import StatementError

from prowess.storage import sql
from prowess.storage.database import HEAD_REVISION, NEW_DATABASE, run_alembic
from prowess.storage.rows import PROCESSORS, SQLITE_TEXTS, CompiledSelect, CompiledWrite, to_json
from prowess.storage.sqlite_dialects import SqliteReadDialect

SAMPLES: dict[str, list[Any]] = {
    "json": [{"a": [1, "é"]}, None],
    "bytes": [b"\0\xff", None],
    "bool": [True, False, None],
    "float": [1, 0.5, None],
}
"""Values for which a processor must agree with SQLAlchemy's own."""


def make_schema() -> str:
    """Return the statements that give the tables of all migrations, as SQLite stores them."""
    with sa.create_engine("sqlite://").begin() as connection:
        run_alembic(connection)
        # SQLite makes tables and indexes without text, and those of its own, by itself.
        made = sa.text(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        )
        statements = [*connection.execute(made).scalars()]
    head = f"-- Revision {HEAD_REVISION}. Written by scripts/schema.py from the migrations. Do not edit.\n"
    return head + "".join(f"{statement};\n" for statement in statements)


def make_texts() -> str:
    """Return the text of the compiled statements in `storage.sql`: of all selects, and of writes whose values are named."""
    lines: list[str] = []
    dialect: Any = SqliteReadDialect(dbapi=sqlite3, json_serializer=to_json)
    for module in sorted(found.name for found in iter_modules(sql.__path__)):
        for name, statement in vars(import_module(f"{sql.__name__}.{module}")).items():
            if isinstance(statement, CompiledSelect):
                text = statement.compile(dialect)._asdict()
            elif isinstance(statement, CompiledWrite) and statement.values:
                text = _describe_write(statement, dialect)
            else:
                continue
            lines.append(f"  {json.dumps(f'{module}.{name}')}: {json.dumps(text)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _describe_write(statement: CompiledWrite, dialect: Any) -> dict[str, Any]:
    # Of a connection, only the dialect matters.
    made = statement.compile(cast("Any", SimpleNamespace(dialect=dialect)), ("sqlite", frozenset(statement.values)))
    places = [(name, _kind_of(process)) for name, process in made.processors]
    return {"text": made.text, "places": places, "own": made.own, "values": sorted(statement.values)}


def _kind_of(process: Callable[[Any], Any] | None) -> str:
    """Return the name of the processor that gives the same to the driver."""
    for kind, ours in PROCESSORS.items():
        with suppress(TypeError, ValueError, StatementError):
            if (ours is process is None) or (
                ours and process and all(_is_same(ours(one), process(one)) for one in SAMPLES[kind])
            ):
                return kind
    raise ValueError(f"Add a processor like {process} to `storage.rows`.")


def _is_same(ours: object, theirs: object) -> bool:
    # 1, 1.0 and True are equal, but a column of numbers must not get whole ones.
    return type(ours) is type(theirs) and ours == theirs


if __name__ == "__main__":
    for path, text in ((NEW_DATABASE, make_schema()), (SQLITE_TEXTS, make_texts())):
        path.write_text(text)
        print(f"Wrote {path}.")
