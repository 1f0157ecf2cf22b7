"""Read stored traces: the newest, one by id, all page by page, or as runs end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from prowess.errors import Invalid, NotFound
from prowess.storage.clock import now
from prowess.storage.database import Connections
from prowess.storage.traces import (
    Trace,
    TraceFilter,
    TracePosition,
    TraceSort,
    count_rows,
    find_ids,
    get_row,
    position_of,
    read_newest,
    read_oldest,
)

MIN_ID_CHARS = 4
"""The shortest prefix of an id that a trace can be found by."""

_WHOLE_PAGE = 50  # a whole trace may hold megabytes


def list_newest(
    records: Connections,
    which: TraceFilter,
    limit: int,
    after: TracePosition | None = None,
    sort: TraceSort = "started_at",
) -> list[Trace]:
    """Return traces without inputs and texts, highest values of `sort` first; with `after`, those that follow it. Blocking."""
    with records.read() as connection:
        return read_newest(connection, which, limit=limit, after=after, sort=sort)


def count_traces(records: Connections, which: TraceFilter) -> int:
    """Return how many traces a filter selects. Blocking."""
    with records.read() as connection:
        return count_rows(connection, which)


def get_trace(records: Connections, which: TraceFilter, id: str) -> Trace:
    """Return a whole trace by its id or a prefix of it. Blocking.

    Raise `NotFound` if the filter matches no such trace, and `Invalid` if the prefix is ambiguous.
    """
    with records.read() as connection:
        row = get_row(connection, which, id)
        if row is None and len(id) >= MIN_ID_CHARS:
            found = find_ids(connection, which, id.lower())
            if len(found) > 1:
                raise Invalid(f"Several traces start with {id[:40]!r}.", hint="Use more characters of the id.")
            row = get_row(connection, which, found[0]) if found else None
    if row is None:
        raise unknown_trace(id)
    return row


def unknown_trace(id: str) -> NotFound:
    """Return the error for an id that does not exist or is not visible; the two must not differ."""
    short = f"Use at least {MIN_ID_CHARS} characters of the id. " if len(id) < MIN_ID_CHARS else ""
    return NotFound(f"Trace {id[:80]!r} not found.", hint=f"{short}Run `prowess traces list` to see the traces.")


def iterate_pages(records: Connections, which: TraceFilter) -> Iterator[list[Trace]]:
    """Yield whole traces page by page, oldest first. Blocking."""
    after = None
    while True:
        # A transaction per page, so that none is open while the caller works on it.
        with records.read() as connection:
            rows = read_oldest(connection, which, limit=_WHOLE_PAGE, after=after, whole=True)
        if not rows:
            return
        yield rows
        after = position_of(rows[-1])


OVERLAP_SECONDS = 60
"""How much later a row may be written than the rows of runs that started after it."""

_PAGE = 500


class TraceFollower:
    """Returns each run once, after it ended; only runs that started from now on, or since `which.since`.

    Rows are ordered by the start of their run but written at its end, so every look goes back a little in time, and runs
    that were still going are looked up by id.
    """

    def __init__(self, records: Connections, which: TraceFilter) -> None:
        self._records = records
        self._which = which if which.since else replace(which, since=now())
        self._newest = self._which.since
        self._returned: dict[str, str] = {}
        self._running: set[str] = set()

    def look(self) -> list[Trace]:
        """Return the runs that ended since the last look, ordered by start. Blocking."""
        with self._records.read() as connection:
            after: TracePosition | None = None
            rows = [row for known in self._running if (row := get_row(connection, self._unbound, known))]
            while found := read_oldest(connection, self._from(), limit=_PAGE, after=after):
                rows += found
                after = position_of(found[-1])
        return self._ended(rows)

    @property
    def _unbound(self) -> TraceFilter:
        """The filter without status and start, which do not tell whether a known run still matters."""
        return replace(self._which, status="", since="")

    def _from(self) -> TraceFilter:
        back = datetime.fromisoformat(self._newest) - timedelta(seconds=OVERLAP_SECONDS)
        since = back.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
        return replace(self._which, status="", since=max(since, self._which.since))

    def _ended(self, traces: list[Trace]) -> list[Trace]:
        ended: dict[str, Trace] = {}
        running: set[str] = set()
        for trace in sorted(traces, key=lambda trace: (trace.started_at, trace.id)):
            self._newest = max(self._newest, trace.started_at)
            if trace.status == "running":
                running.add(trace.id)
            elif trace.id not in self._returned:
                ended[trace.id] = trace
        self._running = running - ended.keys()
        self._returned.update((trace.id, trace.started_at) for trace in ended.values())
        # The next look does not go back further, so older ids need not be remembered.
        oldest = self._from().since
        self._returned = {known: started for known, started in self._returned.items() if started >= oldest}
        status = self._which.status
        return [trace for trace in ended.values() if not status or trace.status == status]
