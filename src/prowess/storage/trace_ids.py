"""Traces by the first characters of their id, as people type them."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.run_tables import traces
from prowess.storage.traces import TraceFilter


def ids_beginning(connection: sa.Connection, which: TraceFilter, start: str, *, limit: int) -> list[str]:
    """The ids that begin so, of the traces that the filter lets through."""
    begins = traces.c.id.startswith(start, autoescape=True)
    query = sa.select(traces.c.id).where(begins, *which.conditions()).limit(limit)
    return list(connection.scalars(query))
