"""The loops over plain SDKs: what waits for a person, and goes on later from the messages alone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.adapters.conftest import ROOT
from tests.adapters.model_server import ModelServer, Reply, serve_model

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval
from prowess.adapters.tool_calls import LoopResult

pytestmark = pytest.mark.anyio

SEARCH = ("search_skills", {"query": "release notes"})
ENABLE = ("enable_skill", {"skill": "commit-messages"})
WORKSPACE = ROOT / "examples/workspace"

Messages = list[dict[str, Any]]
Loop = Callable[..., Awaitable[LoopResult]]


async def _completions(model: ModelServer, skills: AgentSkills, messages: Messages, **options: Any) -> LoopResult:
    from openai import AsyncOpenAI  # slow to import, and collecting tests should not

    from prowess.adapters import openai

    async with AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
        return await openai.run_tools(client, skills, messages, model="m", **options)


async def _responses(model: ModelServer, skills: AgentSkills, messages: Messages, **options: Any) -> LoopResult:
    from openai import AsyncOpenAI  # slow to import, and collecting tests should not

    from prowess.adapters import openai

    async with AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
        return await openai.run_responses(client, skills, messages, model="m", **options)


async def _messages(model: ModelServer, skills: AgentSkills, messages: Messages, **options: Any) -> LoopResult:
    from anthropic import AsyncAnthropic

    from prowess.adapters import anthropic

    async with AsyncAnthropic(base_url=model.url, api_key="none") as client:
        return await anthropic.run_tools(client, skills, messages, model="m", **options)


@pytest.fixture(params=[_completions, _responses, _messages], ids=["completions", "responses", "messages"])
def loop(request: pytest.FixtureRequest) -> Loop:
    return request.param


def _open() -> Prowess:
    return Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"])


def _say(text: str) -> Messages:
    return [{"role": "user", "content": text}]


async def test_a_call_that_waits_goes_on_in_another_process_from_the_messages(loop: Loop) -> None:
    with serve_model(Reply(calls=(SEARCH, ENABLE)), Reply(text="Done.")) as model:
        async with _open() as prowess:
            waiting = await loop(model, AgentSkills(prowess, conversation="chat"), _say("Which skills are there?"))
        (approval,) = waiting.pending
        kept = json.loads(json.dumps(waiting.messages))
        async with _open() as prowess:
            skills = AgentSkills(prowess, conversation="chat")
            still = await loop(model, skills, kept)
            assert [one.id for one in still.pending] == [approval.id]
            await skills.answer(approval, approved=True)
            done = await loop(model, skills, still.messages)
            events = [event for event in await prowess.events.list() if event.name == "decision_made"]

    assert (approval.tool, done.text, done.pending) == ("enable_skill", "Done.", ())
    last = model.requests[-1]
    assert '<skill name="Commit messages">' in last.system
    assert "release-notes" in last.text, "the call that did not wait was made once, and its result kept"
    assert len(events) == 1, "going on does not begin another turn"


async def test_a_second_message_begins_another_turn(loop: Loop) -> None:
    with serve_model(Reply(text="Hello!"), Reply(text="They do.")) as model:
        async with _open() as prowess:
            skills = AgentSkills(prowess, conversation="chat")
            first = await loop(model, skills, _say("Good morning"))
            await loop(model, skills, [*first.messages, *_say("Do my notes about Mara contradict each other?")])

    assert '<skill name="Consistency Checker">' not in model.requests[0].system
    assert '<skill name="Consistency Checker">' in model.requests[1].system


async def test_a_model_that_never_answers_is_stopped(loop: Loop) -> None:
    with serve_model(*[Reply(calls=(SEARCH,))] * 3) as model:
        async with _open() as prowess:
            ended = await loop(model, AgentSkills(prowess, conversation="chat"), _say("Loop"), max_steps=3)

    assert ended.stopped
    assert ended.text == ""


async def test_a_tool_that_does_not_exist_is_answered_with_an_error(loop: Loop) -> None:
    with serve_model(Reply(calls=(("make_coffee", {}),)), Reply(text="Sorry.")) as model:
        async with _open() as prowess:
            done = await loop(model, AgentSkills(prowess, conversation="chat"), _say("Coffee!"))

    assert done.text == "Sorry."
    assert "Unknown tool" in model.requests[1].text


async def test_a_person_who_answers_too_late_does_not_fail_the_turn(loop: Loop) -> None:
    with serve_model(Reply(calls=(ENABLE,)), Reply(text="Then not.")) as model:
        async with _open() as prowess:

            async def deny_elsewhere_first(approval: PendingApproval) -> bool:
                await prowess.approvals.resolve(approval.id, approved=False)
                return True

            skills = AgentSkills(prowess, conversation="chat")
            done = await loop(model, skills, _say("Commit it"), ask=deny_elsewhere_first)

    assert done.text == "Then not."
    assert '<skill name="Commit messages">' not in model.requests[1].system
    assert "can no longer be answered" in model.requests[1].text
