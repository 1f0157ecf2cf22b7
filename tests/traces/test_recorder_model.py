"""Whatever happens in whatever order, what is kept is what a simple model says."""

from __future__ import annotations

import tempfile
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from prowess.redaction import Redactor
from prowess.storage.database import open_database
from prowess.storage.traces import Trace, TraceFilter, read_oldest
from prowess.traces.cleanup import close_interrupted, process_identity
from prowess.traces.trace_recorder import TraceRecorder

from .finishing import finish

WHICH = st.integers(0, 5)


def begun(number: int) -> Trace:
    return Trace(
        id=f"trace-{number}",
        run_id="run",
        organization_id="acme",
        skill_id="skill",
        skill_slug="review",
        artifact_id="artifact",
        artifact_name="Check",
        artifact_kind="review",
        started_at=f"2026-03-01T00:00:0{number}Z",
        deadline_at="2126-03-01T00:00:00Z",
        process=process_identity(),
    )


class Recording(RuleBasedStateMachine):
    """Runs begin, end and end again; the recorder is told to hurry, and is closed and opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.database = open_database(f"sqlite:///{self.folder.name}/agents.db")
        self.recorder = TraceRecorder(self.database, Redactor(), queue_size=1_000)
        self.expected: dict[str, str] = {}

    @rule(number=WHICH)
    def begin(self, number: int) -> None:
        self.recorder.begin(begun(number))
        self.expected.setdefault(f"trace-{number}", "running")

    @rule(number=WHICH, status=st.sampled_from(["ok", "failed"]), patient=st.booleans())
    def finish(self, number: int, status: str, patient: bool) -> None:
        future = finish(self.recorder, replace(begun(number), status=status))
        self.expected[f"trace-{number}"] = status
        if patient:
            assert future.result(30) is True

    @rule()
    def hurry(self) -> None:
        assert self.recorder.flush()
        assert self.kept() == self.expected

    @rule()
    def begin_anew(self) -> None:
        self.recorder.close()
        assert self.kept() == self.expected
        self.recorder = TraceRecorder(self.database, Redactor())

    @rule()
    def tidy(self) -> None:
        assert close_interrupted(self.database) == 0

    @invariant()
    def nothing_else_is_kept(self) -> None:
        assert self.kept().keys() <= self.expected.keys()
        assert self.recorder.dropped == 0

    def kept(self) -> dict[str, str]:
        with self.database.read() as connection:
            rows = read_oldest(connection, TraceFilter(organization_id="acme", user_id=None), limit=100)
        return {row.id: row.status for row in rows}

    def teardown(self) -> None:
        self.recorder.close()
        assert self.kept() == self.expected
        self.database.close()
        self.folder.cleanup()


TestRecording = Recording.TestCase
TestRecording.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
