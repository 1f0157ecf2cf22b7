"""Many subscribers, some of them slow, and a server that is restarted: everyone receives every event once and in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from typing import Any

import httpx2
import pytest

from .load import document
from .replicas import Deployment, Forks, free_port, until, until_ready
from .subscribers import Subscriber


async def change_state(url: str, token: str, session: str, events: int) -> None:
    """Cause this many events, however often the server goes away or is busy meanwhile."""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        done = 0
        while done < events:
            verb = "disable" if done % 2 else "enable"
            path = f"{url}/api/v1/sessions/{session}/{verb}"
            if await answered(client.post(path, json={"skill_slug": "invoices"})) is not None:
                done += 1
                continue
            # It may have been done although no response came.
            last = None
            while last is None:
                last = await answered(client.get(f"{url}/api/v1/events/list", params={"limit": 1}))
            # The first event is about the skill that was created.
            done = last["last"] - 1


async def answered(response: Awaitable[httpx2.Response]) -> Any:
    """Return the value of a response; None if there is none, or the server is busy and says when to try again."""
    try:
        answer = await response
    except httpx2.TransportError:
        await asyncio.sleep(0.02)
        return None
    if answer.status_code == 503:
        assert "retry-after" in answer.headers
        await asyncio.sleep(0.02)
        return None
    assert answer.status_code == 200, answer.text
    return answer.json()


async def follow_through_restart(
    deployment: Deployment, forks: Forks, *, subscribers: int, events: int, how: int
) -> list[Subscriber]:
    port, token = free_port(), deployment.tokens["ann"]
    url = f"http://127.0.0.1:{port}"
    server = forks.start(deployment, port)
    await until_ready(url)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        made = await client.post(f"{url}/api/v1/skills", json=document("invoices", "Adds up invoices."))
        assert made.status_code == 201, made.text
        session = (await client.post(f"{url}/api/v1/sessions", json={})).json()["id"]
    # Every fifth one is slow.
    following = [Subscriber(port, token, slow=number % 5 == 0) for number in range(subscribers)]
    async with asyncio.timeout(240), asyncio.TaskGroup() as group:
        for subscriber in following:
            group.create_task(subscriber.follow(events))
        writing = group.create_task(change_state(url, token, session, events))
        third = subscribers * events // 3
        await until(lambda: sum(len(subscriber.ids) for subscriber in following) >= third)
        await asyncio.to_thread(forks.kill, server, how)
        forks.start(deployment, port)
        await until_ready(url)
        await writing
    return following


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_200_subscribers_miss_nothing_and_get_nothing_twice_when_the_server_restarts(deploy, forks, how):
    events = 120
    following = asyncio.run(follow_through_restart(deploy("sqlite"), forks, subscribers=200, events=events, how=how))

    for subscriber in following:
        assert subscriber.ids == list(range(1, events + 1))
    assert all(subscriber.connections >= 2 for subscriber in following)


def test_subscribers_resume_after_a_restart(deploy, forks):
    following = asyncio.run(
        follow_through_restart(deploy("sqlite"), forks, subscribers=10, events=12, how=signal.SIGTERM)
    )

    assert [subscriber.ids for subscriber in following] == [list(range(1, 13))] * 10
