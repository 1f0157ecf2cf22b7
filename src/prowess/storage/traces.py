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
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_core import to_json

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.storage.driver_errors import PLAIN_TEXT_HINT
from prowess.storage.rows import LazyStatements, decode_json

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import traces as sql
else:
    sql = LazyStatements("traces")

Row = Mapping[str, Any]
TracePosition = tuple[str | float, str]
"""Start time and id of a run: the sort key of its row."""

TABLE = "skill_execution_traces"
COLUMNS = (
    "id",
    "run_id",
    "organization_id",
    "user_id",
    "actor",
    "session_id",
    "skill_id",
    "skill_slug",
    "skill_digest",
    "artifact_id",
    "artifact_name",
    "artifact_kind",
    "fallback_of",
    "status",
    "started_at",
    "deadline_at",
    "process",
    "completed_at",
    "duration_ms",
    "model_id",
    "input_tokens",
    "output_tokens",
    "estimated_cost",
    "assertions_run",
    "assertions_passed",
    "error_code",
    "created_at",
    "error",
    "verdicts",
    "detail",
    "inputs",
    "rendered_input",
    "raw_output",
)
"""The columns of the table, in its order."""
DOCUMENTS = frozenset({"verdicts", "detail", "inputs"})
"""The columns with JSON."""
LARGE_COLUMNS = frozenset({"detail", "inputs", "rendered_input", "raw_output"})
"""The columns that lists leave out."""
SMALL_COLUMNS = tuple(name for name in COLUMNS if name not in LARGE_COLUMNS)


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

    @property
    def owner_key(self) -> dict[str, str]:
        """The organization, and the user if it is for one."""
        return {"of": self.organization_id} | ({} if self.user_id is None else {"by": self.user_id})

    @property
    def is_narrowed(self) -> bool:
        """True if it selects by more than the owner."""
        return any((self.run, self.skill, self.artifact, self.status, self.session, self.model, self.kind, self.since))


TraceSort = Literal["started_at", "duration_ms", "estimated_cost"]


def sort_position(value: str | float | None, id: str) -> TracePosition:
    """Return the position of a row that has this value in the column of the sort."""
    return (-1 if value is None else value), id


def position_of(row: Row) -> TracePosition:
    """Return the sort key of a row."""
    return row["started_at"], row["id"]


def get_row(connection: sa.Connection, which: TraceFilter, id: str) -> Row | None:
    """Return a whole row by its id; None if the filter excludes it."""
    found = connection.execute(sql.one(which, id)).mappings().first()
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
    if not (which.is_narrowed or after or whole) and sort == "started_at":
        plain = sql.NEWEST if which.user_id is None else sql.NEWEST_OF_USER
        return [_from_values(values) for values in plain.rows(connection, {**which.owner_key, "most": limit})]
    query = sql.newest(which, after=after, whole=whole, sort=sort).limit(limit)
    return [{**row} for row in connection.execute(query).mappings()]


def _from_values(values: tuple[Any, ...]) -> Row:
    row = dict(zip(SMALL_COLUMNS, values, strict=True))
    return {**row, "verdicts": decode_json(row["verdicts"])}


def count_rows(connection: sa.Connection, which: TraceFilter) -> int:
    """Return how many rows the filter selects."""
    if not which.is_narrowed:
        plain = sql.COUNT if which.user_id is None else sql.COUNT_OF_USER
        [(count,)] = plain.rows(connection, which.owner_key)
        return count
    return connection.execute(sql.count(which)).scalar_one()


def read_oldest(
    connection: sa.Connection,
    which: TraceFilter,
    *,
    limit: int,
    after: TracePosition | None = None,
    whole: bool = False,
) -> list[Row]:
    """Return rows oldest first, starting after a position; without the large columns unless `whole`."""
    query = sql.oldest(which, after=after, whole=whole).limit(limit)
    return [{**row} for row in connection.execute(query).mappings()]


def read_running(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Return id, process and deadline of every running run of any organization."""
    return cast("list[tuple[str, str, str]]", sql.ALL_RUNNING.rows(connection, {}))


def close_running(connection: sa.Connection, ids: Sequence[str], *, moment: str, error: str, code: str) -> int:
    """Mark those of these runs that are still running as interrupted; return how many."""
    closed = 0
    for start in range(0, len(ids), 500):
        change = sql.close(ids[start : start + 500])
        closed += connection.execute(change.values(completed_at=moment, error=error, error_code=code)).rowcount
    return closed


def count_before(connection: sa.Connection, organization_id: str, moment: str) -> int:
    """Return how many rows `delete_before` would delete."""
    [(count,)] = sql.COUNT_OLD.rows(connection, {"of": organization_id, "moment": moment})
    return count


def delete_before(connection: sa.Connection, organization_id: str, *, moment: str, limit: int) -> int:
    """Delete up to `limit` rows of ended runs that started before a time; return how many."""
    return connection.execute(sql.delete_old(limit), {"of": organization_id, "moment": moment}).rowcount


def find_ids(connection: sa.Connection, which: TraceFilter, start: str, *, limit: int) -> list[str]:
    """Return ids of matching traces that begin with a prefix."""
    return list(connection.scalars(sql.ids(which, start).limit(limit)))


_DOCUMENT_PLACES = tuple(place for place, name in enumerate(COLUMNS) if name in DOCUMENTS)
_NAMES = ", ".join(COLUMNS)
_FINISHED_COLUMNS = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in {"id", "created_at"})
_INSERT = f"INSERT INTO {TABLE} ({_NAMES}) "
_FROM_JSON = f"SELECT {_NAMES} FROM json_populate_recordset(NULL::{TABLE}, %s) "  # noqa: S608  (names of ours)
_PLACEHOLDERS = f"({', '.join('?' * len(COLUMNS))})"
_MAX_PARAMETERS = 999
"""What SQLite allows in one statement before version 3.32."""
_ROWS_PER_STATEMENT = _MAX_PARAMETERS // len(COLUMNS)
_MAX_JSON_CHARS = 8 * 1024 * 1024
_ROWS_PER_GROUP = 32
_COPY_BYTES = 1024 * 1024
# Control characters that texts do not have in practice, so that only backslashes and line ends need escaping.
_DELIMITER, _NULL, _ROW_END = "\x01", "\x02", "\x03"
_COPY = f"COPY {TABLE} ({_NAMES}) FROM STDIN WITH (DELIMITER E'\\x01', NULL E'\\x02')"
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
    for place in _DOCUMENT_PLACES:
        values[place] = dump_json(values[place])
    return tuple(values)
