"""Traces as they were kept: lists, single ones, and all of them page by page."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Invalid, NotFound
from prowess.storage.database import Connections
from prowess.storage.trace_ids import ids_beginning
from prowess.storage.traces import TraceFilter, get, place_of, read_newest, read_oldest
from prowess.traces.rows import trace_of
from prowess.traces.trace import Trace

LEAST_CHARS = 4
"""So many characters of an id are enough to find it by, if no other begins with them."""

_PAGE = 50


def newest(records: Connections, which: TraceFilter, limit: int) -> list[Trace]:
    """The traces that were begun last, the last first, without inputs and texts. Blocking."""
    with records.read() as connection:
        return [trace_of(row) for row in read_newest(connection, which, limit=limit)]


def whole_trace(records: Connections, which: TraceFilter, id: str) -> Trace:
    """One trace with all that it has, by its id or the first characters of it. Blocking.

    `NotFound` where the filter lets none through by that id, `Invalid` where several begin so.
    """
    with records.read() as connection:
        row = get(connection, which, id)
        if row is None and len(id) >= LEAST_CHARS:
            found = ids_beginning(connection, which, id.lower(), limit=2)
            if len(found) > 1:
                raise Invalid(f"More than one trace begins with {id[:40]!r}.", hint="Give more of the id.")
            row = get(connection, which, found[0]) if found else None
    if row is None:
        raise unknown(id)
    return trace_of(row)


def unknown(id: str) -> NotFound:
    """What is raised for an id that nobody has, or nobody whose traces may be seen."""
    return NotFound(f"There is no trace {id[:80]!r}.", hint="`prowess traces list` shows those that there are.")


def every(records: Connections, which: TraceFilter) -> Iterator[list[Trace]]:
    """Whole traces, the oldest first, a page at a time. Blocking."""
    after = None
    while True:
        with records.read() as connection:
            rows = read_oldest(connection, which, limit=_PAGE, after=after, whole=True)
        if not rows:
            return
        yield [trace_of(row) for row in rows]
        after = place_of(rows[-1])
