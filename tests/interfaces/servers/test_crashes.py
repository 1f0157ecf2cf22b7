"""Servers that are killed, databases that go away: what was acknowledged stays, once, and service resumes by itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from .load import History, Writer, check
from .replicas import Deployment, Forks, free_port, until, until_ready

WRITERS = 8


@asynccontextmanager
async def writing(port: int, token: str) -> AsyncGenerator[History]:
    """Run clients that write without pause; yield what they were told. They stop at the end of the block."""
    history = History()
    stopped = asyncio.Event()
    writers = [Writer(f"w{number}", lambda: f"http://127.0.0.1:{port}", token, history) for number in range(WRITERS)]
    async with asyncio.TaskGroup() as group:
        for writer in writers:
            group.create_task(writer.run(stopped))
        yield history
        stopped.set()


async def kill_again_and_again(deployment: Deployment, started: Forks, kills: int) -> History:
    chance = random.Random(kills)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = started.start(deployment, port)
    await until_ready(url)
    async with writing(port, deployment.tokens["ann"]) as history:
        for _ in range(kills):
            enough = history.acknowledged + chance.randint(1, 2 * WRITERS)
            await until(lambda enough=enough: history.acknowledged >= enough or bool(history.problems))
            await asyncio.to_thread(started.kill, server)
            server = started.start(deployment, port)
            await until_ready(url)
    await check(history, url, deployment.tokens["ann"])
    return history


@pytest.mark.long
@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 200), ("postgres", 30)])
def test_no_acknowledged_write_is_lost_or_doubled_when_the_server_is_killed(deploy, forks, kind, kills):
    history = asyncio.run(kill_again_and_again(deploy(kind), forks, kills))

    assert history.problems == []
    assert history.acknowledged >= kills


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_writes_survive_the_death_of_their_server(deploy, forks, kind):
    history = asyncio.run(kill_again_and_again(deploy(kind), forks, 1))

    assert history.problems == []
