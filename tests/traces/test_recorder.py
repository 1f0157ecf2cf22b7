"""Traces are written in the background, all of them, and never at the expense of a run."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from prowess.errors import Unavailable
from prowess.redaction import Redactor
from prowess.storage.database import open_database
from prowess.storage.deferred_database import DeferredDatabase
from prowess.traces.trace_recorder import TraceRecorder

from .finishing import finish


def done(trace, **more):
    return replace(trace, status="ok", completed_at=trace.started_at, duration_ms=7, **more)


def test_a_run_that_ended_is_there_as_it_was_said_once_its_future_says_so(recorder, begun, kept):
    trace = begun(
        session_id="s",
        fallback_of="other",
        inputs={"b": 1, "a": [1.5, None, True, "é"], "nested": {"z": {}}},
        rendered_input="Read this: naïve 🎉",
        verdicts=[{"type": "length", "passed": False}],
    )
    recorder.begin(trace)
    ended = done(trace, raw_output="", detail={"x": 1}, model_id="m", input_tokens=3, estimated_cost=0.25, error="e")
    assert finish(recorder, ended).result(30) is True

    [found] = kept()
    assert replace(found, created_at="") == ended
    assert list(found.inputs) == ["b", "a", "nested"]


def test_a_run_that_goes_on_is_there_as_running(recorder, begun, kept):
    trace = begun()
    recorder.begin(trace)
    assert recorder.flush()
    assert [found.status for found in kept()] == ["running"]

    assert finish(recorder, done(trace)).result(30)
    assert [(found.id, found.status) for found in kept()] == [(trace.id, "ok")]


def test_an_end_without_a_beginning_and_a_beginning_after_its_end_are_one_row(recorder, begun, kept):
    first, second = begun(), begun()
    assert finish(recorder, done(first)).result(30)
    assert finish(recorder, done(second)).result(30)
    recorder.begin(second)
    assert recorder.flush()
    assert {found.id: found.status for found in kept()} == {first.id: "ok", second.id: "ok"}


def test_of_two_ends_of_one_run_the_last_counts(recorder, begun, kept):
    trace = begun()
    with recorder._writer.lock:  # so that both are written together
        futures = [finish(recorder, done(trace, raw_output=said)) for said in ("first", "second")]
    assert all(future.result(30) for future in futures)
    assert [found.raw_output for found in kept()] == ["second"]


def test_a_run_that_was_taken_for_interrupted_writes_its_own_end_over_that(recorder, database, begun, kept):
    from prowess.storage.traces import close_running

    trace = begun()
    recorder.begin(trace)
    recorder.flush()
    with database.write() as connection:
        assert close_running(connection, [trace.id], moment=trace.started_at, error="gone", code="interrupted") == 1
    assert finish(recorder, done(trace)).result(30)
    assert [(found.status, found.error, found.error_code) for found in kept()] == [("ok", None, None)]


def test_runs_of_many_threads_are_all_kept(recorder, begun, kept):
    traces = [[begun(run_id=f"{thread}") for _ in range(200)] for thread in range(8)]
    answers = []

    def work(mine):
        for trace in mine:
            recorder.begin(trace)
        futures = [finish(recorder, done(trace)) for trace in mine]
        answers.extend(future.result(60) for future in futures)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in traces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [True] * 1600
    assert recorder.dropped == 0
    assert {found.id for found in kept()} == {trace.id for mine in traces for trace in mine}
    assert {found.status for found in kept()} == {"ok"}


def test_the_end_of_a_run_takes_the_place_of_a_beginning_that_still_waits(recorder, begun, kept):
    traces = [begun() for _ in range(50)]
    with recorder._writer.lock:  # as while the writer is busy
        for trace in traces:
            recorder.begin(trace)
        futures = [finish(recorder, done(trace)) for trace in traces]
        assert len(recorder._backlog) == 50
    assert all(future.result(30) for future in futures)
    assert [found.status for found in kept()] == ["ok"] * 50


def test_secrets_are_removed_before_the_write_wherever_they_stand(recorder, begun, kept):
    secret = "canary-4711-value"
    trace = begun(
        inputs={"note": f"x {secret}", "password": "plain", secret: [secret]},
        rendered_input=f"Use {secret[:8]}\n{secret[8:]}",
        raw_output=f"I used {secret}.",
    )
    recorder.begin(trace)
    ended = done(
        trace, error=f"401 for {secret}", detail={"sent": {"header": secret}}, verdicts=[{"explanation": secret}]
    )
    assert finish(recorder, ended).result(30)
    [found] = kept()
    assert "canary" not in repr(found)
    assert found.inputs == {"note": "x [redacted]", "password": "[redacted]", "[redacted]": ["[redacted]"]}
    assert found.rendered_input == "Use [redacted]"


def test_a_secret_of_one_run_is_removed_also_where_many_are_written_together(recorder, begun, kept):
    said = ["plain"] * 40 + ["x canary-4711-value y"] + ["plain"] * 40
    with recorder._writer.lock:
        futures = [finish(recorder, done(begun(raw_output=text))) for text in said]
    assert all(future.result(30) for future in futures)
    assert sorted(found.raw_output for found in kept()) == ["plain"] * 80 + ["x [redacted] y"]


def test_a_full_queue_leaves_out_beginnings_before_ends(database, begun, kept):
    recorder = TraceRecorder(database, Redactor(), queue_size=10)
    traces = [begun() for _ in range(10)]
    with recorder._writer.lock:  # as while the writer is busy
        for trace in traces:
            recorder.begin(trace)
        recorder.begin(begun())
        others = [begun() for _ in range(5)]
        futures = [finish(recorder, done(trace)) for trace in others]
    assert all(future.result(30) for future in futures)
    recorder.close()
    assert recorder.dropped == 0
    assert {found.id for found in kept()} == {trace.id for trace in [*traces[5:], *others]}


def test_an_end_for_which_there_is_no_room_is_given_up_and_counted_and_warned_of_once(database, begun, kept, caplog):
    recorder = TraceRecorder(database, Redactor(), queue_size=3)
    with caplog.at_level(logging.WARNING), recorder._writer.lock:
        futures = [finish(recorder, done(begun())) for _ in range(5)]
        assert [future.result(0) for future in futures[3:]] == [False, False]
    assert [future.result(30) for future in futures[:3]] == [True, True, True]
    recorder.close()
    assert recorder.dropped == 2
    assert len(kept()) == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_database_that_cannot_be_written_costs_one_warning_and_no_run(tmp_path, begun, caplog, monkeypatch):
    monkeypatch.setattr("prowess.traces.trace_recorder.RETRY_SECONDS", (0.0, 0.0))
    (tmp_path / "bad.db").write_bytes(b"this is no database, whatever its name may say" * 50)
    recorder = TraceRecorder(DeferredDatabase(f"sqlite:///{tmp_path}/bad.db"), Redactor())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            trace = begun()
            recorder.begin(trace)
            assert finish(recorder, done(trace)).result(30) is False
        recorder.close()
    assert recorder.dropped == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_database_that_is_away_for_a_moment_costs_nothing(tmp_path, begun, monkeypatch):
    from contextlib import contextmanager

    from prowess.errors import Unavailable

    monkeypatch.setattr("prowess.traces.trace_recorder.RETRY_SECONDS", (0.0, 0.0))
    real = open_database(f"sqlite:///{tmp_path}/agents.db")

    class Away:
        """A database whose first two writes fail."""

        location = url = ""
        left = 2
        read = real.read

        @contextmanager
        def write(self):
            if self.left:
                self.left -= 1
                raise Unavailable("It is away.")
            with real.write() as connection:
                yield connection

    recorder = TraceRecorder(Away(), Redactor())
    assert finish(recorder, done(begun())).result(30) is True
    recorder.close()
    real.close()


def test_one_trace_that_cannot_be_kept_does_not_take_the_others_with_it(recorder, begun, kept):
    with recorder._writer.lock:
        futures = [finish(recorder, done(begun(**more))) for more in ({}, {"skill_id": None}, {"inputs": 5 + 6j}, {})]
    assert [future.result(30) for future in futures] == [True, False, True, True]
    assert recorder.dropped == 1
    assert len(kept()) == 3


def test_after_closing_nothing_is_taken_and_nothing_breaks(recorder, begun, kept):
    recorder.begin(trace := begun())
    recorder.close()
    recorder.begin(begun())
    assert finish(recorder, done(trace)).result(0) is False
    recorder.close()
    assert recorder.flush()
    assert [found.status for found in kept()] == ["running"]


def test_a_connection_that_breaks_after_the_commit_costs_no_row(recorder, begun, kept, monkeypatch):
    write, broken = recorder._records.write, []

    @contextmanager
    def breaking():
        with write() as connection:
            yield connection
        if not broken:
            broken.append(True)
            raise Unavailable("The connection broke.", hint="")

    monkeypatch.setattr(recorder._records, "write", breaking)
    trace = begun()
    with recorder._writer.lock:
        recorder.begin(trace)
        future = finish(recorder, done(trace))
    assert future.result(30) is True
    assert [(found.id, found.status) for found in kept()] == [(trace.id, "ok")]


PROGRAM = """
import os, sys, uuid
from dataclasses import replace
from prowess.redaction import Redactor
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.deferred_database import DeferredDatabase
from prowess.traces.trace_recorder import TraceRecorder
from prowess.storage.traces import Trace

