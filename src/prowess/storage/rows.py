"""Read and write rows fast: statements compiled once per dialect, and JSON decoded directly.

The statements of the modules in `storage.sql` are compiled for SQLite ahead of time, into sqlite_texts.json, so that a
short command does not import SQLAlchemy. `scripts/schema.py` writes that file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import pydantic_core

from prowess.errors import Invalid
from prowess.patterns import lazy_pattern
from prowess.skill.kinds import FrozenModel
from prowess.storage.driver_errors import PLAIN_TEXT_HINT, reading, wrong_value
from prowess.storage.sqlite_driver import real_connection

if TYPE_CHECKING:
    import sqlalchemy as sa

Row = TypeVar("Row")

SQLITE_TEXTS = Path(__file__).with_name("sqlite_texts.json")
"""The text of each statement in `storage.sql` for SQLite, by module and name, as `make_texts` returns it."""


def field_defaults(model: type[FrozenModel], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the default of each of these fields; None for a required field."""
    fields = model.model_fields
    return {
        name: None if fields[name].is_required() else fields[name].get_default(call_default_factory=True)
        for name in names
    }


def raw_json(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return a JSON column as the driver gives it; SQLAlchemy's own decoding is several times slower than `decode_json`."""
    import sqlalchemy as sa

    return sa.type_coerce(column, sa.Text).label(column.name)


def raw_columns(columns: Iterable[sa.Column[Any]]) -> list[sa.ColumnElement[Any]]:
    """Return columns, each that holds JSON as `raw_json`."""
    import sqlalchemy as sa

    return [raw_json(column) if isinstance(column.type, sa.JSON) else column for column in columns]


def row_values(row: object) -> dict[str, Any]:
    """Return the fields of a dataclass by name, to insert them."""
    return {name: getattr(row, name) for name in type(row).__annotations__}


def convert_row(row: object, kind: Callable[..., Row], **others: Any) -> Row:
    """Return a dataclass with the values of the fields that it shares with a row, and these others."""
    shared = type(row).__annotations__.keys() & kind.__annotations__.keys()
    return kind(**{name: getattr(row, name) for name in shared - others.keys()}, **others)


def make_row(kind: Callable[..., Row], values: Sequence[Any], documents: Sequence[str] = ()) -> Row:
    """Return the dataclass whose fields have these values, in their order. `documents` are read as `raw_json`."""
    row: dict[str, Any] = dict(zip(kind.__annotations__, values, strict=True))
    return check_types(kind, row | {name: decode_json(row[name]) for name in documents})


def check_types(kind: Callable[..., Row], row: Mapping[Any, Any]) -> Row:
    """Return the dataclass with these fields. Raise `Unavailable` if one has another type than its annotation says.

    SQLite stores text in a column of numbers.
    """
    made = kind(**row)
    values_of, types = _typed_fields(kind)
    if not all(map(isinstance, values_of(made), types)):
        raise wrong_value()
    return made


# Not those of JSON columns: callers name the row whose JSON is wrong, or leave only that row out.
_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int, float), "float": (float, int), "bool": (int,)}


@cache
def _typed_fields(kind: Callable[..., Any]) -> tuple[Callable[[Any], Iterable[Any]], list[tuple[type, ...]]]:
    """Return how to get the fields of a dataclass that have a plain type, and the types that they can have."""
    known: dict[str, tuple[type, ...]] = {}
    for name, annotation in kind.__annotations__.items() if isinstance(kind, type) else ():
        plain = annotation.removesuffix(" | None")
        if types := _TYPES.get(plain):
            known[name] = types if plain == annotation else (*types, NoneType)
    # With one name, `attrgetter` returns no tuple.
    return (attrgetter(*known) if len(known) > 1 else lambda _: ()), list(known.values())


def decode_json(value: Any) -> Any:
    """Return the value of a `raw_json` column: SQLite gives text, psycopg a decoded value.

    Not for columns that may hold a bare JSON string, which looks the same as undecoded text.
    """
    return from_json(value) if isinstance(value, str) else value


