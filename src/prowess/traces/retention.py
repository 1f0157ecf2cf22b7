"""How long traces are kept."""

from __future__ import annotations

from threading import Event

from prowess.storage import traces
from prowess.storage.clock import later
from prowess.storage.database import Connections

DAYS = 30
BATCH_ROWS = 1_000
_DAY_SECONDS = 24 * 60 * 60


def prune(records: Connections, days: int = DAYS, ended: Event | None = None) -> int:
    """Remove the traces of runs that began longer ago than that, few at a time so that others can write; how many.

    Where there are none, nobody is kept from writing. Once `ended` is set, the rest stays for another time.
    """
    before = later(-days * _DAY_SECONDS)
    with records.read() as connection:
        left = traces.has_before(connection, before)
    removed = 0
    while left and not (ended and ended.is_set()):
        with records.write() as connection:
            count = traces.delete_before(connection, before, limit=BATCH_ROWS)
        removed += count
        left = count == BATCH_ROWS
    return removed
