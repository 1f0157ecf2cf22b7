"""Read rows fast: selects compiled once per dialect, JSON decoded directly, models built without validating again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

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
