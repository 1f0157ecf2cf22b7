"""Following runs as they end, in this process or another."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from prowess.storage.clock import now
from prowess.storage.database import Connections
from prowess.storage.traces import Place, TraceFilter, get, place_of, read_oldest
from prowess.traces.rows import trace_of
from prowess.traces.trace import Trace

OVERLAP_SECONDS = 60
"""A row may be written so long after rows of runs that began later."""

_PAGE = 500


class TraceTail:
    """Tells each run once, when it is over, of those that began from now on, or since `which.since`.

    Rows are found by when their runs began, so every look goes back a little; runs that have not ended are asked after.
    """

    def __init__(self, records: Connections, which: TraceFilter) -> None:
        self._records = records
        self._which = which if which.since else replace(which, since=now())
        self._newest = self._which.since
        self._told: dict[str, str] = {}
        self._running: set[str] = set()

    def look(self) -> list[Trace]:
        """The runs that ended since the last look, by when they began. Blocking."""
        with self._records.read() as connection:
            late = [row for known in self._running if (row := get(connection, self._unbound, known))]
            after: Place | None = None
            rows = list(late)
            while found := read_oldest(connection, self._from(), limit=_PAGE, after=after):
                rows += found
                after = place_of(found[-1])
        return self._ended([trace_of(row) for row in rows])

    @property
    def _unbound(self) -> TraceFilter:
        """The same without what a run that goes on may no longer, or not yet, fulfil."""
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
            elif trace.id not in self._told:
                ended[trace.id] = trace
        self._running = running - ended.keys()
        self._told.update((trace.id, trace.started_at) for trace in ended.values())
        border = self._from().since
        self._told = {told: began for told, began in self._told.items() if began >= border}
        wanted = self._which.status
        return [trace for trace in ended.values() if not wanted or trace.status == wanted]
