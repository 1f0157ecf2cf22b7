"""Two replicas on one PostgreSQL database are one server: what happens at one is seen at the other, at the next request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from .load import document
from .replicas import Deployment, Forks, free_port, replica, until_ready
from .subscribers import Subscriber


class Pair:
    """Two replicas, `a` and `b`, and clients of all people for both."""

    def __init__(self, deployment: Deployment, ports: tuple[int, int]) -> None:
        self.tokens = deployment.tokens
        self.ports = dict(zip("ab", ports, strict=True))
        self._client = httpx2.AsyncClient(timeout=60)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    async def send(self, name: str, who: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        return await self._client.request(method, f"{self.url(name)}/api/v1{path}", json=body, headers=headers)

    async def do(self, name: str, who: str, method: str, path: str, body: Any = None) -> Any:
        answer = await self.send(name, who, method, path, body)
        assert answer.status_code < 300, (method, path, answer.text)
        return answer.json() if answer.content else None

    async def close(self) -> None:
        await self._client.aclose()


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
def with_pair(deploy: Callable[..., Deployment], forks: Forks, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that runs a test with two replicas, in whose database there is one skill."""

    async def run(test: Callable[[Pair], Awaitable[None]], deployment: Deployment) -> None:
        ports = (free_port(), free_port())
        for port in ports:
            forks.start(deployment, port)
        pair = Pair(deployment, ports)
        try:
            async with asyncio.timeout(120):
                for name in "ab":
                    await until_ready(pair.url(name))
                await pair.do("a", "ann", "POST", "/skills", document("invoices", "Adds up invoices."))
                await test(pair)
        finally:
            await pair.close()

    return lambda test: asyncio.run(run(test, deploy(request.param)))


def test_a_skill_that_is_written_at_one_is_read_matched_and_gone_at_the_other(with_pair):
    async def test(pair: Pair) -> None:
        assert (await pair.do("b", "bob", "GET", "/skills/invoices"))["description"] == "Adds up invoices."
        found = await pair.do("b", "bob", "POST", "/match", {"message": "add up these invoices"})
        assert found["items"][0]["slug"] == "invoices"

        await pair.do("b", "ann", "PUT", "/skills/invoices", document("invoices", "Sorts receipts."))
        assert (await pair.do("a", "bob", "GET", "/skills/invoices"))["description"] == "Sorts receipts."

        await pair.do("a", "ann", "DELETE", "/skills/invoices")
        assert (await pair.send("b", "bob", "GET", "/skills/invoices")).status_code == 404

    with_pair(test)


@pytest.mark.long
def test_an_approval_that_is_asked_for_at_one_is_resolved_at_the_other(with_pair):
    async def test(pair: Pair) -> None:
        await pair.do("b", "ann", "PUT", "/settings/skill_enablement_policy", {"value": "prompt-user"})
        session = await pair.do("a", "agent", "POST", "/sessions", {"conversation": "chat"})
        enable = f"/sessions/{session['id']}/enable"
        asked = await pair.send("a", "agent", "POST", enable, {"skill_slug": "invoices"})
        assert asked.status_code == 403

        approval = asked.json()["approval_id"]
        assert [row["id"] for row in (await pair.do("b", "bob", "GET", "/approvals"))["items"]] == [approval]
        await pair.do("b", "bob", "POST", f"/approvals/{approval}", {"approved": True})

        enabled = await pair.do("a", "agent", "POST", enable, {"skill_slug": "invoices"})
        assert [skill["slug"] for skill in enabled["enabled_skills"]] == ["invoices"]

    with_pair(test)


@pytest.mark.long
def test_an_event_that_is_written_at_one_is_streamed_by_the_other(with_pair):
    async def test(pair: Pair) -> None:
        subscriber = Subscriber(pair.ports["b"], pair.tokens["ann"])
        following = asyncio.create_task(subscriber.follow(3))
        session = await pair.do("a", "ann", "POST", "/sessions", {})
        await pair.do("a", "ann", "POST", f"/sessions/{session['id']}/enable", {"skill_slug": "invoices"})
        await pair.do("a", "ann", "POST", f"/sessions/{session['id']}/disable", {"skill_slug": "invoices"})
        await following

        assert subscriber.ids == [1, 2, 3]
        assert subscriber.names == ["catalog_changed", "skills_state_changed", "skills_state_changed"]

    with_pair(test)