recorder = TraceRecorder(DeferredDatabase(sys.argv[1]), Redactor())

def trace(run):
    return Trace(id=str(uuid.uuid4()), run_id=run, organization_id="acme", skill_id="s", skill_slug="s", artifact_id="a",
                 artifact_name="a", artifact_kind="review", started_at=now(), deadline_at=seconds_from_now(30))
"""


def runs_kept(url):
    from prowess.storage.traces import TraceFilter, read_oldest

    database = open_database(url)
    with database.read() as connection:
        rows = read_oldest(connection, TraceFilter(organization_id="acme", user_id=None), limit=10_000)
    database.close()
    return sorted((row.run_id, row.status) for row in rows)


def test_the_traces_of_a_process_that_ends_without_a_word_are_kept(database_url, new_process):
    code = PROGRAM + "for n in range(1200):\n    recorder.finish(replace(trace(f'{n:04d}'), status='ok'))\n"
    ran = new_process(database_url, environment=os.environ, code=code)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert runs_kept(database_url) == [(f"{number:04d}", "ok") for number in range(1200)]


def test_a_forked_child_writes_its_own_traces_and_not_again_those_of_its_parent(database_url, new_process):
    code = PROGRAM + (
        "recorder.finish(replace(trace('parent'), status='ok'))\n"
        "child = os.fork()\n"
        "recorder.finish(replace(trace('both'), status='ok'))\n"
        "recorder.flush()\n"
        "sys.exit(os.waitpid(child, 0)[1] if child else 0)\n"
    )
    assert new_process(database_url, environment=os.environ, code=code).returncode == 0
    assert runs_kept(database_url) == [("both", "ok"), ("both", "ok"), ("parent", "ok")]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_recorders_at_one_database_keep_all_that_both_were_told(kind, request, tmp_path, begun):
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path}/two.db"
    databases = [open_database(url) for _ in range(2)]
    recorders = [TraceRecorder(database, Redactor()) for database in databases]
    futures = []
    for number in range(300):
        trace = begun(run_id=f"{number:03d}")
        recorders[number % 2].begin(trace)
        futures.append(finish(recorders[number % 2], done(trace)))
    assert all(future.result(60) for future in futures)
    for recorder, database in zip(recorders, databases, strict=True):
        recorder.close()
        database.close()
    assert runs_kept(url) == [(f"{number:03d}", "ok") for number in range(300)]
