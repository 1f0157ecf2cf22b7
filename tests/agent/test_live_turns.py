"""Turns that run in a process: how many, and what those who stop or follow them see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from prowess.agent.live_turns import LiveTurns
from prowess.agent.updates import TurnEnded, Update
from prowess.errors import TryLater
from prowess.storage.owner import Owner

from .turns import play

pytestmark = pytest.mark.anyio

ANN, BOB = Owner(organization_id="acme", user_id="ann"), Owner(organization_id="acme", user_id="bob")


async def endless() -> AsyncGenerator[Update]:
    await asyncio.Event().wait()
    yield TurnEnded(state="done")


async def test_nobody_runs_more_than_half_of_the_turns(monkeypatch):
    monkeypatch.setattr("prowess.agent.live_turns.MAX_TURNS", 4)
    turns = LiveTurns()
    for number in range(2):
        turns.start(f"a{number}", endless, owner=ANN)
    with pytest.raises(TryLater):
        turns.start("a2", endless, owner=ANN)
    turns.start("b0", endless, owner=BOB)
    await turns.close()


async def test_a_turn_that_is_stopped_before_anything_happened_ends_as_stopped():
    live = LiveTurns().start("c", endless, owner=ANN)
    beginning = asyncio.create_task(live.begin())
    await live.stop()
    await beginning
    assert [update.state for update in await play(live.follow())] == ["stopped"]


async def test_a_turn_that_begins_while_the_last_one_leaves_is_found_after_it():
    leaving, turns = asyncio.Event(), LiveTurns()

    async def ended() -> AsyncGenerator[Update]:
        yield TurnEnded(state="done")
        await leaving.wait()

    last = turns.start("c", ended, owner=ANN)
    await last.begin()
    live = turns.start("c", endless, owner=ANN)
    assert turns.find("c") is last
    leaving.set()
    await asyncio.wait([last.task])
    await asyncio.sleep(0)  # what is called when a task is done is called one step later
    assert turns.find("c") is live
    await turns.close()
    await asyncio.sleep(0)
    assert turns.find("c") is None
