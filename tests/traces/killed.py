"""A process that runs and runs, says of each run when its trace is kept, and waits to be killed.

    python killed.py URL

It prints `began ID` for runs that will never end, and `kept ID` for each run whose end was acknowledged.
"""

from __future__ import annotations

import sys
import threading
import uuid
from concurrent.futures import Future
from dataclasses import replace

from prowess.redaction import Redactor
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.database import open_database
from prowess.storage.traces import Trace
from prowess.traces.cleanup import process_identity
from prowess.traces.trace_recorder import TraceRecorder

SAYING = threading.Lock()


def begun() -> Trace:
    return Trace(
        id=str(uuid.uuid4()),
        run_id="run",
        organization_id="acme",
        skill_id="skill",
        skill_slug="review",
        artifact_id="artifact",
        artifact_name="Check",
        artifact_kind="prompt_template",
        started_at=now(),
        deadline_at=seconds_from_now(3600),
        process=process_identity(),
        rendered_input="Read this. " * 100,
    )


def say(what: str, trace: Trace) -> None:
    with SAYING:
        sys.stdout.write(f"{what} {trace.id}\n")
        sys.stdout.flush()


def run_and_run(recorder: TraceRecorder, *, long: bool) -> None:
    """Eight runs at a time; long ones go on until their beginning is written."""
    while True:
        traces = [begun() for _ in range(8)]
        for trace in traces:
            recorder.begin(trace)
        if long:
            recorder.flush()
        futures: list[Future[bool]] = [Future() for _ in traces]
        for trace, future in zip(traces, futures, strict=True):
            recorder.finish(replace(trace, status="ok", completed_at=now()), future.set_result)
        for trace, future in zip(traces, futures, strict=True):
            if future.result():
                say("kept", trace)


def main() -> None:
    recorder = TraceRecorder(open_database(sys.argv[1]), Redactor(["a-known-value"]))
    endless = [begun() for _ in range(3)]
    for trace in endless:
        recorder.begin(trace)
    recorder.flush()
    for trace in endless:
        say("began", trace)
    for long in (False, False, True):
        threading.Thread(target=run_and_run, args=(recorder,), kwargs={"long": long}, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
