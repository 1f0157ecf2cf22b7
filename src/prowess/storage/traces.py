"""Store traces: write many rows at a time, read, close and delete them.

A row is a mapping keyed by column name. Reads are restricted to an organization and user by `TraceFilter`.

PostgreSQL receives new rows by COPY, which costs the server less than an upsert does (37 against 61 µs of CPU a row with
all indexes), and rows that may exist already as one JSON text. SQLite receives values, many rows per statement:
other threads of this process get their turn between statements, and a writer that gave way after every row would spend
most of its time waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, cast

import sqlalchemy as sa
from pydantic_core import to_json

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.storage.driver_errors import PLAIN_TEXT_HINT
from prowess.storage.run_tables import traces
from prowess.storage.tables import ORDERED_JSON

Row = Mapping[str, Any]
TracePosition = tuple[str | float, str]
"""Start time and id of a run: the sort key of its row."""

LARGE_COLUMNS = frozenset({"detail", "inputs", "rendered_input", "raw_output"})
"""The columns that lists leave out."""

RUNNING = traces.c.status == sa.literal_column("'running'")  # a literal, so that the planner uses the partial index
_SMALL_COLUMNS = [column for column in traces.columns if column.name not in LARGE_COLUMNS]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Selects the traces of an organization and one of its users (None for all), narrowed by the values that are not ''."""

    organization_id: str
    user_id: str | None
    run: str = ""
    skill: str = ""
    """The slug or the id."""
    artifact: str = ""
    """The name or the id."""
    status: str = ""
    session: str = ""
    model: str = ""
    kind: str = ""
    """The kind of the artifact."""
    since: str = ""
    """Only runs that started at this time or later."""

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions for a query."""
        columns = traces.c
        found = [columns.organization_id == self.organization_id]
        if self.user_id is not None:
            found.append(columns.user_id == self.user_id)
        if self.skill:
            found.append(sa.or_(columns.skill_slug == self.skill, columns.skill_id == self.skill))
        if self.artifact:
            found.append(sa.or_(columns.artifact_name == self.artifact, columns.artifact_id == self.artifact))
        exact = {
            columns.run_id: self.run,
            columns.status: self.status,
            columns.session_id: self.session,
            columns.model_id: self.model,
            columns.artifact_kind: self.kind,
        }
        found += [column == value for column, value in exact.items() if value]
        if self.since:
            found.append(columns.started_at >= self.since)
        return found


TraceSort = Literal["started_at", "duration_ms", "estimated_cost"]

# Runs without a value come last: no value is below zero.
_SORT_KEYS: dict[TraceSort, sa.ColumnElement[Any]] = {
    "started_at": traces.c.started_at,
    "duration_ms": sa.func.coalesce(traces.c.duration_ms, -1),
    "estimated_cost": sa.func.coalesce(traces.c.estimated_cost, -1.0),
}


def sort_position(value: str | float | None, id: str) -> TracePosition:
    """Return the position of a row that has this value in the column of the sort."""
    return (-1 if value is None else value), id


def position_of(row: Row) -> TracePosition:
    """Return the sort key of a row."""
    return row["started_at"], row["id"]


def get_row(connection: sa.Connection, which: TraceFilter, id: str) -> Row | None:
    """Return a whole row by its id; None if the filter excludes it."""
    query = sa.select(traces).where(traces.c.id == id, *which.conditions())
    found = connection.execute(query).mappings().first()
    return {**found} if found else None


def read_newest(
    connection: sa.Connection,
    which: TraceFilter,
    *,
    limit: int,
    after: TracePosition | None = None,
    whole: bool = False,
    sort: TraceSort = "started_at",
) -> list[Row]:
    """Return rows with the highest values first, starting after a position; without the large columns unless `whole`.

    The position is that of `sort_position` for the last row of the page before.
    """
    query = sa.select(traces) if whole else sa.select(*_SMALL_COLUMNS)
    query = query.where(*which.conditions())
    if after is not None:
        query = query.where(sa.tuple_(_SORT_KEYS[sort], traces.c.id) < sa.tuple_(*after))
    query = query.order_by(_SORT_KEYS[sort].desc(), traces.c.id.desc()).limit(limit)
    return [{**row} for row in connection.execute(query).mappings()]


def count_rows(connection: sa.Connection, which: TraceFilter) -> int:
    """Return how many rows the filter selects."""
    return connection.execute(sa.select(sa.func.count()).select_from(traces).where(*which.conditions())).scalar_one()


def read_oldest(
    connection: sa.Connection,
    which: TraceFilter,
    *,
    limit: int,
    after: TracePosition | None = None,
    whole: bool = False,
) -> list[Row]:
    """Return rows oldest first, starting after a position; without the large columns unless `whole`."""
    query = sa.select(traces) if whole else sa.select(*_SMALL_COLUMNS)
    query = query.where(*which.conditions())
    if after is not None:
        query = query.where(sa.tuple_(traces.c.started_at, traces.c.id) > sa.tuple_(*after))
    query = query.order_by(traces.c.started_at, traces.c.id).limit(limit)
    return [{**row} for row in connection.execute(query).mappings()]


def read_running(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Return id, process and deadline of every running run of any organization."""
    query = sa.select(traces.c.id, traces.c.process, traces.c.deadline_at).where(RUNNING)
    return [(row.id, row.process, row.deadline_at) for row in connection.execute(query)]


