"""Runs whose process is gone are closed as interrupted; runs that go on are left alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from prowess.redaction import Redactor
from prowess.storage.clock import seconds_from_now
from prowess.storage.traces import insert_many, to_values
from prowess.traces.cleanup import close_interrupted, is_process_gone, process_identity
from prowess.traces.trace_row import to_row

MARK = "from prowess.traces.cleanup import process_identity; print(process_identity())"


@pytest.fixture(scope="module")
def gone():
    """The mark of a process that has ended."""
    return subprocess.run([sys.executable, "-c", MARK], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def keep(database, begun):
    def add(**more):
        trace = begun(**more)
        with database.write() as connection:
            insert_many(connection, [to_values(to_row(trace, Redactor()))])
        return trace.id

    return add


def test_a_process_that_has_ended_is_gone_and_this_one_is_not(gone):
    assert is_process_gone(gone)
    assert not is_process_gone(process_identity())


def test_another_process_with_the_same_number_is_not_the_one_that_began():
    host, number, started = process_identity().rsplit("/", 2)
    assert is_process_gone(f"{host}/{number}/{int(started) + 1}")


@pytest.mark.parametrize("mark", ["", "/", "somewhere/1/2", "somewhere-else+x+y/999999999/1", "a/b/c/d"])
def test_of_a_process_elsewhere_nothing_is_known(mark):
    assert not is_process_gone(mark)


def test_a_forked_child_has_a_mark_of_its_own(new_process):
    code = (
        "import os, sys\nfrom prowess.traces.cleanup import is_process_gone, process_identity\nmine = process_identity()\n"
        "child = os.fork()\n"
        "if not child: os._exit(0 if process_identity() != mine and not is_process_gone(mine) else 1)\n"
        "sys.exit(os.waitpid(child, 0)[1])\n"
    )
    assert new_process(environment=os.environ, code=code).returncode == 0


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
