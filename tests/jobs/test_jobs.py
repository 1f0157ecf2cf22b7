"""Jobs as a program sees them: batches, durable runs, approvals, cancelling, retrying, names and tenants."""

from __future__ import annotations

import asyncio
import threading

import pytest

from prowess.errors import Conflict, Invalid, NotFound, Refused, SpendExceeded
from prowess.policy.actor import Actor, agent_of, local_person
from prowess.run.request import RunRequest

from .station import broken, skill_files

pytestmark = pytest.mark.anyio

ITEMS = [{"n": n} for n in range(5)]


async def test_a_batch_keeps_the_order_records_errors_and_a_retry_runs_only_what_failed(each_place, station):
    station.told = lambda _, n: broken() if n == 3 else None
    before = set(threading.enumerate())
    each_place.write("line", skill_files())
    async with each_place.open() as prowess:
        request = RunRequest(slug="line", artifacts=("one",))
        job = await prowess.jobs.start_batch(request, ITEMS, name="order", concurrency=2)
        failed = await prowess.jobs.wait(job.id)
        results = [one async for one in prowess.jobs.all_results("order")]
        station.told = lambda *_: None
        await prowess.jobs.retry("order")
        ended = await prowess.jobs.wait(job.id)
        again = [one["ok"] async for one in prowess.jobs.all_results("order")]
    assert (failed.state, failed.done, failed.failed) == ("failed", 4, 1)
    assert failed.error is not None
    assert failed.error.message == "1 of 5 items failed."
    assert [one["index"] for one in results] == [0, 1, 2, 3, 4]
    assert [one["ok"] for one in results] == [True, True, True, False, True]
    assert results[1]["output"] == {"by": "one", "n": 1}
    assert results[3]["error"] == {"code": "run-failed", "message": "The station is broken.", "hint": "Fix it."}
    assert (ended.state, ended.done, ended.failed, ended.attempt) == ("succeeded", 5, 0, 2)
    assert again == [True] * 5
    assert sorted(station.lines("begin")) == ["one 0", "one 1", "one 2", "one 3", "one 3", "one 4"]
    # The pool of the event loop ends with the loop; nothing of DBOS is left.
    left = set(threading.enumerate()) - before
    assert [thread.name for thread in left if not thread.name.startswith("asyncio")] == []


async def test_a_retried_run_goes_on_with_the_artifact_that_failed(place, line, station):
    station.told = lambda name, _: broken() if name == "two" else None
    async with place.open() as prowess:
        job = await prowess.jobs.start_run(line(inputs={"n": 7}), name="steps")
        failed = await prowess.jobs.wait(job.id)
        station.told = lambda *_: None
        await prowess.jobs.retry("steps")
        ended = await prowess.jobs.wait(job.id)
        changes = [event.data for event in await prowess.events.list(names=["job_changed"])]
    assert (failed.state, failed.done, failed.total) == ("failed", 1, 3)
    assert failed.error is not None
    assert failed.error.code == "run-failed"
    assert (ended.state, ended.done) == ("succeeded", 3)
    assert ended.result is not None
    assert [part["artifact"] for part in ended.result["parts"]] == ["one", "two", "three"]
    assert station.lines("begin") == ["one 7", "two 7", "two 7", "three 7"]
    assert [change["state"] for change in changes][-1] == "succeeded"
    assert all("inputs" not in change for change in changes)


async def test_a_run_waits_for_an_approval_that_another_process_gives(place, line, station):
    person = local_person("ann")
    request = line("one", inputs={"n": 1})
    async with place.open(person) as prowess:
        await prowess.policy.set("skill_enablement_policy", "prompt-user")
        agent = prowess.as_actor(agent_of(person, name="helper"))
        job = await agent.jobs.start_run(request, name="asking")
        while job.state != "waiting":
            job = await agent.jobs.get(job.id)
            await asyncio.sleep(0.02)
        began = station.lines("begin")
        async with place.open(person) as other:  # has no worker, as a command that answers
            await other.approvals.resolve(job.approval_id, approved=True)
        ended = await agent.jobs.wait(job.id)
        denied = await _deny(prowess, agent, RunRequest(slug="line", artifacts=("two",), inputs={"n": 2}), place, line)
    assert began == []
    assert (ended.state, ended.approval_id) == ("succeeded", None)
    assert station.lines() == ["one 1"]
    assert denied.state == "failed"
    assert denied.error.code == "approval-denied"


async def _deny(prowess, agent, request, place, line):
    place.write("line", skill_files(more="version: 2.0.0\n"))
    await prowess.skills.reload()
    job = await agent.jobs.start_run(request)
    while job.state != "waiting":
        job = await agent.jobs.get(job.id)
        await asyncio.sleep(0.02)
    await prowess.approvals.resolve(job.approval_id, approved=False)
    return await agent.jobs.wait(job.id)


