"""What a run asks of its client's model, round by round."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
)

from prowess.errors import Unavailable
from prowess.interfaces.mcp.relay import Relay, Relays
from prowess.interfaces.mcp.sampling import SamplingModel
from prowess.llm.model import Message, Request
from prowess.run.call import unwatched

pytestmark = pytest.mark.anyio


def question(text: str) -> CreateMessageRequestParams:
    return CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(text=text))], max_tokens=10
    )


def answer(text: str, stop_reason: str = "endTurn") -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model="m", stop_reason=stop_reason)


def done(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def returning(result=None, answers=None) -> CallToolRequestParams:
    """The call as it comes first, or again with answers."""
    state = result.request_state if result else None
    return CallToolRequestParams(name="run_skill", arguments={}, input_responses=answers, request_state=state)


async def test_what_is_asked_after_a_round_has_ended_is_asked_in_the_next():
    relays, go_on, late = Relays(), asyncio.Event(), asyncio.Event()

    async def begin(relay: Relay) -> CallToolResult:
        async def later() -> CreateMessageResult:
            await go_on.wait()
            late.set()
            return await relay.ask(question("second"))

        both = await asyncio.gather(relay.ask(question("first")), later())
        return done(" ".join(one.content.text for one in both))

    first = await relays.round(returning(), unwatched, begin)
    assert list(first.input_requests) == ["sampling-1"]
    go_on.set()
    await late.wait()
    second = await relays.round(returning(first, {"sampling-1": answer("one")}), unwatched, begin)
    assert list(second.input_requests) == ["sampling-2"]
    last = await relays.round(returning(second, {"sampling-2": answer("two")}), unwatched, begin)

    assert last.content[0].text == "one two"
    await relays.close()


async def test_a_question_that_was_put_and_has_no_answer_is_not_put_again():
    relays = Relays()

    async def begin(relay: Relay) -> CallToolResult:
        both = await asyncio.gather(*(relay.ask(question(text)) for text in "ab"), return_exceptions=True)
        return done(" ".join(type(one).__name__ for one in both))

    asked = await relays.round(returning(), unwatched, begin)
    assert list(asked.input_requests) == ["sampling-1", "sampling-2"]
    last = await relays.round(returning(asked, {"sampling-2": answer("b")}), unwatched, begin)

    assert last.content[0].text == f"{Unavailable.__name__} {CreateMessageResult.__name__}"


async def test_a_question_that_is_withdrawn_ends_no_round():
    relays = Relays()

    async def begin(relay: Relay) -> CallToolResult:
        withdrawn = asyncio.ensure_future(relay.ask(question("first")))
        await asyncio.sleep(0)
        withdrawn.cancel()
        await asyncio.wait([withdrawn])
        return done((await relay.ask(question("second"))).content.text)

    asked = await relays.round(returning(), unwatched, begin)
    assert list(asked.input_requests) == ["sampling-2"]
    last = await relays.round(returning(asked, {"sampling-2": answer("two")}), unwatched, begin)

    assert last.content[0].text == "two"


@pytest.mark.parametrize(("stop_reason", "complete"), [("endTurn", True), ("maxTokens", False)])
async def test_an_answer_of_the_client_says_whether_it_was_cut(stop_reason, complete):
    async def ask(_: CreateMessageRequestParams) -> CreateMessageResult:
        return answer("Once upon a", stop_reason)

    model = SamplingModel(SimpleNamespace(session=SimpleNamespace(client_params=None)), ask)
    reply = await model.complete(Request(messages=(Message(role="user", text="Tell."),)))

    assert (reply.text, reply.complete) == ("Once upon a", complete)
