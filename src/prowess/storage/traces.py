"""Store traces: write many rows at a time, read, close and delete them.

A trace is a row of the table; to write it, it is made a tuple, see `to_values`. Reads are restricted to an
organization and user by `TraceFilter`.

PostgreSQL receives new rows by COPY, which costs the server less than an upsert does (37 against 61 µs of CPU a row with
all indexes), and rows that may exist already as one JSON text. SQLite receives values, many rows per statement:
other threads of this process get their turn between statements, and a writer that gave way after every row would spend
most of its time waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

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

RunStatus = Literal["running", "ok", "failed", "refused", "unavailable", "timed_out", "cancelled", "interrupted"]
STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One run of one artifact.

    The artifacts of one run of a skill share a `run_id`. `fallback_of` is the trace of the artifact that this one replaced.
    `verdicts` has one entry per assertion. Texts, inputs and errors are redacted when the row is written.
    """

    id: str
    run_id: str
    organization_id: str = ""
    user_id: str = ""
    actor: str = ""
    session_id: str = ""
    skill_id: str
    skill_slug: str
    skill_digest: str = ""
    artifact_id: str
    artifact_name: str
    artifact_kind: str
    fallback_of: str | None = None
    status: RunStatus = "running"
    started_at: str
    deadline_at: str
    """When it must have ended, so that the row of a dead process can be recognised."""
    process: str = ""
    """Identifies the process that runs it."""
    completed_at: str | None = None
    duration_ms: int | None = None
    model_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    estimated_cost: float | None = None
    assertions_run: int = 0
    assertions_passed: int = 0
    error_code: str | None = None
    created_at: str = ""
    error: str | None = None
    verdicts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    rendered_input: str | None = None
    raw_output: str | None = None


Values = tuple[Any, ...]
"""A row to write: the values of `COLUMNS`, with documents as JSON text."""
TracePosition = tuple[str | float, str]
"""Start time and id of a run: the sort key of its row."""

TABLE = "skill_execution_traces"
COLUMNS = tuple(Trace.__annotations__)
DOCUMENTS = frozenset({"verdicts", "detail", "inputs"})
"""The columns with JSON."""
DOCUMENT_PLACES = tuple(place for place, name in enumerate(COLUMNS) if name in DOCUMENTS)
LARGE_COLUMNS = frozenset({"detail", "inputs", "rendered_input", "raw_output"})
"""The columns that lists leave out."""
SMALL_COLUMNS = tuple(name for name in COLUMNS if name not in LARGE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Selects the traces of an organization and one of its users (None for all), narrowed by the values that are not ''."""

    organization_id: str
    user_id: str | None
    actor: str = ""
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
        named = (self.actor, self.run, self.skill, self.artifact, self.status, self.session, self.model, self.kind)
        return any((*named, self.since))


TraceSort = Literal["started_at", "duration_ms", "estimated_cost"]


def sort_position(value: str | float | None, id: str) -> TracePosition:
    """Return the position of a row that has this value in the column of the sort."""
    # Rows without a value sort as -1, below all others, because NULL compares with nothing.
    return (-1 if value is None else value), id


def position_of(trace: Trace) -> TracePosition:
    """Return the sort key of a row."""
    return trace.started_at, trace.id


def get_row(connection: sa.Connection, which: TraceFilter, id: str) -> Trace | None:
    """Return a whole row by its id; None if the filter excludes it."""
    found = connection.execute(sql.one(which, id)).mappings().first()
    return Trace(**found) if found else None


def read_newest(
    connection: sa.Connection,
    which: TraceFilter,
    *,
    limit: int,
    after: TracePosition | None = None,
    sort: TraceSort = "started_at",
) -> list[Trace]:
    """Return rows without the large columns, the highest values first, starting after a position.

    The position is that of `sort_position` for the last row of the page before.
    """
    if not (which.is_narrowed or after) and sort == "started_at":
        plain = sql.NEWEST if which.user_id is None else sql.NEWEST_OF_USER
        return [_from_values(values) for values in plain.rows(connection, {**which.owner_key, "most": limit})]
    query = sql.newest(which, after=after, sort=sort).limit(limit)
    return [Trace(**row) for row in connection.execute(query).mappings()]


def _from_values(values: Values) -> Trace:
    row = dict(zip(SMALL_COLUMNS, values, strict=True))
    return Trace(**{**row, "verdicts": decode_json(row["verdicts"])})


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
) -> list[Trace]:
    """Return rows oldest first, starting after a position; without the large columns unless `whole`."""
    query = sql.oldest(which, after=after, whole=whole).limit(limit)
    return [Trace(**row) for row in connection.execute(query).mappings()]


def read_running(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Return id, process and deadline of every running run of any organization."""
    return cast("list[tuple[str, str, str]]", sql.ALL_RUNNING.rows(connection, {}))


def close_running(connection: sa.Connection, ids: Sequence[str], *, moment: str, error: str, code: str) -> int:
    """Mark those of these runs that are still running as interrupted; return how many."""
    closed = 0
    # In chunks, because SQLite limits the parameters of a statement (`_MAX_PARAMETERS`).
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


def find_ids(connection: sa.Connection, which: TraceFilter, start: str) -> list[str]:
    """Return the ids of up to two matching traces that start with a prefix: with two, the prefix is ambiguous."""
    return list(connection.scalars(sql.ids(which, start).limit(2)))


_NAMES = ", ".join(COLUMNS)
_FINISHED_COLUMNS = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in {"id", "created_at"})
_INSERT = f"INSERT INTO {TABLE} ({_NAMES}) "
# Documents come as text, which is a JSON string here.
_PARSED_COLUMNS = ", ".join(f"({name} #>> '{{}}')::json" if name in DOCUMENTS else name for name in COLUMNS)
_FROM_JSON = f"SELECT {_PARSED_COLUMNS} FROM json_populate_recordset(NULL::{TABLE}, %s) "  # noqa: S608  (names of ours)
_PLACEHOLDERS = f"({', '.join('?' * len(COLUMNS))})"
_MAX_PARAMETERS = 999
"""What SQLite allows in one statement before version 3.32."""
_ROWS_PER_STATEMENT = _MAX_PARAMETERS // len(COLUMNS)
_MAX_JSON_CHARS = 8 * 1024 * 1024
_COPY_CHARS = 128 * 1024  # larger ones take longer to join and to encode
_DELIMITER = "\x01"  # texts do not contain it in practice, so that only backslashes and line ends need escaping
_NULL = str(None)  # as formatting writes it: looking at each value of a row takes four times as long
_LINE = _DELIMITER.join(["%s"] * len(COLUMNS))
_COPY = f"COPY {TABLE} ({_NAMES}) FROM STDIN WITH (DELIMITER E'\\x01', NULL '{_NULL}')"
_KEEP_EXISTING = "ON CONFLICT (id) DO NOTHING"
_OVERWRITE = f"ON CONFLICT (id) DO UPDATE SET {_FINISHED_COLUMNS}"