def close_running(connection: sa.Connection, ids: Sequence[str], *, moment: str, error: str, code: str) -> int:
    """Mark those of these runs that are still running as interrupted; return how many."""
    closed = 0
    for start in range(0, len(ids), 500):
        # Only if it is still running: it may have ended since it was listed.
        change = (
            sa.update(traces)
            .where(RUNNING, traces.c.id.in_(ids[start : start + 500]))
            .values(status="interrupted", completed_at=moment, error=error, error_code=code)
        )
        closed += connection.execute(change).rowcount
    return closed


def _ended_before(organization_id: str, moment: str) -> sa.ColumnElement[bool]:
    return sa.and_(traces.c.organization_id == organization_id, traces.c.started_at < moment, ~RUNNING)


def count_before(connection: sa.Connection, organization_id: str, moment: str) -> int:
    """Return how many rows `delete_before` would delete."""
    old = sa.select(sa.func.count()).select_from(traces).where(_ended_before(organization_id, moment))
    return connection.execute(old).scalar_one()


def delete_before(connection: sa.Connection, organization_id: str, *, moment: str, limit: int) -> int:
    """Delete up to `limit` rows of ended runs that started before a time; return how many."""
    # A subquery, because PostgreSQL has no DELETE with a LIMIT.
    oldest = sa.select(traces.c.id).where(_ended_before(organization_id, moment)).limit(limit)
    return connection.execute(sa.delete(traces).where(traces.c.id.in_(oldest))).rowcount


def find_ids(connection: sa.Connection, which: TraceFilter, start: str, *, limit: int) -> list[str]:
    """Return ids of matching traces that begin with a prefix."""
    begins = traces.c.id.startswith(start, autoescape=True)
    query = sa.select(traces.c.id).where(begins, *which.conditions()).limit(limit)
    return list(connection.scalars(query))


COLUMNS = tuple(column.name for column in traces.columns)
_DOCUMENTS = tuple(place for place, column in enumerate(traces.columns) if column.type is ORDERED_JSON)
_NAMES = ", ".join(COLUMNS)
_FINISHED_COLUMNS = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in {"id", "created_at"})
_INSERT = f"INSERT INTO {traces.name} ({_NAMES}) "
_FROM_JSON = f"SELECT {_NAMES} FROM json_populate_recordset(NULL::{traces.name}, %s) "  # noqa: S608  (names of ours)
_PLACEHOLDERS = f"({', '.join('?' * len(COLUMNS))})"
_MAX_PARAMETERS = 999
"""What SQLite allows in one statement before version 3.32."""
_ROWS_PER_STATEMENT = _MAX_PARAMETERS // len(COLUMNS)
_MAX_JSON_CHARS = 8 * 1024 * 1024
_ROWS_PER_GROUP = 32
_COPY_BYTES = 1024 * 1024
# Control characters that texts do not have in practice, so that only backslashes and line ends need escaping.
_DELIMITER, _NULL, _ROW_END = "\x01", "\x02", "\x03"
_COPY = f"COPY {traces.name} ({_NAMES}) FROM STDIN WITH (DELIMITER E'\\x01', NULL E'\\x02')"
_KEEP_EXISTING = "ON CONFLICT (id) DO NOTHING"
_OVERWRITE = f"ON CONFLICT (id) DO UPDATE SET {_FINISHED_COLUMNS}"

_column_values = cast("Callable[[Mapping[str, Any]], tuple[Any, ...]]", itemgetter(*COLUMNS))


