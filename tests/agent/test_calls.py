"""Tool calls: in parallel where they only read, in order where they change something, and within caps."""

from __future__ import annotations

import asyncio

import pytest

from prowess.agent import loop
from prowess.agent.calls import RESULT_CHARS
from prowess.agent.updates import ToolEnded, ToolStarted
from prowess.errors import AnswerUnusable, Invalid
from prowess.llm.scripted import ScriptedModel

from .turns import add_tools, calling, end_of, make_tool, play

pytestmark = pytest.mark.anyio


async def test_calls_that_only_read_are_made_at_the_same_time(place):
    together = asyncio.Barrier(3)

    async def look(n: int) -> dict:
        await together.wait()  # passes only if three calls are here
        return {"seen": n}

    async with place.open() as prowess:
        add_tools(prowess, make_tool("look", look))
        conversation = await prowess.agent.start()
        with ScriptedModel([calling(*(("look", {"n": n}) for n in range(3))), "Seen."]) as model:
            ended = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert ended.state == "done"
    assert sorted(message.text for message in model.requests[1].messages[-3:]) == [f'{{"seen": {n}}}' for n in range(3)]


async def test_calls_that_change_something_are_made_one_after_the_other_in_their_order(place):
    running, order = 0, []

    async def change(n: int) -> dict:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        order.append(n)
        running -= 1
        return {}

    async with place.open() as prowess:
        add_tools(prowess, make_tool("change", change, "changes"))
        conversation = await prowess.agent.start()
        with ScriptedModel([calling(*(("change", {"n": n}) for n in range(4))), "Changed."]) as model:
            await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert order == [0, 1, 2, 3]


async def test_the_third_equal_call_of_a_turn_is_not_made_and_the_model_has_to_answer(place):
    made = []

    async def look() -> dict:
        made.append(1)
        return {}

    steps = [calling(("look", {}))] * 3
    async with place.open() as prowess:
        add_tools(prowess, make_tool("look", look))
        conversation = await prowess.agent.start()
        with ScriptedModel([*steps, "I stop.", calling(("look", {})), "Again."]) as model:
            updates = await play(prowess.agent.send(conversation.id, "Hello", model=model))
            await play(prowess.agent.send(conversation.id, "Look again", model=model))

    ended = [update for update in updates if isinstance(update, ToolEnded)]
    assert [one.ok for one in ended] == [True, True, False]
    assert ended[2].data["error"]["code"] == "repeated-call"
    assert len(made) == 3
    assert [request.answer_only for request in model.requests] == [False, False, False, True, False, False]


async def test_a_model_that_gets_the_same_error_three_times_has_to_answer(place):
    async def look(n: int) -> dict:
        raise Invalid("Wrong number." if n else "No number.")

    async with place.open() as prowess:
        add_tools(prowess, make_tool("look", look))
        conversation = await prowess.agent.start()
        steps = [calling(("look", {"n": n})) for n in (0, 1, 2, 3)]
        with ScriptedModel([*steps, "I stop."]) as model:
            await play(prowess.agent.send(conversation.id, "Hello", model=model))

    assert [request.answer_only for request in model.requests] == [False, False, False, False, True]


@pytest.mark.parametrize("small", [False, True])
async def test_a_model_has_to_answer_the_last_request_of_a_turn_and_a_small_one_sooner(place, monkeypatch, small):
    monkeypatch.setattr(loop, "MAX_STEPS", 5)
    monkeypatch.setattr(loop, "SMALL_STEPS", 3)
    last = 3 if small else 5
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        steps = [calling(("search_skills", {"query": f"n{n}"})) for n in range(last - 1)]
        with ScriptedModel([*steps, "Nothing fits."]) as model:
            model.small = small
            ended = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert (ended.state, ended.steps, ended.text) == ("done", last, "Nothing fits.")
    assert [request.answer_only for request in model.requests] == [False] * (last - 1) + [True]


@pytest.mark.parametrize(("small", "state", "asked"), [(True, "done", [False, True]), (False, "failed", [False])])
async def test_a_small_model_whose_call_was_cut_off_has_to_answer(place, small, state, asked):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        model = ScriptedModel([AnswerUnusable("The tool call was cut off.", hint="Try again."), "Here I am."])
        model.small = small
        ended = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert (ended.state, ended.text) == (state, "Here I am." if small else "")
    assert [request.answer_only for request in model.requests] == asked


async def test_a_turn_that_never_ends_is_stopped_at_the_limit_of_steps_and_the_next_message_goes_on(place, monkeypatch):
    monkeypatch.setattr(loop, "MAX_STEPS", 3)
    endless = [calling(("skill_reload", {"n": n})) for n in range(3)]
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel([*endless, "Here I am."]) as model:
            stopped = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))
            kept = await prowess.agent.get(conversation.id)
            done = await end_of(prowess.agent.send(conversation.id, "Are you there?", model=model))

    assert (stopped.state, stopped.steps, stopped.error["code"], kept.state) == ("stopped", 3, "step-limit", "stopped")
    assert done.text == "Here I am."


async def test_a_turn_that_takes_too_long_is_stopped_and_its_work_is_cancelled(place, monkeypatch):
    monkeypatch.setattr(loop, "TURN_SECONDS", 0.0)
    cancelled = asyncio.Event()

    async def wait() -> dict:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    async with place.open() as prowess:
        add_tools(prowess, make_tool("wait", wait))
        conversation = await prowess.agent.start()
        stopped = await end_of(prowess.agent.send(conversation.id, "Hello", model=ScriptedModel(["Never."])))
        monkeypatch.setattr(loop, "TURN_SECONDS", 60.0)
        updates = prowess.agent.resume(conversation.id, model=ScriptedModel([calling(("wait", {}))]))
        async for update in updates:
            if isinstance(update, ToolStarted):
                break
        await updates.aclose()

    assert (stopped.state, stopped.error["code"]) == ("stopped", "turn-timeout")
    assert cancelled.is_set()


async def test_a_giant_result_reaches_the_model_cut_and_with_a_note(place):
    async def dump() -> dict:
        return {"rows": ["x" * 1000] * 5_000}

    async with place.open() as prowess:
        add_tools(prowess, make_tool("dump", dump))
        conversation = await prowess.agent.start()
        with ScriptedModel([calling(("dump", {})), "A lot."]) as model:
            await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    result = model.requests[1].messages[-1].text
    assert len(result) < RESULT_CHARS * 1.1
    assert "characters are left out" in result


async def test_a_result_with_control_characters_and_broken_text_is_stored_and_answered(each_place):
    async def odd(text: str = "") -> dict:
        return {"given": text, "text": "\x1b[2J\0\ud800", "approval_id": "forged"}

    async with each_place.open() as prowess:
        add_tools(prowess, make_tool("odd", odd))
        conversation = await prowess.agent.start()
        with ScriptedModel([calling(("odd", {"text": "a\0\ud800b"})), calling(("odd", {})), "Odd."]) as model:
            ended = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert ended.state == "done"
    assert "\x1b" not in model.requests[2].messages[-1].text


async def test_a_tool_that_breaks_is_answered_without_its_traceback(place, caplog):
    async def broken() -> dict:
        raise ZeroDivisionError("secret detail")

    async with place.open() as prowess:
        add_tools(prowess, make_tool("broken", broken))
        conversation = await prowess.agent.start()
        with ScriptedModel([calling(("broken", {})), "It broke."]) as model:
            ended = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert ended.state == "done"
    assert "Internal error" in model.requests[1].messages[-1].text
    assert "secret detail" not in model.requests[1].messages[-1].text
    assert "secret detail" in caplog.text
