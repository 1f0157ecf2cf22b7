"""Runs whose process is gone are closed as interrupted; runs that go on are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Event

import pytest

from prowess.redaction import Redactor
from prowess.storage.clock import seconds_from_now
from prowess.storage.traces import insert_many
from prowess.traces.cleanup import clean_up_traces, close_interrupted, is_process_gone, process_identity, prune_traces
from prowess.traces.trace_row import to_row

MARK = "from prowess.traces.cleanup import process_identity; print(process_identity())"


@pytest.fixture
def gone():
    """The mark of a process that has ended."""
    return subprocess.run([sys.executable, "-c", MARK], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def keep(database, begun):
    def add(**more):
        trace = begun(**more)
        with database.write() as connection:
            insert_many(connection, [to_row(trace, Redactor())])
        return trace.id

    return add


def test_a_process_that_has_ended_is_gone_and_this_one_is_not(gone):
    assert is_process_gone(gone)
    assert not is_process_gone(process_identity())


def test_another_process_with_the_same_number_is_not_the_one_that_began(gone):
    host, number, started = process_identity().rsplit("/", 2)
    assert is_process_gone(f"{host}/{number}/{int(started) + 1}")


@pytest.mark.parametrize("mark", ["", "/", "somewhere/1/2", "somewhere-else+x+y/999999999/1", "a/b/c/d"])
def test_of_a_process_elsewhere_nothing_is_known(mark):
    assert not is_process_gone(mark)


def test_a_forked_child_has_a_mark_of_its_own():
    code = (
        "import os, sys\nfrom prowess.traces.cleanup import is_process_gone, process_identity\nmine = process_identity()\n"
        "child = os.fork()\n"
        "if not child: os._exit(0 if process_identity() != mine and not is_process_gone(mine) else 1)\n"
        "sys.exit(os.waitpid(child, 0)[1])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_process_that_ended_and_is_not_yet_buried_is_gone():
    with subprocess.Popen([sys.executable, "-c", MARK], stdout=subprocess.PIPE, text=True) as child:
        mark = child.stdout.readline().strip()
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_process_gone(mark)


def test_only_runs_of_processes_that_are_gone_or_long_overdue_are_closed(database, keep, kept, gone):
    lost = keep(process=gone)
    overdue = keep(process="elsewhere/1/2", deadline_at=seconds_from_now(-120))
    running = keep()
    elsewhere = keep(process="elsewhere/1/2")
    late = keep(process="elsewhere/1/2", deadline_at=seconds_from_now(-10))
    ended = keep(process=gone, status="ok")

    assert close_interrupted(database) == 2
    assert close_interrupted(database) == 0

    found = {trace.id: trace for trace in kept()}
    assert {name: trace.status for name, trace in found.items()} == {
        lost: "interrupted",
        overdue: "interrupted",
        running: "running",
        elsewhere: "running",
        late: "running",
        ended: "ok",
    }
    closed = found[lost]
    assert (closed.error_code, bool(closed.error), closed.completed_at is not None) == ("interrupted", True, True)


def test_traces_older_than_they_are_kept_go_and_the_others_stay(database, keep, kept):
    day = 24 * 60 * 60
    for days in range(1, 60, 7):
        keep(started_at=seconds_from_now(-days * day), status="ok", run_id=f"{days:02d}")
    keep(started_at=seconds_from_now(-90 * day), run_id="still running")

    assert prune_traces(database, 30) == 4
    assert sorted(trace.run_id for trace in kept()) == ["01", "08", "15", "22", "29", "still running"]
    assert prune_traces(database, 10) == 3


def test_many_are_removed_in_portions(database, begun, kept):
    old = seconds_from_now(-40 * 24 * 60 * 60)
    with database.write() as connection:
        insert_many(connection, [to_row(begun(status="ok", started_at=old), Redactor()) for _ in range(2_300)])
    assert prune_traces(database) == 2_300
    assert kept() == []


def test_tidying_a_database_that_cannot_be_used_is_a_warning(tmp_path, caplog):
    from prowess.storage.database import DeferredDatabase

    (tmp_path / "bad.db").write_bytes(b"this is no database, whatever its name may say" * 50)
    clean_up_traces(DeferredDatabase(f"sqlite:///{tmp_path}/bad.db"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_tidying_closes_and_removes(database, keep, kept, gone):
    keep(process=gone, run_id="closed")
    keep(status="ok", started_at=seconds_from_now(-31 * 24 * 60 * 60), run_id="removed")
    clean_up_traces(database)
    assert [(trace.run_id, trace.status) for trace in kept()] == [("closed", "interrupted")]


def test_where_nothing_is_old_or_lost_tidying_keeps_nobody_from_writing(database, keep):
    class Reading:
        location, url, read = database.location, database.url, database.read

        def write(self):
            raise AssertionError

    keep()
    assert prune_traces(Reading()) == 0
    clean_up_traces(Reading())


def test_tidying_that_has_been_ended_takes_no_connection():
    ended = Event()
    ended.set()
    clean_up_traces(None, 30, ended)
