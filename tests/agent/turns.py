"""Helpers for tests of conversations: play a turn, and make an answer that calls tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from prowess.agent.updates import TurnEnded, Update
from prowess.llm.model import Reply, ToolCall


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
