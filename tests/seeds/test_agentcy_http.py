"""Agentcy over HTTP: the events with exactly the payloads of its page, and the approval as the page answers it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx2
import pytest

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
CALLERS = {"ann": Caller(actor=ANN), "agent": Caller(actor=agent_of(ANN))}
SLUG = "postgres.health-triage"


class Api:
    """The server of a place, as ann or her agent sees it."""

    def __init__(self, engine: Any) -> None:
        self._app = make_app(engine, callers=CALLERS.get, keys=[b"k" * 32], hosts=("testserver",))
        self._http = httpx2.AsyncClient(transport=httpx2.ASGITransport(self._app), base_url="http://testserver/api/v1")

    async def __call__(self, who: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {who}"}
        return await self._http.request(method, path, headers=headers, json=body)

    async def frames(self, path: str, count: int) -> list[str]:
        """Return the first events of a stream as they were sent, and go away."""
        chunks: asyncio.Queue[bytes] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            chunks.put_nowait(message.get("body", b""))

        url, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": f"/api/v1{url}",
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"testserver"), (b"authorization", b"Bearer ann")],
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
        }
        serving = asyncio.create_task(self._app(scope, receive, send))
        text = ""
        while len(found := [block for block in text.split("\n\n")[:-1] if "data: " in block]) < count:
            text += (await chunks.get()).decode()
        gone.set()
        await serving
        return found


@pytest.fixture
def triage(printed: Any, each_place: Any) -> Any:
    text = printed("agentcy", "markdown\n---\n", "The body is prose", keep="---\n")
    each_place.write("health-triage", {"SKILL.md": text})
    return each_place


async def test_the_conversation_of_the_page_over_http(printed: Any, triage: Any):
    talk = printed("agentcy", "A typical conversation:\n", "The prompt budget")
    reason = re.search(r'reason: "([^"]+)"', talk)[1]
    example = json.loads(printed("agentcy", "event: skills_state_changed\ndata: ", "The UI's chat panel"))
    flow = printed("agentcy", "Approval gate (if policy != ", "SkillsCatalog.enable_skill")
    kind = re.search(r'approval_required \{ type: "(\w+)", skill: \{', flow)[1]
    assert "user POSTs /approvals/:id { approved: true }" in flow

    async with triage.open(ANN) as engine:
        api = Api(engine)
        setting = await api("ann", "PUT", "/settings/skill_enablement_policy", {"value": "prompt-user"})
        assert setting.status_code == 200
        session = (await api("agent", "POST", "/sessions", {"conversation": "checkout"})).json()
        path = f"/sessions/{session['id']}"
        wanted = {"skill_slug": SLUG, "reason": reason}
        asked = await api("agent", "POST", f"{path}/enable", wanted)
        assert (asked.status_code, asked.json()["code"]) == (403, "approval-required")

        (required,) = await api.frames("/events?after=0&names=approval_required", 1)
        head, _, data = required.rpartition("\ndata: ")
        assert head.splitlines()[-2:] == ["id: 2", "event: approval_required"]
        event = json.loads(data)
        assert (event["type"], event["skill"]["slug"], event["reason"]) == (kind, SLUG, reason)

        answered = await api("ann", "POST", f"/approvals/{event['approval_id']}", {"approved": True})
        assert answered.json()["state"] == "approved"
        state = (await api("agent", "POST", f"{path}/enable", wanted)).json()
        length = state["budget_used_chars"]

        changed = (await api.frames(f"{path}/events?after=0&names=skills_state_changed", 1))[-1]
        head, _, data = changed.rpartition("\ndata: ")
        assert head.splitlines()[-1] == "event: skills_state_changed"
        assert "\n" not in data
        assert json.loads(data) == {
            **example,
            "enabled_skills": [{**example["enabled_skills"][0], "content_length": length}],
            "budget_used_chars": length,
        }
        # Nothing else than the printed fields, in the printed order.
        assert list(json.loads(data)) == list(example)


async def test_the_settings_of_the_page_have_its_names_and_defaults(printed: Any, triage: Any):
    table = printed("agentcy", "| Setting | Default | Notes |\n|---|---|---|\n", "enable_skill returns an error")
    async with triage.open(ANN) as engine:
        settings = (await Api(engine)("ann", "GET", "/settings")).json()
        rows = [line.split(" | ")[:2] for line in table.splitlines() if " | " in line]
        assert len(rows) == 4
        for name, default in rows:
            assert str(settings[name]).lower() == default.replace(" ", "").replace("\u202f", "")


async def test_a_skill_that_does_not_fit_tells_the_limit_as_on_the_page(printed: Any, triage: Any):
    rule = printed("agentcy", "enable_skill returns an error if ", "The agent is told the limit")
    assert "current_chars + new_skill.content_length > max_prompt_chars" in rule
    async with triage.open(ANN) as engine:
        api = Api(engine)
        await api("ann", "PUT", "/settings/skills_max_prompt_chars", {"value": 100})
        await api("agent", "POST", "/sessions", {"conversation": "c"})
        full = (await api("agent", "POST", "/sessions/c/enable", {"skill_slug": SLUG})).json()
        assert (full["code"], full["budget"]["limit"]) == ("budget-exceeded", 100)
