"""Record traces in the background: a run never waits for the rows of other runs."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from prowess.errors import Conflict, ProwessError, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.redaction import Redactor
from prowess.storage import traces
from prowess.storage.background_writer import CLOSE_SECONDS, BackgroundWriter
from prowess.storage.database import Connections
from prowess.storage.traces import Trace
from prowess.traces.trace_row import to_row, to_values_if_clean

log = logging.getLogger(__name__)

MAX_QUEUED_TRACES = 10_000
BATCH_TRACES = 500
LINGER_SECONDS = 0.02
"""How long the start of a run is held back, so that a run that ends sooner is written once instead of twice."""

RETRY_SECONDS = (0.05, 0.5)
"""How long to wait before each further attempt to write rows that the database rejected."""

SLOW_REFUSAL_SECONDS = 5.0
"""A database that took longer than this to reject the rows (a locked one does) is not tried again."""

SCAN_TRACES = 32
"""How many traces are scanned for secrets as one text. Only if there is a hit are they scanned one by one."""


OnStored = Callable[[bool], None]
"""Receives True once a row is durable, False if it was dropped. It is called from any thread, and must not raise."""


def ignore_stored(stored: bool) -> None:
    """Ignore what became of a row."""


@dataclass(frozen=True, slots=True)
class Start:
    """A run that started."""

    trace: Trace
    queued_at: float


@dataclass(frozen=True, slots=True)
class Finish:
    """A run that ended. `is_new` is True if its start was never written, so that no row of it can exist yet."""

    trace: Trace
    on_stored: OnStored
    is_new: bool


QueuedTrace = Start | Finish
PreparedTrace = tuple[QueuedTrace, traces.Values]


class TraceBacklog:
    """Starts and finishes in the order in which they came; a finish replaces the start of its run."""

    def __init__(self, size: int = MAX_QUEUED_TRACES) -> None:
        self._size = size
        self._starts: dict[str, Start] = {}
        self._finishes: deque[Finish] = deque()

    def __len__(self) -> int:
        return len(self._starts) + len(self._finishes)

    @property
    def finishes(self) -> int:
        """How many finishes are queued."""
        return len(self._finishes)

    def begin(self, trace: Trace) -> bool:
        """Queue a start; return False if there is no room."""
        if len(self) >= self._size:
            return False
        self._starts[trace.id] = Start(trace, monotonic())
        return True

    def finish(self, trace: Trace, on_stored: OnStored) -> bool:
        """Queue a finish, dropping the oldest start if there is no room; return False if that does not help."""
        is_new = self._starts.pop(trace.id, None) is not None
        if not is_new and len(self) >= self._size:
            if not self._starts:
                return False
            del self._starts[next(iter(self._starts))]
        self._finishes.append(Finish(trace, on_stored, is_new))
        return True

    def wait(self) -> float | None:
        """Return the seconds until something must be written, or None if the backlog is empty."""
        if self._finishes:
            return 0
        oldest = next(iter(self._starts.values()), None)
        return None if oldest is None else oldest.queued_at + LINGER_SECONDS - monotonic()

    def take(self, *, everything: bool) -> list[QueuedTrace]:
        """Remove and return the next batch: finishes first, then the starts that have waited long enough."""
        # Finishes first, because a caller may be waiting for them.
        batch: list[QueuedTrace] = [self._finishes.popleft() for _ in range(min(len(self._finishes), BATCH_TRACES))]
        due = monotonic() - LINGER_SECONDS
        while self._starts and len(batch) < BATCH_TRACES:
            oldest = next(iter(self._starts.values()))
            if not everything and oldest.queued_at > due:
                break
            del self._starts[oldest.trace.id]
            batch.append(oldest)
        return batch

    def clear(self) -> None:
        """Drop everything."""
        self._starts.clear()
        self._finishes.clear()


class TraceRecorder:
    """Writes traces from background threads, many per transaction, with secrets removed before the write.

    Everything recorded before a normal exit is stored. If the database cannot be written to, its rows are dropped with a
    warning; a run never fails because of it. `close_interrupted` closes the runs of a process that was killed.
    """

    def __init__(self, records: Connections, redactor: Redactor, *, queue_size: int = MAX_QUEUED_TRACES) -> None:
        self._records = records
        self._redactor = redactor
        self._backlog = TraceBacklog(queue_size)
        self._writer = BackgroundWriter[QueuedTrace, Sequence[PreparedTrace]](
            self._backlog, prepare=self._prepare, write=self._write, name="prowess-traces"
        )
        self._dropped = 0
        self._warned = False
        self._slow_refusal: Conflict | Unavailable | None = None

    @property
    def dropped(self) -> int:
        """How many finished runs have no row."""
        return self._dropped

    def begin(self, trace: Trace) -> None:
        """Queue the start of a run. Never blocks and never raises.

        If the queue is full the start is left out: the finish writes the whole row anyway. The caller must not change
        what the trace holds afterwards.
        """
        with self._writer.lock:
            if not self._writer.closed and self._backlog.begin(trace) and len(self._backlog) == 1:
                self._writer.wake(within=LINGER_SECONDS)

    def finish(self, trace: Trace, on_stored: OnStored = ignore_stored) -> None:
        """Queue the end of a run. Never blocks and never raises."""
        with self._writer.lock:
            queued = not self._writer.closed and self._backlog.finish(trace, on_stored)
            if queued and self._backlog.finishes == 1:
                self._writer.wake()
        if not queued:
            self._drop([on_stored], "the recorder is closed" if self._writer.closed else "the queue is full")

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until everything recorded so far is written or dropped; return False if that takes too long."""
        return self._writer.flush(seconds)

    def close(self) -> None:
        """Write what is queued and end the threads; runs that end later have no row."""
        self._writer.close()

    def _prepare(self, batch: Sequence[QueuedTrace]) -> list[PreparedTrace]:
        """Return each trace with its row, without those that cannot become one."""
        prepared: list[PreparedTrace] = []
        for start in range(0, len(batch), SCAN_TRACES):
            items = batch[start : start + SCAN_TRACES]
            try:
                rows = to_values_if_clean([item.trace for item in items], self._redactor)
            except Exception:  # noqa: BLE001  (one by one below, which finds the trace at fault)
                rows = None
            found = rows if rows is not None else [self._row(item) for item in items]
            prepared += [(item, row) for item, row in zip(items, found, strict=True) if row is not None]
        return prepared

    def _row(self, item: QueuedTrace) -> traces.Values | None:
        try:
            return traces.to_values(to_row(item.trace, self._redactor))
        except Exception as error:  # noqa: BLE001  (one unreadable trace must not cost the others)
            self._give_up([item], error)
            return None

    def _write(self, prepared: Sequence[PreparedTrace]) -> None:
        try:
            self._write_with_retries(prepared)
        except Exception as error:  # noqa: BLE001  (nothing may escape: it would end the writer thread)
            # A database that is unavailable would reject every single row, too.
            if len(prepared) > 1 and not isinstance(error, Unavailable):
                for single in prepared:  # the database may reject only one of them
                    self._write([single])
            else:
                self._give_up([item for item, _ in prepared], error)
            return
        for item, _ in prepared:
            if isinstance(item, Finish):
                item.on_stored(True)

    def _write_with_retries(self, prepared: Sequence[PreparedTrace]) -> None:
        if self._writer.closed and self._slow_refusal is not None:
            raise self._slow_refusal  # do not delay the exit by another long wait
        began = monotonic()
        for attempt, seconds in enumerate(RETRY_SECONDS):
            try:
                self._write_rows(prepared, first_attempt=attempt == 0)
            except (Conflict, Unavailable) as error:
                if monotonic() > began + SLOW_REFUSAL_SECONDS:
                    self._slow_refusal = error
                    raise
                self._writer.pause(seconds)
            else:
                self._slow_refusal = None
                return
        self._write_rows(prepared, first_attempt=False)

    def _write_rows(self, prepared: Sequence[PreparedTrace], *, first_attempt: bool) -> None:
        if not prepared:
            return
        # By id: of two ends of one run the last counts, and no statement may contain an id twice.
        new: dict[str, traces.Values] = {}
        starts: dict[str, traces.Values] = {}
        finishes: dict[str, traces.Values] = {}
        for item, row in prepared:
            trace_id = row[0]
            if isinstance(item, Start) and trace_id in new:
                continue  # finishes come first in a batch, and a start never replaces one
            # A plain insert is cheaper than an upsert, but only right while the row cannot exist. A connection that
            # broke during the commit leaves open whether it does, so a second attempt takes nothing for granted.
            if first_attempt and (isinstance(item, Start) or item.is_new):
                new[trace_id] = row
            elif isinstance(item, Start):
                starts[trace_id] = row
            else:
                finishes[trace_id] = row
        with self._records.write() as connection:
            traces.add_many(connection, list(new.values()))
            traces.insert_many(connection, list(starts.values()))
            traces.finish_many(connection, list(finishes.values()))

    def _give_up(self, batch: Sequence[QueuedTrace], error: Exception) -> None:
        reason = error.message if isinstance(error, ProwessError) else type(error).__name__
        self._drop([item.on_stored for item in batch if isinstance(item, Finish)], reason)

    def _drop(self, lost: Sequence[OnStored], reason: str) -> None:
        with self._writer.lock:
            self._dropped += len(lost)
            warned, self._warned = self._warned, self._warned or bool(lost)
        if lost and not warned:
            log.warning("Some traces were not recorded: %s", reason)
        # Without the lock, because this calls code of others.
        for on_stored in lost:
            on_stored(False)
