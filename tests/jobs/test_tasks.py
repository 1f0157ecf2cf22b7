"""Tasks of authoring as jobs: parameters, progress, approvals, cancelling and retrying."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from prowess.authoring.task import ProgressListener, TaskProgress
from prowess.engine.engine import Engine
from prowess.errors import Conflict, Invalid, RunFailed
from prowess.jobs import execution, system, tasks, worker
from prowess.policy.actor import agent_of, local_person
from prowess.run.request import RunRequest
from prowess.skill.kinds import JsonObject
from prowess.threads import offload

from .station import skill_files

pytestmark = pytest.mark.anyio


class Counting:
    """A task that does `many` steps, and keeps those that are done from one call to the next."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.fails_at = -1
        self.gate: asyncio.Event | None = None
        self.begun = asyncio.Event()

    async def __call__(self, engine: Engine, _: str, parameters: JsonObject, progress: ProgressListener) -> JsonObject:
        for step in range(len(self.done), parameters["many"]):
            if step == self.fails_at:
                raise RunFailed("Step failed.", hint="Retry.")
            self.done.append(step)
            progress(TaskProgress(total=parameters["many"], done=len(self.done), cost=0.5))
        self.begun.set()
        if self.gate is not None:
            await self.gate.wait()
        return {"who": engine.actor.name, "done": self.done}


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    monkeypatch.setitem(tasks.TASKS, "count", made)
    monkeypatch.setattr(execution, "PROGRESS_SECONDS", 0.01)
    return made


async def test_a_task_reports_its_progress_and_its_result(each_place, counting):
    counting.gate = asyncio.Event()
    async with each_place.open(local_person("ann")) as prowess:
        job = await prowess.jobs.start_task("count", {"many": 3}, name="three")
        while job.done < 3:
            await asyncio.sleep(0.01)
            job = await prowess.jobs.get(job.id)
        counting.gate.set()
        ended = await prowess.jobs.wait(job.id)
        again = await prowess.jobs.start_task("count", {"many": 3}, name="three")
        with pytest.raises(Conflict):
            await prowess.jobs.start_task("count", {"many": 4}, name="three")
    assert (job.kind, job.state, job.total, job.cost_usd) == ("task", "running", 3, 0.5)
    assert (ended.state, ended.done, ended.result) == ("succeeded", 3, {"who": "ann", "done": [0, 1, 2]})
    assert again.attempt == 1


async def test_a_failed_task_says_why_and_a_retry_goes_on(place, counting):
    counting.fails_at = 2
    async with place.open() as prowess:
        job = await prowess.jobs.start_task("count", {"many": 4})
        failed = await prowess.jobs.wait(job.id)
        counting.fails_at = -1
        await prowess.jobs.retry(job.id)
        ended = await prowess.jobs.wait(job.id)
    assert (failed.state, failed.done) == ("failed", 2)
    assert failed.error is not None
    assert failed.error.message == "Step failed."
    assert (ended.state, ended.attempt, counting.done) == ("succeeded", 2, [0, 1, 2, 3])


@pytest.mark.long
async def test_a_cancelled_task_is_interrupted(place, counting):
    counting.gate = asyncio.Event()
    async with place.open() as prowess:
        job = await prowess.jobs.start_task("count", {"many": 1})
        await counting.begun.wait()
        ended = await prowess.jobs.cancel(job.id)
    assert ended.state == "cancelled"


async def test_a_task_that_another_worker_has_started_again_is_interrupted(place, monkeypatch):
    begun, interrupted = asyncio.Event(), asyncio.Event()

    async def wait(_: Engine, __: str, ___: JsonObject, ____: ProgressListener) -> JsonObject:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.set()
        return {}

    monkeypatch.setitem(tasks.TASKS, "wait", wait)
    monkeypatch.setattr(worker, "WATCH_SECONDS", 0.02)
    async with place.open() as prowess:
        job = await prowess.jobs.start_task("wait", {})
        await begun.wait()
        # As another process does that cancels and retries it before this one looks.
        with closing(sqlite3.connect(Path(place.environment["PROWESS_HOME"], "agents.db"))) as database, database:
            database.execute("UPDATE jobs SET attempt = 2")
        await asyncio.wait_for(interrupted.wait(), 10)
        after = await prowess.jobs.get(job.id)
    assert (after.attempt, after.state) == (2, "running")


@pytest.mark.long
async def test_a_task_waits_for_an_approval_that_it_needs(place, monkeypatch):
    async def load(engine: Engine, _: str, __: JsonObject, ___: ProgressListener) -> JsonObject:
        await engine.runs.admit(RunRequest(slug="line", artifacts=("one",)))
        return {"loaded": True}

    monkeypatch.setitem(tasks.TASKS, "load", load)
    place.write("line", skill_files())
    person = local_person("ann")
    async with place.open(person) as prowess:
        await prowess.policy.set("skill_enablement_policy", "prompt-user")
        agent = prowess.as_actor(agent_of(person, name="helper"))
        job = await agent.jobs.start_task("load", {}, skill="line")
        while job.state != "waiting":
            await asyncio.sleep(0.01)
            job = await agent.jobs.get(job.id)
        await prowess.approvals.resolve(job.approval_id, approved=True)
        ended = await agent.jobs.wait(job.id)
    assert (ended.state, ended.skill, ended.result) == ("succeeded", "line", {"loaded": True})


async def test_an_unknown_task_is_refused(place):
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="Unknown task 'nothing'"):
            await prowess.jobs.start_task("nothing", {})


@pytest.mark.parametrize("task", ["eval", "optimize"])
async def test_a_task_whose_parameters_cannot_be_read_says_so(place, task):
    async with place.open() as prowess:
        job = await prowess.jobs.start_task(task, {"skill": [5]})
        ended = await prowess.jobs.wait(job.id)
    assert ended.error is not None
    assert ended.error.message.startswith(f"The plan of the job {job.id[:8]}")


async def test_a_server_with_jobs_has_no_thread_for_every_request(place, counting):
    go = threading.Event()
    async with place.open() as prowess:
        await prowess.jobs.wait((await prowess.jobs.start_task("count", {"many": 1})).id)
        before = threading.active_count()
        requests = [asyncio.create_task(offload(go.wait)) for _ in range(100)]
        await asyncio.sleep(0)
        added = threading.active_count() - before
        go.set()
        await asyncio.gather(*requests)
    assert added <= system.MAX_THREADS
