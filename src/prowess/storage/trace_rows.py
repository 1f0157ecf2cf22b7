"""Rows of traces, written many at a time.

PostgreSQL takes them as one JSON text that the server takes apart, which is the least work for this side of the connection.
SQLite takes them as values, many in one statement: between statements other threads of this process get their turn, and
a writer that gave way after every row would wait for most of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, cast

import sqlalchemy as sa
from pydantic_core import to_json

from prowess.errors import Invalid
from prowess.storage.faults import PLAIN_HINT
from prowess.storage.run_tables import traces
from prowess.storage.tables import DOCUMENT

COLUMNS = tuple(column.name for column in traces.columns)
_DOCUMENTS = tuple(place for place, column in enumerate(traces.columns) if column.type is DOCUMENT)
_NAMES = ", ".join(COLUMNS)
_ENDED = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in {"id", "created_at"})
_INSERT = f"INSERT INTO {traces.name} ({_NAMES}) "
_FROM_JSON = f"SELECT {_NAMES} FROM json_populate_recordset(NULL::{traces.name}, %s) "  # noqa: S608  (names of ours)
_PLACES = f"({', '.join('?' * len(COLUMNS))})"
_TOGETHER = 32
_JSON_CHARS = 8 * 1024 * 1024
_BEGIN = "ON CONFLICT (id) DO NOTHING"
_END = f"ON CONFLICT (id) DO UPDATE SET {_ENDED}"

_values = cast("Callable[[Mapping[str, Any]], tuple[Any, ...]]", itemgetter(*COLUMNS))


def json_text(value: Any) -> str:
    """A value as it is written; `ValueError` for one that is not JSON. Numbers that are not finite become words."""
    return to_json(value, inf_nan_mode="strings").decode()


def insert_many(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows of runs that began; one whose id is there already is left as it is."""
    _write(connection, rows, _BEGIN)


def finish_many(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of runs that ended, whether or not their beginning is there. No id may occur twice."""
    _write(connection, rows, _END)


def _write(connection: sa.Connection, rows: Sequence[Mapping[str, Any]], conflict: str) -> None:
    if not rows:
        return
    try:
        if connection.dialect.name == "postgresql":
            for text in _json_lists(rows):
                connection.exec_driver_sql(f"{_INSERT}{_FROM_JSON}{conflict}", (text,))
        else:
            _write_values(connection, [_tuple(row) for row in rows], conflict)
    except ValueError as error:
        raise Invalid(f"No database can hold this trace: {error}.", hint=PLAIN_HINT) from error


def _json_lists(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as lists of JSON, none of them much longer than a server likes."""
    texts: list[str] = []
    length = 0
    for row in rows:
        text = json_text(row)
        if texts and length + len(text) > _JSON_CHARS:
            yield f"[{','.join(texts)}]"
            texts, length = [], 0
        texts.append(text)
        length += len(text)
    yield f"[{','.join(texts)}]"


def _write_values(connection: sa.Connection, values: list[tuple[Any, ...]], conflict: str) -> None:
    whole = len(values) - len(values) % _TOGETHER
    groups = [tuple(chain(*values[start : start + _TOGETHER])) for start in range(0, whole, _TOGETHER)]
    for count, parameters in ((_TOGETHER, groups), (1, values[whole:])):
        if parameters:
            places = ", ".join([_PLACES] * count)
            connection.exec_driver_sql(f"{_INSERT}VALUES {places} {conflict}", parameters)


def _tuple(row: Mapping[str, Any]) -> tuple[Any, ...]:
    values = list(_values(row))
    for place in _DOCUMENTS:
        values[place] = json_text(values[place])
    return tuple(values)
