"""Turns: so many runs at a time, and runs within runs that never wait for each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prowess.errors import Refused
from prowess.handlers.host_functions import MAX_SKILL_DEPTH
from prowess.sandbox.process.sandbox import MAX_CONCURRENT as AT_ONCE_NATIVE
from prowess.sandbox.protocol import Sandbox
from prowess.sandbox.script import script_from_template
from prowess.sandbox.script_run import MAX_NESTING, RunSlots
from prowess.sandbox.wasm.sandbox import MAX_CONCURRENT
from prowess.threads import share_threads

pytestmark = pytest.mark.anyio

ASK = script_from_template("import prowess\nprowess.submit(prowess.inner())", {})
PLAIN = script_from_template("import prowess\nprowess.submit('innermost')", {})
PATIENCE_SECONDS = 120


async def within(turns: list[RunSlots], work: Any) -> None:
    """Take one turn of each within the one before, and then do something."""
    if not turns:
        await work()
        return
    async with turns[0].hold():
        await within(turns[1:], work)


async def test_no_more_have_a_turn_at_a_time_than_there_is_room_for():
    turns, now, most = RunSlots(2), 0, 0

    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    await asyncio.gather(*(asyncio.create_task(within([turns], work)) for _ in range(10)))
    assert most == 2


async def test_an_organization_with_many_runs_leaves_turns_for_the_others():
    turns, over, running = RunSlots(4), asyncio.Event(), list[str]()

    async def run(organization: str, user: str) -> None:
        async def work() -> None:
            running.append(organization)
            await over.wait()

        with share_threads(f"{organization}\x00{user}\x00{user}"):
            await within([turns], work)

    acme = [asyncio.create_task(run("acme", user)) for user in ("ann", "bob", "cai") for _ in range(9)]
    await asyncio.sleep(0)
    globex = asyncio.create_task(run("globex", "eve"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "globex" not in running:  # noqa: ASYNC110  (what others do has no event)
            await asyncio.sleep(0)
    assert sorted(running) == ["acme", "acme", "acme", "globex"]
    over.set()
    await asyncio.gather(*acme, globex)


async def test_what_all_that_have_a_turn_wait_for_gets_one_too():
    turns = RunSlots(2)
    all_there = asyncio.Barrier(2)

    async def inner() -> None:
        await within([turns], lambda: asyncio.sleep(0))

    async def outer() -> None:
        await all_there.wait()
        await asyncio.create_task(inner())

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(asyncio.create_task(within([turns], outer)) for _ in range(4)))


async def test_turns_of_two_sandboxes_within_each_other_wait_for_nothing_forever():
    one, other = RunSlots(1), RunSlots(1)
    both = asyncio.Barrier(2)

    async def run(first: RunSlots, second: RunSlots) -> None:
        async with first.hold():
            await both.wait()
            await within([second, first], lambda: asyncio.sleep(0))

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(asyncio.create_task(run(one, other)), asyncio.create_task(run(other, one)))


async def test_a_turn_that_is_over_leaves_the_next_on_the_first_level():
    turns = RunSlots(1)
    for _ in range(2 * MAX_NESTING):
        await within([turns], lambda: asyncio.sleep(0))


async def test_runs_lie_so_deep_within_each_other_and_no_deeper():
    turns = RunSlots(4)
    await within([turns] * MAX_NESTING, lambda: asyncio.sleep(0))
    with pytest.raises(Refused):
        await within([turns] * (MAX_NESTING + 1), lambda: asyncio.sleep(0))


def test_skills_run_each_other_no_deeper_than_runs_may_lie():
    assert MAX_SKILL_DEPTH < MAX_NESTING


def test_event_loops_do_not_wait_for_each_other():
    turns = RunSlots(1)

    def other() -> None:
        asyncio.run(within([turns], lambda: asyncio.sleep(0)))

    async def hold() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await within([turns], lambda: asyncio.to_thread(other))

    asyncio.run(hold())


async def nested(sandbox: Sandbox, at_once: int) -> list[Any]:
    """As many runs as there is room for, each of which waits for a run within a run once all have begun."""
    all_there = asyncio.Barrier(at_once)

    async def innermost() -> Any:
        return (await sandbox.run(PLAIN, {})).result

    async def inner() -> Any:
        await all_there.wait()
        return (await sandbox.run(ASK, {"inner": innermost})).result

    async with asyncio.timeout(PATIENCE_SECONDS):
        rans = await asyncio.gather(*(sandbox.run(ASK, {"inner": inner}) for _ in range(at_once)))
    return [ran.result for ran in rans]


async def test_scripts_that_all_wait_for_scripts_come_to_their_end(sandbox):
    assert await nested(sandbox, MAX_CONCURRENT) == ["innermost"] * MAX_CONCURRENT


async def test_native_runs_that_all_wait_for_native_runs_come_to_their_end(native):
    assert await nested(native, AT_ONCE_NATIVE) == ["innermost"] * AT_ONCE_NATIVE
