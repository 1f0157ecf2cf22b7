"""A turn whose process ends goes on in another one: nothing is lost, and nothing that changes something is repeated."""

from __future__ import annotations

import asyncio
import json

import pytest

from prowess.agent.updates import TextWritten, ToolEnded, ToolStarted, TurnEnded
from prowess.errors import Conflict, RunFailed
from prowess.llm.scripted import ScriptedModel
from prowess.storage import conversations

from .turns import add_tools, calling, end_of, make_tool, play

pytestmark = pytest.mark.anyio


async def abandon(updates, kind) -> None:
    """Stop listening at the first update of a kind, as a process that ends does."""
    async for update in updates:
        if isinstance(update, kind):
            break
    await updates.aclose()


async def test_a_turn_goes_on_after_the_calls_that_have_results(each_place):
    made = []

    async def look(n: int) -> dict:
        made.append(n)
        return {"n": n}

    async with each_place.open() as first:
        add_tools(first, make_tool("look", look))
        conversation = await first.agent.start()
        model = ScriptedModel([calling(("look", {"n": 1})), calling(("look", {"n": 2})), "never asked"])
        updates = first.agent.send(conversation.id, "Hello", model=model)
        async for update in updates:
            if isinstance(update, ToolEnded) and update.data == {"n": 2}:
                break
        await updates.aclose()
        assert (await first.agent.get(conversation.id)).state == "stopped"
    async with each_place.open() as second:
        add_tools(second, make_tool("look", look))
        with ScriptedModel(["Both seen."]) as model:
            ended = await end_of(second.agent.resume(conversation.id, model=model))

    assert made == [1, 2]
    assert (ended.text, ended.steps) == ("Both seen.", 3)
    assert [message.role for message in model.requests[0].messages[1:]] == [
        *("user", "assistant", "tool", "assistant", "tool")
    ]


async def test_a_turn_that_is_cancelled_as_it_begins_leaves_the_conversation_to_the_next(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        beginning = asyncio.ensure_future(anext(prowess.agent.send(conversation.id, "Hello", model=ScriptedModel([]))))
        await asyncio.sleep(0)  # a thread locks the conversation now, and cannot be cancelled
        beginning.cancel()
        await asyncio.wait([beginning])
        assert (await prowess.agent.get(conversation.id)).state == "stopped"
        with ScriptedModel(["Hello."]) as model:
            assert (await end_of(prowess.agent.resume(conversation.id, model=model))).text == "Hello."


@pytest.mark.parametrize(("effect", "times"), [("reads", 2), ("changes", 1), ("runs", 1)])
async def test_an_interrupted_call_is_made_again_only_if_it_just_reads(place, effect, times):
    made, begun = [], asyncio.Event()

    async def work() -> dict:
        made.append(1)
        begun.set()
        if len(made) == 1:
            await asyncio.Event().wait()
        return {"done": True}

    tool = make_tool("work", work, effect)
    async with place.open() as prowess:
        add_tools(prowess, tool)
        conversation = await prowess.agent.start()
        updates = prowess.agent.send(conversation.id, "Hello", model=ScriptedModel([calling(("work", {}))]))
        async for update in updates:
            if isinstance(update, ToolStarted):
                await begun.wait()
                break
        await updates.aclose()
        with ScriptedModel(["I see."]) as model:
            ended = await end_of(prowess.agent.resume(conversation.id, model=model))

    assert (len(made), ended.state) == (times, "done")
    assert ("interrupted" in model.requests[0].messages[-1].text) == (effect != "reads")


async def test_an_answer_that_was_not_finished_is_asked_for_again(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        model = ScriptedModel(["A long answer that is never heard to its end."])
        await abandon(prowess.agent.send(conversation.id, "Hello", model=model), TextWritten)
        with ScriptedModel(["Short."]) as model:
            ended = await end_of(prowess.agent.resume(conversation.id, model=model))
        kept = await prowess.agent.get(conversation.id)

    assert ended.text == "Short."
    assert [message.text for message in kept.messages] == ["Hello", "Short."]


async def test_a_turn_goes_on_with_the_model_that_it_began_with(place, tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"calls": [{"name": "wait"}]}, "Done."]))
    name = f"scripted:{script}"

    async def wait() -> dict:
        return {}

    async with place.open() as prowess:
        add_tools(prowess, make_tool("wait", wait))
        conversation = await prowess.agent.start()
        await abandon(prowess.agent.send(conversation.id, "Hello", model=name), ToolEnded)
        ended = await end_of(prowess.agent.resume(conversation.id))

    assert (ended.state, ended.text) == ("done", "Done.")