column_values = cast("Callable[[Trace], Values]", attrgetter(*COLUMNS))


def dump_json(value: Any) -> str:
    """Return a value as JSON; raise `ValueError` if it is not JSON. NaN and infinity become strings."""
    return to_json(value, inf_nan_mode="strings").decode()


def to_values(trace: Trace) -> Values:
    """Return a row to write. Raise `ValueError` if a document is not JSON."""
    values = list(column_values(trace))
    for index in DOCUMENT_PLACES:
        values[index] = dump_json(values[index])
    return tuple(values)


def add_many(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Add rows whose ids are not stored yet; raise `Conflict` if one is."""
    if not rows or connection.dialect.name != "postgresql":
        _write(connection, rows, "")
        return
    try:
        _write(connection, _copy(connection, rows), "")
    except ValueError as error:
        raise _cannot_store(error) from error


def insert_many(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Add rows of started runs; existing rows are left as they are."""
    _write(connection, rows, _KEEP_EXISTING)


def finish_many(connection: sa.Connection, rows: Sequence[Values]) -> None:
    """Write rows of ended runs, whether or not their start is stored.

    No id may occur twice, because PostgreSQL does not update one row twice in a statement.
    """
    _write(connection, rows, _OVERWRITE)


def _write(connection: sa.Connection, rows: Sequence[Values], conflict: str) -> None:
    if not rows:
        return
    try:
        if connection.dialect.name == "postgresql":
            for text in _dump_batches(rows):
                connection.exec_driver_sql(f"{_INSERT}{_FROM_JSON}{conflict}", (text,))
        else:
            _write_values(connection, rows, conflict)
    except ValueError as error:
        raise _cannot_store(error) from error


def _cannot_store(error: ValueError) -> Invalid:
    return Invalid(f"The database cannot store this trace: {error}.", hint=PLAIN_TEXT_HINT)


def _copy(connection: sa.Connection, rows: Sequence[Values]) -> list[Values]:
    """Send rows by COPY; return those that must be written another way because of their texts."""
    lines: list[str] = []
    length = 0
    unsent: list[Values] = []
    with closing(connection.connection.cursor()) as cursor, cast("Any", cursor).copy(_COPY) as copy:
        for row in rows:
            line = _LINE % row
            # Texts that COPY would read as NULL, or as the end of a column.
            if _NULL in row or line.count(_DELIMITER) != len(COLUMNS) - 1:
                unsent.append(row)
                continue
            lines.append(_escape(line))
            length += len(line)
            if length > _COPY_CHARS:
                copy.write("".join(lines))
                lines, length = [], 0
        copy.write("".join(lines))
    return unsent


def _escape(line: str) -> str:
    if "\\" in line:
        line = line.replace("\\", "\\\\")
    if "\r" in line:
        line = line.replace("\r", "\\r")
    return line.replace("\n", "\\n") + "\n"


def _dump_batches(rows: Sequence[Values]) -> Iterator[str]:
    """Yield the rows as JSON lists of limited length."""
    texts: list[str] = []
    length = 0
    for row in rows:
        text = dump_json(dict(zip(COLUMNS, row, strict=True)))
        if texts and length + len(text) > _MAX_JSON_CHARS:
            yield f"[{','.join(texts)}]"
            texts, length = [], 0
        texts.append(text)
        length += len(text)
    yield f"[{','.join(texts)}]"


def _write_values(connection: sa.Connection, rows: Sequence[Values], conflict: str) -> None:
    whole = len(rows) - len(rows) % _ROWS_PER_STATEMENT
    groups = [
        tuple(chain(*rows[start : start + _ROWS_PER_STATEMENT])) for start in range(0, whole, _ROWS_PER_STATEMENT)
    ]
    with closing(connection.connection.cursor()) as cursor:
        for count, parameters in ((_ROWS_PER_STATEMENT, groups), (1, rows[whole:])):
            if parameters:
                places = ", ".join([_PLACEHOLDERS] * count)
                statement = f"{_INSERT}VALUES {places} {conflict}"
                connection.dialect.do_executemany(cast("Any", cursor), statement, cast("Any", parameters))
