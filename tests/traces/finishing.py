"""End a run at a recorder, and wait for what becomes of its row."""

from __future__ import annotations

from concurrent.futures import Future

from prowess.storage.traces import Trace
from prowess.traces.trace_recorder import TraceRecorder


def finish(recorder: TraceRecorder, trace: Trace) -> Future[bool]:
    """The future is True once the row is durable, and False if it was dropped."""
    stored: Future[bool] = Future()
    recorder.finish(trace, stored.set_result)
    return stored
