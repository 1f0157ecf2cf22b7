"""Traces that wait to be written: beginnings, which may wait a little, and ends, which may not."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic

from prowess.traces.trace import Trace

QUEUE_TRACES = 10_000
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

    def __init__(self, size: int = QUEUE_TRACES) -> None:
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
