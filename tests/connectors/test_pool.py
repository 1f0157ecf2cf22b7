"""Open connectors: an unused one is closed, a failing one is refused for a while and then tried once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from prowess.connectors import pool as pools
from prowess.connectors.pool import REFUSED_SECONDS, Link, Opener, Pool
from prowess.connectors.stdio import ServerProcess, process_streams
from prowess.errors import TryLater, Unavailable

from .conftest import SERVER

pytestmark = pytest.mark.anyio


class Server:
    """Starts our server, or fails to, and remembers the processes."""

    def __init__(self, tmp_path) -> None:
        self.is_broken = False
        self.started: list[ServerProcess] = []
        self.attempts = 0
        self._folder = tmp_path

    def connect(self) -> Link:
        self.attempts += 1
        if self.is_broken:
            raise Unavailable("It does not start.")
        process = ServerProcess([sys.executable, "-IS", SERVER, "plain"], env={}, cwd=self._folder)
        self.started.append(process)
        return Link(streams=process_streams(process), process=process)

    @property
    def opener(self) -> Opener:
        return Opener(key=("notes",), name="notes", seconds=20.0, connect=self.connect)


@pytest.fixture
def server(tmp_path) -> Server:
    return Server(tmp_path)


class Time:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def pool(time) -> AsyncGenerator[Pool]:
    made = Pool(clock=time)
    yield made
    await made.aclose()


async def ask(pool: Pool, opener: Opener) -> list[str]:
    async with pool.use(opener) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


async def fail(pool: Pool, opener: Opener, times: int) -> None:
    for _ in range(times):
        with pytest.raises(Unavailable, match="does not start"):
            await ask(pool, opener)


async def test_a_session_that_nobody_uses_is_closed_and_the_next_call_opens_another(pool, server, monkeypatch):
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.2)
    assert "echo" in await ask(pool, server.opener)
    [session] = pool._sessions.values()
    await asyncio.wait_for(session._task, 20)
    assert not session.is_open
    assert "echo" in await ask(pool, server.opener)
    assert len(server.started) == 2


async def test_a_session_in_use_is_not_closed_however_long_it_takes(pool, server, monkeypatch):
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.2)
    async with pool.use(server.opener) as client:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.Event().wait()
        assert (await client.list_tools()).tools
    assert len(server.started) == 1


async def test_a_connector_that_fails_is_refused_and_then_tried_once(pool, server, time):
    server.is_broken = True
    await fail(pool, server.opener, 3)
    with pytest.raises(TryLater, match="failed 3 times in a row"):
        await ask(pool, server.opener)
    assert server.attempts == 3
    assert pool.state(("notes",))

    time.now += REFUSED_SECONDS + 1
    await fail(pool, server.opener, 1)
    with pytest.raises(TryLater, match="failed 4 times in a row"):
        await ask(pool, server.opener)
    assert server.attempts == 4


async def test_others_are_refused_while_one_tries_and_served_once_it_works(pool, server, time):
    server.is_broken = True
    await fail(pool, server.opener, 3)
    time.now += REFUSED_SECONDS + 1
    server.is_broken = False
    async with pool.use(server.opener) as client:
        with pytest.raises(TryLater):
            await ask(pool, server.opener)
        assert (await client.list_tools()).tools
    assert "echo" in await ask(pool, server.opener)
    assert pool.state(("notes",)) == ""


async def test_an_error_of_the_caller_leaves_the_attempt_to_the_next_one(pool, server, time):
    server.is_broken = True
    await fail(pool, server.opener, 3)
    time.now += REFUSED_SECONDS + 1
    server.is_broken = False
    with pytest.raises(LookupError):
        async with pool.use(server.opener):
            raise LookupError
    assert "echo" in await ask(pool, server.opener)
