"""Traces written in the background: no run waits for the row of another, and one that waits for its own knows its fate."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any

from prowess.errors import Conflict, ProwessError, Unavailable
from prowess.redaction import Redactor
from prowess.storage import trace_rows
from prowess.storage.background import CLOSE_SECONDS, BackgroundWriter
from prowess.storage.database import Connections
from prowess.traces.backlog import LINGER_SECONDS, QUEUE_TRACES, Finish, Start, TraceBacklog
from prowess.traces.rows import row_of, rows_as_they_are
from prowess.traces.trace import Trace

log = logging.getLogger(__name__)

RETRY_SECONDS = (0.05, 0.5)
"""So long the writer waits before it tries again to write to a database that did not take the rows."""

PATIENCE_SECONDS = 5.0
"""A database that took so long to refuse the rows, as one that is locked does, is not asked again."""

TOGETHER = 32
"""So many traces are looked through together; those among which there is a secret are looked through one by one."""

Item = Start | Finish
Row = dict[str, Any]
Ready = tuple[Item, Row]


class TraceRecorder:
    """Writes traces, many in one transaction, from threads of its own; secrets are removed there, before the write.

    What was recorded when the process ends normally is kept. A database that cannot be written to costs a warning and the
    rows that it was to hold, never a run. What a process that is killed had begun is closed by `close_interrupted`.
    """

    def __init__(self, records: Connections, redactor: Redactor, *, queue_size: int = QUEUE_TRACES) -> None:
        self._records = records
        self._redactor = redactor
        self._backlog = TraceBacklog(queue_size)
        self._writer = BackgroundWriter[Item, Sequence[Ready]](
            self._backlog, prepare=self._ready, write=self._write, name="prowess-traces"
        )
        self._dropped = 0
        self._warned = False
        self._refused: Conflict | Unavailable | None = None
        """How the database refused the last rows after a long wait."""

    @property
    def dropped(self) -> int:
        """How many runs that ended have no row that says so."""
        return self._dropped

    def begin(self, trace: Trace) -> None:
        """Have the beginning of a run written soon. Never waits and never raises.

        Where too much waits already it is left out: the end of the run brings all that it says. What a trace holds must
        not be changed afterwards.
        """
        with self._writer.lock:
            if not self._writer.closed and self._backlog.begin(trace) and len(self._backlog) == 1:
                self._writer.wake(within=LINGER_SECONDS)

    def finish(self, trace: Trace) -> Future[bool]:
        """Have the end of a run written at once; never raises. True when the row is durable, False where it is given up."""
        kept: Future[bool] = Future()
        kept.set_running_or_notify_cancel()  # nobody can cancel what is written
        with self._writer.lock:
            taken = not self._writer.closed and self._backlog.finish(Finish(trace, kept))
            if taken and self._backlog.finishes == 1:
                self._writer.wake()
        if not taken:
            self._drop([kept], "the recorder is closed" if self._writer.closed else "too many runs end at once")
        return kept

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until what was recorded so far is written or given up; False where that takes too long."""
        return self._writer.flush(seconds)

    def close(self) -> None:
        """Write what is left and end the thread; runs that end later have no row."""
        self._writer.close()

    def _write(self, ready: Sequence[Ready]) -> None:
        try:
            self._write_patiently(ready)
        except Exception as error:  # noqa: BLE001  (whatever happens here must not reach, or end, anything else)
            if len(ready) > 1 and not isinstance(error, Unavailable):
                for one in ready:  # one of them may be what the database refuses
                    self._write([one])
            else:
                self._give_up([item for item, _ in ready], error)
            return
        for item, _ in ready:
            if isinstance(item, Finish):
                item.kept.set_result(True)

    def _write_patiently(self, ready: Sequence[Ready]) -> None:
        if self._writer.closed and self._refused is not None:
            raise self._refused  # nobody waits once more at the end
        began = monotonic()
        for seconds in RETRY_SECONDS:
            try:
                self._write_rows(ready)
            except (Conflict, Unavailable) as error:
                if monotonic() > began + PATIENCE_SECONDS:
                    self._refused = error
                    raise
                self._writer.pause(seconds)
            else:
                self._refused = None
                return
        self._write_rows(ready)

    def _ready(self, batch: Sequence[Item]) -> list[Ready]:
        """The items with their rows, without those that cannot be made into one."""
        ready: list[Ready] = []
        for start in range(0, len(batch), TOGETHER):
            items = batch[start : start + TOGETHER]
            try:
                rows = rows_as_they_are([item.trace for item in items], self._redactor)
            except Exception:  # noqa: BLE001  (the trace that is at fault is found below)
                rows = None
            found = rows if rows is not None else [self._row(item) for item in items]
            ready += [(item, row) for item, row in zip(items, found, strict=True) if row is not None]
        return ready

    def _row(self, item: Item) -> Row | None:
        try:
            return row_of(item.trace, self._redactor)
        except Exception as error:  # noqa: BLE001  (one trace that cannot be read must not cost the others)
            self._give_up([item], error)
            return None

    def _write_rows(self, ready: Sequence[Ready]) -> None:
        if not ready:
            return
        starts = {row["id"]: row for item, row in ready if isinstance(item, Start)}
        finishes = {row["id"]: row for item, row in ready if isinstance(item, Finish)}
        with self._records.write() as connection:
            trace_rows.insert_many(connection, list(starts.values()))
            trace_rows.finish_many(connection, list(finishes.values()))

    def _give_up(self, batch: Sequence[Item], error: Exception) -> None:
        reason = error.message if isinstance(error, ProwessError) else type(error).__name__
        self._drop([item.kept for item in batch if isinstance(item, Finish)], reason)

    def _drop(self, lost: Sequence[Future[bool]], reason: str) -> None:
        with self._writer.lock:
            self._dropped += len(lost)
            told, self._warned = self._warned, self._warned or bool(lost)
        if lost and not told:
            log.warning("Some runs leave no trace: %s", reason)
        for kept in lost:
            kept.set_result(False)
