"""The toolset for pydantic-ai, on pydantic-ai's own fake model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.adapters.conftest import ROOT

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills

pytestmark = pytest.mark.anyio

WORKSPACE = ROOT / "examples/workspace"


@pytest.fixture
async def skills() -> AsyncIterator[AgentSkills]:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        yield AgentSkills(prowess, conversation="chat")


def _agent(toolset: Any, tool: str) -> Any:
    """An agent whose model calls a tool until it gets an answer, and then answers itself."""
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart(info.instructions or "nothing")])
        return ModelResponse(parts=[ToolCallPart(tool, {"skill": "commit-messages"})])

    return Agent(FunctionModel(answer), output_type=[str, DeferredToolRequests], toolsets=[toolset])


async def test_approving_a_call_in_pydantic_ai_alone_does_not_open_the_gate(skills: AgentSkills) -> None:
    from pydantic_ai import DeferredToolRequests

    from prowess.adapters.pydantic_ai import SkillToolset

    agent = _agent(SkillToolset(skills), "enable_skill")
    first = await agent.run("Good morning")
    again = await agent.run(
        message_history=first.all_messages(), deferred_tool_results=first.output.build_results(approve_all=True)
    )

    assert isinstance(again.output, DeferredToolRequests)
    assert '<skill name="Commit messages">' not in await skills.prompt()


async def test_a_toolset_with_a_prefix_still_matches_asks_and_brings_its_instructions(skills: AgentSkills) -> None:
    from prowess.adapters.pydantic_ai import SkillToolset, answer_requests

    async def approve(_: object) -> bool:
        return True

    agent = _agent(SkillToolset(skills).prefixed("prowess"), "prowess_enable_skill")
    first = await agent.run("Do my notes about Mara contradict each other?")
    answers = await answer_requests(skills, first.output, approve)
    done = await agent.run(message_history=first.all_messages(), deferred_tool_results=answers)

    assert '<skill name="Consistency Checker">' in done.output
    assert '<skill name="Commit messages">' in done.output


async def test_a_message_with_an_image_is_matched_by_its_text(skills: AgentSkills) -> None:
    from pydantic_ai import ImageUrl

    from prowess.adapters.pydantic_ai import SkillToolset

    message = ["Do my notes about Mara contradict each other?", ImageUrl("https://example.com/page.png")]
    await _agent(SkillToolset(skills), "search_skills").run(message)

    assert '<skill name="Consistency Checker">' in await skills.prompt()
