"""Requests of a run to its client's model, round by round."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from mcp_types import (
    CallToolRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
)

from prowess.errors import NotFound, TryLater, Unavailable
from prowess.interfaces.mcp.sampling import MAX_OPEN_RUNS, SamplingModel, SamplingRelay, SamplingRelays
from prowess.llm.model import Message, Request
from prowess.run.request import ignore_step

pytestmark = pytest.mark.anyio


def question(text: str) -> CreateMessageRequestParams:
    return CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(text=text))], max_tokens=10
    )


def answer(text: str, stop_reason: str = "endTurn") -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model="m", stop_reason=stop_reason)


def done(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def returning(result=None, answers=None) -> CallToolRequestParams:
    """Return the parameters of the first call, or of a later call with answers."""
    state = result.request_state if result else None
    return CallToolRequestParams(name="run_skill", arguments={}, input_responses=answers, request_state=state)


async def test_what_is_asked_after_a_round_has_ended_is_asked_in_the_next():
    relays, go_on, late = SamplingRelays(), asyncio.Event(), asyncio.Event()

    async def begin(relay: SamplingRelay) -> dict[str, Any]:
        async def later() -> CreateMessageResult:
            await go_on.wait()
            late.set()
            return await relay.ask(question("second"))

        both = await asyncio.gather(relay.ask(question("first")), later())
        return done(" ".join(one.content.text for one in both))

    first = await relays.round("me", returning(), ignore_step, begin)
    assert list(first.input_requests) == ["sampling-1"]
    go_on.set()
    await late.wait()
    second = await relays.round("me", returning(first, {"sampling-1": answer("one")}), ignore_step, begin)
    assert list(second.input_requests) == ["sampling-2"]
    last = await relays.round("me", returning(second, {"sampling-2": answer("two")}), ignore_step, begin)

    assert last["content"][0]["text"] == "one two"
    await relays.close()


async def test_a_question_that_was_put_and_has_no_answer_is_not_put_again():
    relays = SamplingRelays()

    async def begin(relay: SamplingRelay) -> dict[str, Any]:
        both = await asyncio.gather(*(relay.ask(question(text)) for text in "ab"), return_exceptions=True)
        return done(" ".join(type(one).__name__ for one in both))

    asked = await relays.round("me", returning(), ignore_step, begin)
    assert list(asked.input_requests) == ["sampling-1", "sampling-2"]
    last = await relays.round("me", returning(asked, {"sampling-2": answer("b")}), ignore_step, begin)

    assert last["content"][0]["text"] == f"{Unavailable.__name__} {CreateMessageResult.__name__}"


async def test_a_question_that_is_withdrawn_ends_no_round():
    relays = SamplingRelays()

    async def begin(relay: SamplingRelay) -> dict[str, Any]:
        withdrawn = asyncio.ensure_future(relay.ask(question("first")))
        await asyncio.sleep(0)
        withdrawn.cancel()
        await asyncio.wait([withdrawn])
        return done((await relay.ask(question("second"))).content.text)

    asked = await relays.round("me", returning(), ignore_step, begin)
    assert list(asked.input_requests) == ["sampling-2"]
    last = await relays.round("me", returning(asked, {"sampling-2": answer("two")}), ignore_step, begin)

    assert last["content"][0]["text"] == "two"


async def asks_once(relay: SamplingRelay) -> dict[str, Any]:
    return done((await relay.ask(question("first"))).content.text)


async def test_a_caller_who_leaves_too_many_runs_unanswered_is_refused_another_and_ends_nobody_elses():
    relays = SamplingRelays()
    mine = await relays.round("me", returning(), ignore_step, asks_once)
    theirs = [await relays.round("they", returning(), ignore_step, asks_once) for _ in range(MAX_OPEN_RUNS // 2)]
    with pytest.raises(TryLater):
        await relays.round("they", returning(), ignore_step, asks_once)

    for caller, asked in (("me", mine), ("they", theirs[0])):
        last = await relays.round(caller, returning(asked, {"sampling-1": answer("one")}), ignore_step, asks_once)
        assert last["content"][0]["text"] == "one"
    again = await relays.round("they", returning(), ignore_step, asks_once)
    assert list(again.input_requests) == ["sampling-1"]
    await relays.close()


async def test_a_run_that_ended_while_it_waited_makes_room_for_another():
    relays, over = SamplingRelays(), asyncio.Event()
    calls: list[asyncio.Task] = []

    async def begin(relay: SamplingRelay) -> dict[str, Any]:
        calls.append(asyncio.current_task())
        unanswered = asyncio.ensure_future(relay.ask(question("first")))
        await over.wait()
        unanswered.cancel()
        await asyncio.wait([unanswered])
        return done("timed out")

    first, second, *_ = [await relays.round("me", returning(), ignore_step, begin) for _ in range(MAX_OPEN_RUNS // 2)]
    over.set()
    await asyncio.wait(calls)
    assert list((await relays.round("me", returning(), ignore_step, asks_once)).input_requests) == ["sampling-1"]

    with pytest.raises(NotFound):
        await relays.round("me", returning(first), ignore_step, begin)
    assert (await relays.round("me", returning(second), ignore_step, begin))["content"][0]["text"] == "timed out"
    await relays.close()


async def test_a_run_is_answered_by_its_own_caller_and_once():
    relays = SamplingRelays()
    asked = await relays.round("me", returning(), ignore_step, asks_once)
    with pytest.raises(NotFound):
        await relays.round("they", returning(asked, {"sampling-1": answer("no")}), ignore_step, asks_once)
    last = await relays.round("me", returning(asked, {"sampling-1": answer("one")}), ignore_step, asks_once)
    assert last["content"][0]["text"] == "one"
    with pytest.raises(NotFound):
        await relays.round("me", returning(asked, {"sampling-1": answer("two")}), ignore_step, asks_once)


@pytest.mark.parametrize(("stop_reason", "complete"), [("endTurn", True), ("maxTokens", False)])
async def test_an_answer_of_the_client_says_whether_it_was_cut(stop_reason, complete):
    async def ask(_: CreateMessageRequestParams) -> CreateMessageResult:
        return answer("Once upon a", stop_reason)

    model = SamplingModel(SimpleNamespace(session=SimpleNamespace(client_params=None)), ask)
    reply = await model.complete(Request(messages=(Message(role="user", text="Tell."),)))

    assert (reply.text, reply.complete) == ("Once upon a", complete)
