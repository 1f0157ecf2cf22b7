"""How long traces are kept, and the checkpoints of runs that nobody resumed."""

from __future__ import annotations

from threading import Event

from prowess.storage import checkpoints, traces
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
    if not (ended and ended.is_set()):
        _prune_checkpoints(records, before)
    return removed


def _prune_checkpoints(records: Connections, before: str) -> None:
    with records.read() as connection:
        left = checkpoints.has_before(connection, before)
    while left:
        with records.write() as connection:
            left = checkpoints.delete_before(connection, before, limit=BATCH_ROWS) == BATCH_ROWS