async def test_a_cancelled_batch_stops_and_a_retry_does_the_rest(place, line, station):
    station.gate = asyncio.Event()
    async with place.open() as prowess:
        job = await prowess.jobs.start_batch(line("one"), ITEMS, name="stop", concurrency=1)
        await station.begun.wait()
        cancelled = await prowess.jobs.cancel("stop")
        with pytest.raises(Conflict, match="has ended: it is cancelled"):
            await prowess.jobs.cancel("stop")
        station.gate.set()
        await prowess.jobs.retry("stop")
        ended = await prowess.jobs.wait(job.id)
    assert (cancelled.state, cancelled.done) == ("cancelled", 0)
    assert (ended.state, ended.done) == ("succeeded", 5)
    assert sorted(station.lines()) == [f"one {n}" for n in range(5)]


async def test_a_batch_stops_at_its_spending_limit_and_goes_on_with_a_higher_one(place, line, station):
    station.told = lambda _, n: SpendExceeded("Spending limit reached.", hint="Raise it.") if n == 2 else None
    async with place.open() as prowess:
        request = line("one")
        job = await prowess.jobs.start_batch(request, ITEMS, name="money", concurrency=1, max_spend=0.5)
        stopped = await prowess.jobs.wait(job.id)
        results = [one async for one in prowess.jobs.all_results(job.id)]
        station.told = lambda *_: None
        # The same name goes on with the batch.
        again = await prowess.jobs.start_batch(request, ITEMS, name="money", concurrency=1, max_spend=5)
        ended = await prowess.jobs.wait(again.id)
    assert (stopped.state, stopped.done, stopped.failed) == ("stopped", 2, 0)
    assert stopped.error is not None
    assert stopped.error.code == "spend-exceeded"
    assert [one["ok"] for one in results] == [True, True, None, None, None]
    assert again.id == job.id
    assert (ended.state, ended.done) == ("succeeded", 5)
    assert station.lines() == [f"one {n}" for n in range(5)]


async def test_names_are_kept_apart_and_others_jobs_look_like_unknown_ones(place, line, station):
    ann = Actor(name="ann", organization="acme", user="ann", permissions=frozenset({"skills.read", "skills.run"}))
    bob = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read", "skills.run"}))
    chief = Actor(name="chief", organization="acme", user="chief")
    reader = Actor(name="ria", organization="acme", user="ann", permissions=frozenset({"skills.read"}))
    request = line("one")
    async with place.open() as prowess:
        own = prowess.as_actor(ann).jobs
        job = await own.start_batch(request, ITEMS, name="mine")
        await own.wait(job.id)
        with pytest.raises(Conflict, match="used by another job"):
            await own.start_batch(request, ITEMS[:2], name="mine")
        assert [one.name for one in await own.list()] == ["mine"]
        assert [one.user for one in await prowess.as_actor(chief).jobs.list()] == ["ann"]
        others = prowess.as_actor(bob).jobs
        for given in ("mine", job.id, "ffffffff"):
            with pytest.raises(NotFound) as unknown:
                await others.get(given)
            assert str(unknown.value) == f"No job {given!r}."
        assert await others.list() == []
        assert await prowess.as_actor(replace_organization(chief)).jobs.list() == []
        with pytest.raises(Refused, match=r"skills\.run"):
            await prowess.as_actor(reader).jobs.start_run(request)
        with pytest.raises(Refused, match=r"skills\.run"):
            await prowess.as_actor(reader).jobs.cancel("mine")
        with pytest.raises(Invalid, match="no items"):
            await own.start_batch(request, [])
        with pytest.raises(Invalid, match="Invalid name"):
            await own.start_run(request, name="a\nb\nc")


def replace_organization(actor: Actor) -> Actor:
    return Actor(name=actor.name, organization="other", user=actor.user)


async def test_a_job_does_not_mix_versions_of_a_skill_and_stores_nothing_that_may_not_be_stored(place, line, station):
    request = line("one")
    station.told = lambda _, n: SpendExceeded("Enough.") if n == 1 else None
    async with place.open() as prowess:
        job = await prowess.jobs.start_batch(request, ITEMS, name="mixed", concurrency=1)
        await prowess.jobs.wait(job.id)
        place.write("line", skill_files(more="version: 3.0.0\n"))
        await prowess.skills.reload()
        await prowess.jobs.retry("mixed")
        stopped = await prowess.jobs.wait(job.id)
        with pytest.raises(Conflict, match="has changed since the job began"):
            await prowess.jobs.start_batch(request, ITEMS, name="mixed")
        place.write("line", skill_files(more="observability: {redact_fields: [n]}\n"))
        await prowess.skills.reload()
        with pytest.raises(Refused, match="does not allow its inputs and outputs to be stored"):
            await prowess.jobs.start_run(request)
        assert len(await prowess.jobs.list()) == 1
    assert stopped.error is not None
    assert (stopped.state, stopped.error.code, stopped.done) == ("failed", "conflict", 1)
