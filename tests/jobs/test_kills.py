"""Jobs survive `kill -9`: in every step, between steps, in a batch, and of a worker that others take over from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from prowess import Prowess
from prowess.settings import read_settings

from .station import NAMES, Station, skill_files

pytestmark = [pytest.mark.long, pytest.mark.anyio]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def witness(tmp_path: Path) -> Station:
    return Station(tmp_path / "witness.txt")


@pytest.fixture
def start(place, witness) -> Generator[Start]:
    """Start a command of prowess in a process of its own, which dies where it is told to."""
    started: list[subprocess.Popen[str]] = []
    place.write("line", skill_files())

    def run(*command: str, kill: str = "", seconds: float = 0.0, **environment: str) -> subprocess.Popen[str]:
        program = [
            sys.executable,
            str(Path(__file__).with_name("station.py")),
            str(witness.witness),
            kill,
            str(seconds),
        ]
        began = subprocess.Popen(
            [*program, *command],
            env={**os.environ, **place.environment, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=place.workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(began)
        return began

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def test_a_run_that_is_killed_in_every_step_and_between_repeats_no_finished_step(start, witness):
    command = ("run", "line", "--durable", "--name", "chain", "-i", "n:=1", "--json")
    kills = [word for name in NAMES for word in (f"in {name}", f"after {name}")]
    for kill in kills:
        process = start(*command, kill=kill)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, kill
    process = start(*command)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0, printed
    begun, ended = Counter(witness.lines("begin")), Counter(witness.lines("end"))
    assert ended == {f"{name} 1": 1 for name in NAMES}
    assert sum(begun.values()) <= len(NAMES) + len(kills)
    assert begun == {f"{name} 1": 2 for name in NAMES}  # only the step in which it was killed began again


def test_a_batch_that_is_killed_loses_nothing_and_finishes_nothing_twice(start, witness, place):
    items = place.workspace / "items.jsonl"
    items.write_text("".join(f'{{"n": {n}}}\n' for n in range(120)))
    out = place.workspace / "out.jsonl"
    command = ("run", "line", "one", "--batch", str(items), "--name", "many", "--concurrency", "4", "--out", str(out))
    process = start(*command, seconds=0.02)
    until(lambda: len(witness.lines()) >= 30, process)
    process.kill()
    process.communicate()
    interrupted = start(*command, seconds=0.02)
    until(lambda: len(witness.lines()) >= 70, interrupted)
    interrupted.send_signal(signal.SIGINT)
    printed, _ = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert "prowess jobs retry many" in printed
    ended = start("jobs", "retry", "many", "--out", str(out))
    printed, _ = ended.communicate(timeout=60)
    assert ended.returncode == 0, printed
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["index"] for one in results] == list(range(120))
    assert [one["output"]["n"] for one in results] == list(range(120))
    done = Counter(witness.lines())
    assert set(done) == {f"one {n}" for n in range(120)}
    # What ended in the instant before the kill may not have been recorded yet: at most what ran at once.
    assert sum(done.values()) - len(done) <= 8


async def test_two_workers_share_a_batch_and_one_takes_over_from_the_other(start, witness, place, postgres_url):
    environment = {**place.environment, "PROWESS_DATABASE_URL": postgres_url}
    workers = [start("worker", seconds=0.05, PROWESS_DATABASE_URL=postgres_url) for _ in range(2)]
    async with Prowess.open(settings=read_settings(environment)) as prowess:
        from prowess.run.request import RunRequest

        request = RunRequest(slug="line", artifacts=("one",))
        # Handed over to the workers: this process only stores the job, as a server without a worker would.
        job = await _hand_over(prowess, request, [{"n": n} for n in range(400)])
        until(lambda: len(witness.lines()) >= 60, workers[1])
        workers[0].kill()
        workers[0].communicate()
        ended = await prowess.jobs.wait(job)
        results = [one async for one in prowess.jobs.all_results(job)]
    assert (ended.state, ended.done, ended.failed) == ("succeeded", 400, 0)
    assert [one["index"] for one in results] == list(range(400))
    assert set(witness.lines()) == {f"one {n}" for n in range(400)}


async def _hand_over(prowess: Prowess, request, items) -> str:
    job = await prowess.jobs.start_batch(request, items, name="shared", concurrency=2)
    await prowess.jobs.stop()
    return job.id
