"""Read and write rows fast: statements compiled once per dialect, JSON decoded directly, models built without validating again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import pydantic_core
import sqlalchemy as sa

from prowess.skill.kinds import FrozenModel

Model = TypeVar("Model", bound=FrozenModel)

# Models are frozen: their own `__setattr__` refuses.
_set_attribute = object.__setattr__


def build_model(model: type[Model], values: dict[str, Any]) -> Model:
    """Return a model with exactly these values, one for every field, without validating what was validated before.

    This is pydantic's `model_construct` without the search for aliases and defaults, which took a third of the time
    of reading a skill.
    """
    made = model.__new__(model)
    _set_attribute(made, "__dict__", values)
    _set_attribute(made, "__pydantic_fields_set__", set(values))
    _set_attribute(made, "__pydantic_extra__", None)
    _set_attribute(made, "__pydantic_private__", None)
    return made


def field_defaults(model: type[FrozenModel], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the default of each of these fields; None for a required field."""
    fields = model.model_fields
    return {
        name: None if fields[name].is_required() else fields[name].get_default(call_default_factory=True)
        for name in names
    }


def raw_json(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return a JSON column as the driver gives it; SQLAlchemy's own decoding is several times slower than `decode_json`."""
    return sa.type_coerce(column, sa.Text).label(column.name)


def decode_json(value: Any) -> Any:
    """Return the value of a `raw_json` column: SQLite gives text, psycopg a decoded value.

    Not for columns that may hold a bare JSON string, which looks the same as undecoded text.
    """
    return from_json(value) if isinstance(value, str) else value


def from_json(text: str | bytes) -> Any:
    """Parse JSON fast. Fall back to the standard library for lone surrogates, which the fast parser rejects."""
    try:
        return pydantic_core.from_json(text)
    except ValueError:
        return json.loads(text)


class CompiledSelect:
    """A select that is compiled once per dialect and returns the driver's plain tuples.

    `Connection.execute` takes 100 µs for a select that the driver runs in 20, and a skill is read at every step of an
    agent. Driver errors pass through; `Database.read` translates them.
    """

    def __init__(self, statement: sa.Select[*tuple[Any, ...]] | sa.CompoundSelect[*tuple[Any, ...]]) -> None:
        self._statement = statement
        self._texts: dict[str, tuple[str, list[str] | None, dict[str, Any]]] = {}

    def first(
        self, connection: sa.Connection, parameters: Mapping[str, str | int | list[str]]
    ) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        rows = self.rows(connection, parameters)
        return rows[0] if rows else None

    def rows(self, connection: sa.Connection, parameters: Mapping[str, str | int | list[str]]) -> list[tuple[Any, ...]]:
        """Return all rows."""
        text, places, own = self._texts.get(connection.dialect.name) or self._compile(connection.dialect)
        cursor = connection.connection.cursor()
        try:
            given = {**own, **parameters} if own else parameters
            values = given if places is None else [given[name] for name in places]
            connection.dialect.do_execute(cursor, text, values)  # with the deadline of the dialect
            return cast("list[tuple[Any, ...]]", cursor.fetchall())
        finally:
            cursor.close()

    def _compile(self, dialect: sa.Dialect) -> tuple[str, list[str] | None, dict[str, Any]]:
        compiled = self._statement.compile(dialect=dialect)
        places = list(compiled.positiontup or ()) if compiled.positional else None
        # Values that are part of the statement.
        own = {name: value for name, value in compiled.params.items() if value is not None}
        self._texts[dialect.name] = (compiled.string, places, own)
        return compiled.string, places, own


class CompiledWrite:
    """An insert, update or delete that is compiled once per dialect, for values that have the same names each time.

    `Connection.execute` takes 100 µs for an insert that the driver runs in 30. Driver errors pass through;
    `Database.write` translates them.
    """

    def __init__(self, statement: sa.Insert | sa.Update | sa.Delete | Callable[[sa.Connection], sa.Insert]) -> None:
        """Take a statement, or a function of `dialect_insert` that returns one."""
        self._statement = statement
        self._texts: dict[tuple[str, ...], _WriteText] = {}

    def run(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute the statement once for each of these rows, at least one, and return how many rows that changed."""
        key = (connection.dialect.name, *rows[0])
        compiled = self._texts.get(key) or self._compile(connection, key)
        values = [compiled.bind(row) for row in rows]
        cursor = connection.connection.cursor()
        try:
            if len(values) == 1:
                connection.dialect.do_execute(cursor, compiled.text, values[0])  # with the deadline of the dialect
            else:
                connection.dialect.do_executemany(cursor, compiled.text, values)
            return cursor.rowcount
        finally:
            cursor.close()

    def _compile(self, connection: sa.Connection, key: tuple[str, ...]) -> _WriteText:
        dialect = connection.dialect
        statement = self._statement(connection) if callable(self._statement) else self._statement
        compiled = statement.compile(dialect=dialect, column_keys=list(key[1:]))
        types = {name: bind.type.dialect_impl(dialect) for bind, name in compiled.bind_names.items()}
        names = (compiled.positiontup if compiled.positional else types) or ()
        made = _WriteText(
            text=compiled.string,
            processors=[(name, types[name].bind_processor(dialect)) for name in names],
            is_positional=compiled.positional,
            own={name: value for name, value in compiled.params.items() if value is not None},
        )
        self._texts[key] = made
        return made


class _WriteText(NamedTuple):
    """The text of a statement for one dialect, and how each value is given to the driver, in their order."""

    text: str
    processors: list[tuple[str, Callable[[Any], Any] | None]]
    is_positional: bool
    own: dict[str, Any]
    """Values that are part of the statement."""

    def bind(self, row: Mapping[str, Any]) -> Any:
        """Return the values of a row as the driver takes them."""
        row = {**self.own, **row} if self.own else row
        values = [process(row[name]) if process else row[name] for name, process in self.processors]
        if self.is_positional:
            return values
        return dict(zip((name for name, _ in self.processors), values, strict=True))
