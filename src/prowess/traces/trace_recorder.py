"""Record traces in the background: a run never waits for the rows of other runs."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import Any

from prowess.errors import Conflict, ProwessError, Unavailable
from prowess.redaction import Redactor
from prowess.storage import traces
from prowess.storage.background_writer import CLOSE_SECONDS, BackgroundWriter
from prowess.storage.database import Connections
from prowess.traces.trace import Trace
from prowess.traces.trace_row import to_row, to_rows_if_clean

MAX_QUEUED_TRACES = 10_000
BATCH_TRACES = 500
LINGER_SECONDS = 0.02
"""So long the beginning of a run waits for its end, so that a short run is written once."""


@dataclass(frozen=True, slots=True)
class Start:
    """A run that began."""

    trace: Trace
    since: float


@dataclass(frozen=True, slots=True)
class Finish:
    """A run that ended; the future is told whether its row is kept."""

    trace: Trace
    kept: Future[bool]


class TraceBacklog:
    """Beginnings and ends in the order in which they came; an end takes the place of its beginning."""

    def __init__(self, size: int = MAX_QUEUED_TRACES) -> None:
        self._size = size
        self._starts: dict[str, Start] = {}
        self._finishes: deque[Finish] = deque()

    def __len__(self) -> int:
        return len(self._starts) + len(self._finishes)

    @property
    def finishes(self) -> int:
        """How many ends wait."""
        return len(self._finishes)

    def begin(self, trace: Trace) -> bool:
        """Add a beginning, where there is room."""
        if len(self) >= self._size:
            return False
        self._starts[trace.id] = Start(trace, monotonic())
        return True

    def finish(self, item: Finish) -> bool:
        """Add an end; where there is no room, the oldest beginning that waits makes some."""
        if self._starts.pop(item.trace.id, None) is None and len(self) >= self._size:
            if not self._starts:
                return False
            del self._starts[next(iter(self._starts))]
        self._finishes.append(item)
        return True

    def wait(self) -> float | None:
        """So many seconds may pass until something must be written; None where nothing waits."""
        if self._finishes:
            return 0
        oldest = next(iter(self._starts.values()), None)
        return None if oldest is None else oldest.since + LINGER_SECONDS - monotonic()

    def take(self, *, everything: bool) -> list[Start | Finish]:
        """Remove what is to be written together: ends first, and the beginnings that have waited long enough."""
        batch: list[Start | Finish] = [self._finishes.popleft() for _ in range(min(len(self._finishes), BATCH_TRACES))]
        due = monotonic() - LINGER_SECONDS
        while self._starts and len(batch) < BATCH_TRACES:
            oldest = next(iter(self._starts.values()))
            if not everything and oldest.since > due:
                break
            del self._starts[oldest.trace.id]
            batch.append(oldest)
        return batch

    def clear(self) -> None:
        """Let go of it all."""
        self._starts.clear()
        self._finishes.clear()


log = logging.getLogger(__name__)

RETRY_SECONDS = (0.05, 0.5)
"""So long the writer waits before it tries again to write to a database that did not take the rows."""

SLOW_REFUSAL_SECONDS = 5.0
"""A database that took so long to refuse the rows, as one that is locked does, is not asked again."""

SCAN_TRACES = 32
"""So many traces are looked through together; those among which there is a secret are looked through one by one."""

Item = Start | Finish
Row = dict[str, Any]
PreparedTrace = tuple[Item, Row]


class TraceRecorder:
    """Writes traces, many in one transaction, from threads of its own; secrets are removed there, before the write.

    What was recorded when the process ends normally is kept. A database that cannot be written to costs a warning and the
    rows that it was to hold, never a run. What a process that is killed had begun is closed by `close_interrupted`.
    """

    def __init__(self, records: Connections, redactor: Redactor, *, queue_size: int = MAX_QUEUED_TRACES) -> None:
        self._records = records
        self._redactor = redactor
        self._backlog = TraceBacklog(queue_size)
        self._writer = BackgroundWriter[Item, Sequence[PreparedTrace]](
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

    def _write(self, ready: Sequence[PreparedTrace]) -> None:
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

    def _write_patiently(self, ready: Sequence[PreparedTrace]) -> None:
        if self._writer.closed and self._refused is not None:
            raise self._refused  # nobody waits once more at the end
        began = monotonic()
        for seconds in RETRY_SECONDS:
            try:
                self._write_rows(ready)
            except (Conflict, Unavailable) as error:
                if monotonic() > began + SLOW_REFUSAL_SECONDS:
                    self._refused = error
                    raise
                self._writer.pause(seconds)
            else:
                self._refused = None
                return
        self._write_rows(ready)

    def _ready(self, batch: Sequence[Item]) -> list[PreparedTrace]:
        """The items with their rows, without those that cannot be made into one."""
        ready: list[PreparedTrace] = []
        for start in range(0, len(batch), SCAN_TRACES):
            items = batch[start : start + SCAN_TRACES]
            try:
                rows = to_rows_if_clean([item.trace for item in items], self._redactor)
            except Exception:  # noqa: BLE001  (the trace that is at fault is found below)
                rows = None
            found = rows if rows is not None else [self._row(item) for item in items]
            ready += [(item, row) for item, row in zip(items, found, strict=True) if row is not None]
        return ready

    def _row(self, item: Item) -> Row | None:
        try:
            return to_row(item.trace, self._redactor)
        except Exception as error:  # noqa: BLE001  (one trace that cannot be read must not cost the others)
            self._give_up([item], error)
            return None

    def _write_rows(self, ready: Sequence[PreparedTrace]) -> None:
        if not ready:
            return
        starts = {row["id"]: row for item, row in ready if isinstance(item, Start)}
        finishes = {row["id"]: row for item, row in ready if isinstance(item, Finish)}
        with self._records.write() as connection:
            traces.insert_many(connection, list(starts.values()))
            traces.finish_many(connection, list(finishes.values()))

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
