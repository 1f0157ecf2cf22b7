"""Agentcy: the typical conversation of its page with a real, small model. What it says is not judged.

Asserted is what holds with any model: which skill is found and enabled, what each request contains, that nothing passes the
gate, and that every turn comes to its end and is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from prowess.agent.updates import ApprovalNeeded, Decided, SkillsChanged, TurnEnded
from prowess.llm.model import Model, ModelConfig, Reply, Request
from prowess.llm.models import Models
from prowess.llm.wrappers import WrapperModel
from prowess.policy.actor import Actor, conversation_agent
from prowess.tools.toolbox import Toolbox

from .test_agentcy_agent import CHECK, SERVER, SLUG, SQL

pytestmark = [pytest.mark.anyio, pytest.mark.local_model]

ANN = Actor(name="ann", organization="acme", user="ann")
BLOCKS = ("<policies>", "<memory>", "<graph_context>", '<skill name="PostgreSQL Health Triage">')


class RecordedModel(WrapperModel):
    """Remembers what a model is asked."""

    def __init__(self, inner: Model) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        return await self.inner.complete(request)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        self.requests.append(request)
        async for piece in self.inner.stream(request):
            yield piece


class Graph:
    async def recall(self, message: str, *, session: Any) -> str:
        return f"checkout-svc uses the prod Postgres ({session.id}, {len(message)})."


# A turn is up to eight answers of up to 512 tokens: each takes seconds, or minutes on a busy machine.
@pytest.mark.timeout(3_600, method="signal")
async def test_the_typical_conversation_of_the_page_runs_with_a_real_model(
    printed: Any, place: Any, smollm2: str, home: Path, tmp_path: Path
):
    talk = printed("agentcy", "A typical conversation:\n", "The prompt budget")
    asked = re.search(r'User: "([^"]+)"', talk)
    searched = re.search(r'search_skills\(\{ query: "([^"]+)"', talk)
    assert asked
    assert searched
    place.write("health-triage", {"SKILL.md": printed("agentcy", "markdown\n---\n", "The body is prose", keep="---\n")})
    server = tmp_path / "sql_server.py"
    server.write_text(SERVER)
    place.environment["PROWESS_RUN_SECONDS"] = "1200"  # reading the first prompt takes long on a busy machine
    models = Models(ModelConfig(home=home / ".prowess", timeout_seconds=1_200))
    model = RecordedModel(models.open(f"local:{smollm2}"))

    async with place.open(ANN) as engine:
        engine.agent.parts.policies = "Never restart a production system."
        engine.agent.parts.graph_context = Graph()
        await engine.agent.remember("The prod Postgres is version 16.")
        await engine.connectors.add("sql", {"command": sys.executable, "args": ["-IS", str(server)]})
        await engine.connectors.allow("sql", reads=True)
        conversation = await engine.agent.start()

        async def say(message: str) -> tuple[list[Any], list[Request]]:
            before = len(model.requests)
            updates = [update async for update in engine.agent.send(conversation.id, message, model=model)]
            return updates, model.requests[before:]

        # The policy wants a person to be asked: the skill is found, and stays out, whatever the model calls.
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        updates, requests = await say(asked[1])
        decided, ended = updates[0], updates[-1]
        assert isinstance(decided, Decided)
        assert [one["skill"] for one in decided.recommendations] == [SLUG]
        assert (decided.decision["action"], decided.decision["skill"]) == ("clarify", None)
        assert "approval" in decided.decision["reason"]
        assert isinstance(ended, TurnEnded)
        needed = [update.approval for update in updates if isinstance(update, ApprovalNeeded)]
        assert (ended.state, ended.error) == ("waiting" if needed else "done", None)
        assert {(one["action"], one["slug"]) for one in needed} <= {("enable", SLUG)}
        assert (ended.skills, ended.budget_used_chars) == ((), 0)
        assert requests
        assert not any(CHECK in message.text for request in requests for message in request.messages)

        # Without it, the skill is enabled before the model is asked, and is in every prompt, in the page's order.
        await engine.policy.set("skill_enablement_policy", "auto")
        updates, requests = await say(asked[1])
        decided, changed, ended = updates[0], updates[1], updates[-1]
        assert (decided.decision["action"], decided.decision["skill"]) == ("activate", SLUG)
        assert isinstance(changed, SkillsChanged)
        assert [skill["slug"] for skill in changed.state["enabled_skills"]] == [SLUG]
        assert (ended.state, ended.error, ended.skills) == ("done", None, (SLUG,))
        assert 0 < ended.budget_used_chars == changed.state["budget_used_chars"] <= 16_000
        assert ended.text
        assert requests
        for request in requests:
            system, *history = request.messages
            places = [system.text.index(block) for block in BLOCKS]
            assert places == sorted(places)
            assert CHECK in system.text
            assert [message.text for message in history if message.role == "user"] == [asked[1]] * 2

        # The agent of the conversation has the tools of the page, and they work.
        box = Toolbox(engine.as_actor(conversation_agent(ANN)), conversation=conversation.id)
        found = await box.attempt("search_skills", {"query": searched[1]})
        assert SLUG in str(found.data)
        tools = await box.attempt("search_connector_tools", {"query": "pg_stat_activity"})
        assert "run_query" in str(tools.data)
        call = {"connector": "sql", "tool": "run_query", "arguments": {"sql": SQL}}
        result = await box.attempt("execute_connector_tool", call)
        assert "4715" in str(result.data)
        freed = await box.attempt("disable_skill", {"skill_slug": SLUG})
        assert freed.ok

        # Its budget is free again. The message asks for nothing, so the skill stays out.
        updates, requests = await say("Thank you, goodbye!")
        ended = updates[-1]
        assert (ended.state, ended.error, ended.skills, ended.budget_used_chars) == ("done", None, (), 0)
        assert not any(CHECK in request.messages[0].text for request in requests)

        kept = await engine.agent.get(conversation.id)
        asks = [message for message in kept.messages if message.role == "user"]
        assert [message.text for message in asks] == [asked[1], asked[1], "Thank you, goodbye!"]
        actions = [message.detail["decision"]["action"] for message in asks]
        assert actions[:2] == ["clarify", "activate"]
        assert actions[2] in ("answer", "clarify")  # what was said before counts, too
        answered = {call["id"] for message in kept.messages for call in message.calls}
        assert {message.call_id for message in kept.messages if message.role == "tool"} == answered
        assert (kept.state, kept.turns) == ("idle", 3)
        assert kept.output_tokens > 0
        made = await engine.events.list(names=["decision_made"], session=conversation.id)
        assert [event.data["action"] for event in made] == actions
        (enabled, disabled) = await engine.events.list(names=["skills_state_changed"], session=conversation.id)
        assert (enabled.data["budget_used_chars"] > 0, disabled.data["budget_used_chars"]) == (True, 0)
    await models.close()
