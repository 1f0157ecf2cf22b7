"""Helpers for tests of conversations: play a turn, and make an answer that calls tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from prowess.agent.updates import TurnEnded, Update
from prowess.llm.model import Reply, ToolCall
from prowess.open import Prowess
from prowess.tools.tool import Effect, Tool, ToolAnswer, ToolContext


def calling(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """Return an answer of the model that calls these tools."""
    made = [ToolCall(id=f"call-{place}", name=name, arguments=given) for place, (name, given) in enumerate(calls, 1)]
    return Reply(calls=tuple(made))


async def play(updates: AsyncGenerator[Update]) -> list[Update]:
    """Return everything that happens in a turn."""
    return [update async for update in updates]


async def end_of(updates: AsyncGenerator[Update]) -> TurnEnded:
    """Return how a turn ended."""
    last = (await play(updates))[-1]
    assert isinstance(last, TurnEnded)
    return last


def make_tool(name: str, call: Callable[..., Awaitable[dict[str, Any]]], effect: Effect = "reads") -> Tool:
    """Return a tool whose function gets the arguments by name."""

    async def answer(_: ToolContext, arguments: Mapping[str, Any]) -> ToolAnswer:
        return ToolAnswer(data=await call(**arguments))

    return Tool(name=name, description="", parameters={"type": "object"}, effect=effect, call=answer)


def add_tools(prowess: Prowess, *tools: Tool) -> None:
    """Offer tools in all conversations."""
    prowess.agent.parts.tools = lambda _agent, _conversation: tools