@pytest.mark.long
def test_a_session_that_is_changed_at_one_is_seen_at_the_other(with_pair):
    async def test(pair: Pair) -> None:
        session = await pair.do("a", "ann", "POST", "/sessions", {"conversation": "chat"})
        await pair.do("a", "ann", "POST", f"/sessions/{session['id']}/enable", {"skill_slug": "invoices"})

        seen = await pair.do("b", "ann", "GET", f"/sessions/{session['id']}")
        assert [skill["slug"] for skill in seen["enabled_skills"]] == ["invoices"]
        prompt = await pair.do("b", "ann", "GET", f"/sessions/{session['id']}/prompt")
        assert "Write it down." in prompt["text"]
        assert (await pair.do("b", "ann", "POST", "/sessions", {"conversation": "chat"}))["id"] == session["id"]

    with_pair(test)


@pytest.mark.long
def test_a_setting_that_is_changed_at_one_is_in_force_at_the_other_at_once(with_pair):
    async def test(pair: Pair) -> None:
        session = await pair.do("b", "bob", "POST", "/sessions", {})
        enable = f"/sessions/{session['id']}/enable"
        for turn in range(10):
            policy, expected = ("admin-only", 403) if turn % 2 else ("auto", 200)
            await pair.do("a", "ann", "PUT", "/settings/skill_enablement_policy", {"value": policy})
            assert (await pair.do("b", "bob", "GET", "/settings"))["skill_enablement_policy"] == policy
            answer = await pair.send("b", "bob", "POST", enable, {"skill_slug": "invoices"})
            assert answer.status_code == expected
            if expected == 200:
                await pair.do("b", "bob", "POST", f"/sessions/{session['id']}/disable", {"skill_slug": "invoices"})

    with_pair(test)


@pytest.mark.long
def test_a_token_that_is_revoked_at_one_is_refused_at_the_other_at_once(with_pair):
    async def test(pair: Pair) -> None:
        for _ in range(5):
            made = await pair.do("a", "bob", "POST", "/tokens", {"name": "laptop"})
            pair.tokens["laptop"] = made["token"]
            assert (await pair.send("b", "laptop", "GET", "/settings")).status_code == 200
            await pair.do("a", "bob", "DELETE", f"/tokens/{made['id']}")
            assert (await pair.send("b", "laptop", "GET", "/settings")).status_code == 401

    with_pair(test)


def test_a_tool_call_that_waits_at_one_goes_on_when_a_person_approves_at_the_other(with_pair):
    @asynccontextmanager
    async def connected(pair: Pair) -> AsyncGenerator[Client]:
        web = httpx2.AsyncClient(headers={"authorization": f"Bearer {pair.tokens['agent']}"}, timeout=60)
        transport = streamable_http_client(f"{pair.url('a')}/mcp", http_client=web)
        async with web, Client(transport, mode="auto") as client:
            yield client

    async def approve(pair: Pair) -> None:
        waiting: list[Any] = []
        while not waiting:
            waiting = (await pair.do("b", "bob", "GET", "/approvals"))["items"]
        await pair.do("b", "bob", "POST", f"/approvals/{waiting[0]['id']}", {"approved": True})

    async def test(pair: Pair) -> None:
        await pair.do("b", "ann", "PUT", "/settings/skill_enablement_policy", {"value": "prompt-user"})
        async with connected(pair) as client:
            enabled, _ = await asyncio.gather(
                client.call_tool("enable_skill", {"skill_slug": "invoices"}), approve(pair)
            )
        assert not enabled.is_error

    with_pair(test)


@pytest.mark.long
def test_replicas_start_and_stop_as_an_operator_does(deploy):
    deployment = deploy("postgres")

    async def both(first: str, second: str) -> list[int]:
        headers = {"authorization": f"Bearer {deployment.tokens['ann']}"}
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            for url in (first, second):
                await until_ready(url)
            return [(await client.get(f"{url}/api/v1/settings")).status_code for url in (first, second)]

    with replica(deployment) as first, replica(deployment) as second:
        assert asyncio.run(both(first, second)) == [200, 200]
