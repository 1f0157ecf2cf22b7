"""How long traces are kept."""

from __future__ import annotations

from prowess.storage import traces
from prowess.storage.clock import later
from prowess.storage.database import Connections

DAYS = 30
BATCH_ROWS = 1_000
_DAY_SECONDS = 24 * 60 * 60


def prune(records: Connections, days: int = DAYS) -> int:
    """Remove the traces of runs that began longer ago than that, few at a time so that others can write; how many."""
    before = later(-days * _DAY_SECONDS)
    removed = 0
    while True:
        with records.write() as connection:
            count = traces.delete_before(connection, before, limit=BATCH_ROWS)
        removed += count
        if count < BATCH_ROWS:
            return removed