def decode_object(value: Any, row: str) -> dict[str, Any]:
    """Return the object in a `raw_json` column. Raise `Unavailable`, which names the row, if there is something else."""
    with reading(row):
        found = decode_json(value)
        if not isinstance(found, dict):
            raise TypeError(f"an object was expected, not {type(found).__name__}")
        return cast("dict[str, Any]", found)


def from_json(text: str | bytes) -> Any:
    """Parse JSON fast. Fall back to the standard library for lone surrogates, which the fast parser rejects."""
    try:
        return pydantic_core.from_json(text)
    except ValueError:
        try:
            return json.loads(text)
        except RecursionError as error:
            raise ValueError("The JSON is nested too deeply.") from error


# ASCII, so that any database encoding accepts it; NaN and infinity are not JSON.
_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def to_json(value: object) -> str:
    """Return the text of a JSON column. Raise `Invalid` if the value has none."""
    try:
        return _encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise Invalid(f"The database cannot store this value: {error}.", hint=PLAIN_TEXT_HINT) from error


def fetch(connection: sa.Connection, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a statement in the words of the driver. Driver errors pass through."""
    cursor = connection.connection.cursor()
    try:
        connection.dialect.do_execute(cursor, statement, cast("Any", values))
        return cast("list[tuple[Any, ...]]", cursor.fetchall())
    finally:
        cursor.close()


def lock_name(connection: sa.Connection, *name: str) -> None:
    """Wait until no other transaction holds this name, and hold it until the caller's transaction ends.

    PostgreSQL needs this for a change that depends on rows which are not there yet, and so cannot be locked. SQLite has one
    writer at a time anyway. The first part of a name says what it is for. Names with equal hashes only wait for each other.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", ("\n".join(name),))


class CompiledSelect:
    """A select that is compiled once per dialect and returns the driver's plain tuples.

    `Connection.execute` takes 100 µs for a select that the driver runs in 20, and a skill is read at every step of an
    agent. Driver errors pass through; `Database.read` translates them.
    """

    def __init__(
        self,
        statement: sa.Select[*tuple[Any, ...]] | sa.CompoundSelect[*tuple[Any, ...]] | Callable[[], CompiledSelect],
        texts: dict[str, _SelectText] | None = None,
    ) -> None:
        """Take a statement, or a function that returns the select whose texts are given."""
        self._statement = statement
        self._texts = texts or {}

    def first(
        self, connection: sa.Connection, parameters: Mapping[str, str | int | list[str]]
    ) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        rows = self.rows(connection, parameters)
        return rows[0] if rows else None

    def rows(self, connection: sa.Connection, parameters: Mapping[str, str | int | list[str]]) -> list[tuple[Any, ...]]:
        """Return all rows."""
        name = connection.dialect.name
        text, places, own = self._texts.get(name) or self.compile(real_connection(connection).dialect)
        bound = {**own, **parameters} if own else parameters
        if _LIST in text:
            if places is None:
                return [tuple(row) for row in connection.execute(self.statement, parameters)]
            text, values = _expand_lists(text, [bound[name] for name in places])
        else:
            values = bound if places is None else [bound[name] for name in places]
        cursor = connection.connection.cursor()
        try:
            connection.dialect.do_execute(cursor, text, values)  # with the deadline of the dialect
            return cast("list[tuple[Any, ...]]", cursor.fetchall())
        finally:
            cursor.close()

    @property
    def statement(self) -> sa.Select[*tuple[Any, ...]] | sa.CompoundSelect[*tuple[Any, ...]]:
        """The statement in SQLAlchemy's terms."""
        return self._statement().statement if callable(self._statement) else self._statement

    def compile(self, dialect: sa.Dialect) -> _SelectText:
        """Return the text for a dialect."""
        compiled = self.statement.compile(dialect=dialect)
        places = list(compiled.positiontup or ()) if compiled.positional else None
        # Values that are part of the statement.
        own = {name: value for name, value in compiled.params.items() if value is not None}
        self._texts[dialect.name] = made = _SelectText(compiled.string, places, own)
        return made


_LIST = "(__[POSTCOMPILE_"
"""How SQLAlchemy starts the place of a list, before the number of its values is known."""
_LIST_PLACE = lazy_pattern(r"\(__\[POSTCOMPILE_\w+\]\)")


def _expand_lists(text: str, values: Sequence[str | int | list[str]]) -> tuple[str, list[str | int]]:
    """Return the text with a place for each value of a list, and all values in their order."""
    flat: list[str | int] = []
    for value in values:
        if isinstance(value, list):
            text = _LIST_PLACE.sub(f"({', '.join('?' * len(value))})", text, count=1)
            flat += value
        else:
            flat.append(value)
    return text, flat


class _SelectText(NamedTuple):
    """The text of a select for one dialect, the names of its values in their order, and those that are part of it."""

    text: str
    places: list[str] | None
    own: dict[str, Any]


class CompiledWrite:
    """An insert, update or delete that is compiled once per dialect, for values that have the same names each time.

    `Connection.execute` takes 100 µs for an insert that the driver runs in 30. Driver errors pass through;
    `Database.write` translates them.
    """

    def __init__(
        self,
        statement: sa.Insert
        | sa.Update
        | sa.Delete
        | Callable[[sa.Connection], sa.Insert]
        | Callable[[sa.Connection], CompiledWrite],
        *,
        values: Sequence[str] = (),
        texts: dict[_WriteKey, _WriteText] | None = None,
    ) -> None:
        """Take a statement, or a function of `dialect_insert` that returns one. `values` are the names of what it is given.

        Or take a function that returns the write whose texts are given.
        """
        self._statement = statement
        self.values = values
        self._texts = texts or {}

    def run(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute the statement once for each of these rows, at least one, and return how many rows that changed."""
        key = (connection.dialect.name, frozenset(rows[0]))
        compiled = self._texts.get(key) or self.compile(connection, key)
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

    def compile(self, connection: sa.Connection, key: _WriteKey) -> _WriteText:
        """Return the text for a dialect and values with these names."""
        statement = self._statement(connection) if callable(self._statement) else self._statement
        if isinstance(statement, CompiledWrite):
            self._texts[key] = text = statement.compile(connection, key)
            return text
        dialect = real_connection(connection).dialect
        compiled = statement.compile(dialect=dialect, column_keys=sorted(key[1]))
        types = {name: bind.type.dialect_impl(dialect) for bind, name in compiled.bind_names.items()}
        names = (compiled.positiontup if compiled.positional else types) or ()
        text = _WriteText(
            text=compiled.string,
            processors=[(name, types[name].bind_processor(dialect)) for name in names],
            is_positional=compiled.positional,
            own={name: value for name, value in compiled.params.items() if value is not None and name not in key[1]},
        )
        self._texts[key] = text
        return text


_WriteKey = tuple[str, frozenset[str]]
"""The name of a dialect, and the names of the values."""


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


class LazyStatements:
    """The names of a module in `storage.sql`, which is imported for those that are not in sqlite_texts.json.

    Type checkers see the module itself.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        known = _read_texts().get(f"{self._module}.{name}")
        if known is None:
            found = self._real(name)
        elif "values" in known:
            key = ("sqlite", frozenset(known["values"]))
            processors = [(name, PROCESSORS[kind]) for name, kind in known["places"]]
            text = _WriteText(known["text"], processors, is_positional=True, own=known["own"])
            found = CompiledWrite(lambda _: self._real(name), texts={key: text})
        else:
            text = _SelectText(known["text"], known["places"], known["own"])
            found = CompiledSelect(lambda: self._real(name), {"sqlite": text})
        setattr(self, name, found)
        return found

    def _real(self, name: str) -> Any:
        return getattr(import_module(f"prowess.storage.sql.{self._module}"), name)


PROCESSORS: dict[str, Callable[[Any], Any] | None] = {
    "": None,
    "json": to_json,
    "bytes": lambda value: None if value is None else memoryview(value),
    "bool": lambda value: None if value is None else int(value),
    "float": lambda value: None if value is None else float(value),
}
"""How values are given to SQLite's driver."""


@cache
def _read_texts() -> dict[str, dict[str, Any]]:
    return from_json(SQLITE_TEXTS.read_bytes())
