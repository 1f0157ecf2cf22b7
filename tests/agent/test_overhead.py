"""What a turn costs, counted in threads and transactions, and that saving them leaves no request with an old state."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from prowess.llm.scripted import ScriptedModel

from .turns import add_tools, calling, end_of, make_tool

pytestmark = pytest.mark.anyio

FUNCTION = {
    "skill.json": '{"id": "count-words", "name": "Count words", "description": "Counts words."}',
    "execute.py": "def execute(args, ctx):\n    return 1\n",
}
TRIAGE = {
    "SKILL.md": "---\nname: postgres-triage\ndescription: Diagnose slow queries in Postgres.\n---\n\nLook at pg_stat_activity.\n"
}


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Generator[Counter[str]]:
    """Count the threads that work is handed to, and the transactions that begin in them."""
    counts = Counter[str]()
    hand_over = asyncio.to_thread

    async def to_thread(*arguments: Any, **named: Any) -> Any:
        counts["threads"] += 1
        return await hand_over(*arguments, **named)

    def begin(_: sa.Connection) -> None:
        counts["transactions"] += 1

    event.listen(sa.Engine, "begin", begin)
    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    try:
        yield counts
    finally:
        monkeypatch.undo()
        event.remove(sa.Engine, "begin", begin)


async def test_a_turn_of_one_answer_takes_four_threads_and_few_transactions(place, monkeypatch):
    place.write("postgres-triage", TRIAGE)
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(["Hello.", "Fine."]) as model:
            await end_of(prowess.agent.send(conversation.id, "Good morning to you", model=model))
            with counting(monkeypatch) as counts:
                ended = await end_of(prowess.agent.send(conversation.id, "How are you today?", model=model))

    assert ended.state == "done"
    # Begin, decide, read the prompt, store the answer. Events and traces are written in the background.
    assert counts["threads"] == 4
    assert counts["transactions"] <= 9


async def test_what_another_process_switches_off_is_gone_from_the_very_next_request(place):
    place.write("count-words", FUNCTION)
    place.write("postgres-triage", TRIAGE)
    async with place.open() as prowess, place.open() as other:

        async def switch_off() -> dict[str, Any]:
            await other.policy.set("disabled_skills", ["count-words", "postgres-triage"])
            return {"done": True}

        add_tools(prowess, make_tool("wait_a_moment", switch_off))
        conversation = await prowess.agent.start()
        await prowess.enable("postgres-triage", session=conversation.id)
        with ScriptedModel([calling(("wait_a_moment", {})), "Done."]) as model:
            ended = await end_of(prowess.agent.send(conversation.id, "Good morning", model=model))

    assert ended.state == "done"
    offered = [{tool.name for tool in request.tools} for request in model.requests]
    assert ["skill_count_words" in names for names in offered] == [True, False]
    prompts = [request.messages[0].text for request in model.requests]
    assert ["pg_stat_activity" in prompt for prompt in prompts] == [True, False]


async def test_a_skill_that_another_process_adds_is_a_tool_in_the_very_next_request(place):
    async with place.open() as prowess:

        async def add() -> dict[str, Any]:
            place.write("count-words", FUNCTION)
            return {"done": True}

        add_tools(prowess, make_tool("wait_a_moment", add))
        conversation = await prowess.agent.start()
        with ScriptedModel([calling(("wait_a_moment", {})), "Done."]) as model:
            await end_of(prowess.agent.send(conversation.id, "Good morning", model=model))

    offered = [{tool.name for tool in request.tools} for request in model.requests]
    assert ["skill_count_words" in names for names in offered] == [False, True]