def dump_json(value: Any) -> str:
    """Return a value as JSON; raise `ValueError` if it is not JSON. NaN and infinity become strings."""
    return to_json(value, inf_nan_mode="strings").decode()


def add_many(connection: sa.Connection, rows: Sequence[Row]) -> None:
    """Add rows whose ids are not stored yet; raise `Conflict` if one is."""
    if not rows or connection.dialect.name != "postgresql":
        _write(connection, rows, "")
        return
    try:
        _write(connection, _copy(connection, rows), "")
    except ValueError as error:
        raise _cannot_store(error) from error


def insert_many(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows of started runs; existing rows are left as they are."""
    _write(connection, rows, _KEEP_EXISTING)


def finish_many(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of ended runs, whether or not their start is stored.

    No id may occur twice, because PostgreSQL does not update one row twice in a statement.
    """
    _write(connection, rows, _OVERWRITE)


def _write(connection: sa.Connection, rows: Sequence[Mapping[str, Any]], conflict: str) -> None:
    if not rows:
        return
    try:
        if connection.dialect.name == "postgresql":
            for text in _dump_batches(rows):
                connection.exec_driver_sql(f"{_INSERT}{_FROM_JSON}{conflict}", (text,))
        else:
            _write_values(connection, [_to_values(row) for row in rows], conflict)
    except ValueError as error:
        raise _cannot_store(error) from error


def _cannot_store(error: ValueError) -> Invalid:
    return Invalid(f"The database cannot store this trace: {error}.", hint=PLAIN_TEXT_HINT)


def _copy(connection: sa.Connection, rows: Sequence[Row]) -> list[Row]:
    """Send rows by COPY; return those that must be written another way because of the characters in their texts."""
    left: list[Row] = []
    with closing(connection.connection.cursor()) as cursor, cast("Any", cursor).copy(_COPY) as copy:
        groups: list[bytes] = []
        length = 0
        for start in range(0, len(rows), _ROWS_PER_GROUP):
            group = rows[start : start + _ROWS_PER_GROUP]
            lines = _copy_lines(group)
            if lines is None:
                left += group
                continue
            groups.append(lines)
            length += len(lines)
            if length > _COPY_BYTES:
                copy.write(b"".join(groups))
                groups, length = [], 0
        copy.write(b"".join(groups))
    return left


def _copy_lines(rows: Sequence[Row]) -> bytes | None:
    """Return rows in COPY's text format, or None if one of their texts contains a control character used by it."""
    # Written for speed: each column of each row passes here, and escaping a group costs half of escaping its rows.
    values = [_to_values(row) for row in rows]
    text = _ROW_END.join(
        [
            _DELIMITER.join([_NULL if one is None else one if one.__class__ is str else str(one) for one in line])
            for line in values
        ]
    )
    expected = (len(rows) - 1, len(rows) * (len(COLUMNS) - 1), sum([line.count(None) for line in values]))
    if (text.count(_ROW_END), text.count(_DELIMITER), text.count(_NULL)) != expected:
        return None
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return (text.replace("\n", "\\n").replace("\r", "\\r").replace(_ROW_END, "\n") + "\n").encode()


def _dump_batches(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the rows as JSON lists of limited length."""
    texts: list[str] = []
    length = 0
    for row in rows:
        text = dump_json(row)
        if texts and length + len(text) > _MAX_JSON_CHARS:
            yield f"[{','.join(texts)}]"
            texts, length = [], 0
        texts.append(text)
        length += len(text)
    yield f"[{','.join(texts)}]"


def _write_values(connection: sa.Connection, values: list[tuple[Any, ...]], conflict: str) -> None:
    whole = len(values) - len(values) % _ROWS_PER_STATEMENT
    groups = [
        tuple(chain(*values[start : start + _ROWS_PER_STATEMENT])) for start in range(0, whole, _ROWS_PER_STATEMENT)
    ]
    with closing(connection.connection.cursor()) as cursor:
        for count, parameters in ((_ROWS_PER_STATEMENT, groups), (1, values[whole:])):
            if parameters:
                places = ", ".join([_PLACEHOLDERS] * count)
                statement = f"{_INSERT}VALUES {places} {conflict}"
                connection.dialect.do_executemany(cast("Any", cursor), statement, cast("Any", parameters))


def _to_values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    values = list(_column_values(row))
    for place in _DOCUMENTS:
        values[place] = dump_json(values[place])
    return tuple(values)