async def test_resuming_a_turn_that_is_done_returns_its_end_and_asks_nobody(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(["Hi."]) as model:
            await play(prowess.agent.send(conversation.id, "Hello", model=model))
            updates = await play(prowess.agent.resume(conversation.id, model=model))

    assert [(type(one), one.text) for one in updates] == [(TurnEnded, "Hi.")]


async def test_a_second_message_at_the_same_time_is_refused_and_leaves_nothing(each_place):
    async with each_place.open() as prowess:
        conversation = await prowess.agent.start()
        updates = prowess.agent.send(
            conversation.id, "Hello", model=ScriptedModel(["A long answer, in pieces, please."])
        )
        await anext(updates)
        with pytest.raises(Conflict, match="answering another message"):
            await play(prowess.agent.send(conversation.id, "Me too", model=ScriptedModel([])))
        with pytest.raises(Conflict):
            await prowess.agent.delete(conversation.id)
        rest = await play(updates)
        kept = await prowess.agent.get(conversation.id)

    assert rest[-1].state == "done"
    assert [message.text for message in kept.messages] == ["Hello", "A long answer, in pieces, please."]


@pytest.mark.parametrize("seconds", [-1.0, 86_400.0])  # that time has passed, or the clock was set back by a day
async def test_a_process_that_died_locks_its_conversation_only_for_a_while(place, monkeypatch, seconds):
    monkeypatch.setattr(conversations, "LEASE_SECONDS", seconds)
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        dead = prowess.agent.send(conversation.id, "Hello", model=ScriptedModel(["Never."]))
        await anext(dead)
        with ScriptedModel(["Taken over."]) as model:
            ended = await end_of(prowess.agent.resume(conversation.id, model=model))
        # The process was not dead but slow: it may not write into the turn that replaced its own.
        with pytest.raises(Conflict, match="taken over"):
            await play(dead)
        kept = await prowess.agent.get(conversation.id)

    assert ended.text == "Taken over."
    assert [message.text for message in kept.messages] == ["Hello", "Taken over."]


async def test_a_model_that_fails_ends_the_turn_and_the_next_attempt_goes_on(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel([RunFailed("The model broke."), "Better."]) as model:
            failed = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))
            done = await end_of(prowess.agent.resume(conversation.id, model=model))

    assert (failed.state, failed.error["message"]) == ("failed", "The model broke.")
    assert done.text == "Better."


@pytest.mark.long
async def test_fifty_conversations_at_once_each_get_their_own_answer(place):
    place.skill("postgres-triage")
    async with place.open() as prowess:

        async def talk(n: int) -> str:
            conversation = await prowess.agent.start()
            steps = [calling(("search_skills", {"query": f"topic {n}"})), f"Answer {n}"]
            with ScriptedModel(steps) as model:
                ended = await end_of(prowess.agent.send(conversation.id, f"Question {n}", model=model))
            kept = await prowess.agent.get(conversation.id)
            assert [message.role for message in kept.messages] == ["user", "assistant", "tool", "assistant"]
            return ended.text

        answers = await asyncio.gather(*(talk(n) for n in range(50)))
        listed = await prowess.agent.list()

    assert answers == [f"Answer {n}" for n in range(50)]
    assert len(listed) == 50
