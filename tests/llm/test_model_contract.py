"""What every model keeps to, whoever serves it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from prowess.errors import ProwessError
from prowess.llm.model import Message, Reply, Request, ToolCall, ToolSpec, Usage

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai", "compatible", "ollama", "anthropic", "google")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FIND = ToolSpec(
    name="find_page",
    description="Find a page.",
    parameters={"type": "object", "properties": {"slug": {"type": "string"}}, "required": ["slug"]},
)


def asking(text: str = "Where?", **more) -> Request:
    return Request(messages=(Message(role="system", text="Be brief."), Message(role="user", text=text)), **more)


def said(text: str, *, read: int = 12, written: int = 5, calls: tuple[ToolCall, ...] = ()) -> Reply:
    return Reply(
        text=text,
        calls=calls,
        usage=Usage(input_tokens=read, output_tokens=written, requests=1),
        model="answering-model-1",
    )


async def pieces_of(model, request: Request) -> tuple[list[str], Reply]:
    *pieces, last = [piece async for piece in model.stream(request)]
    assert all(isinstance(piece, str) for piece in pieces)
    assert isinstance(last, Reply)
    return pieces, last


@pytest.fixture(params=["scripted", *PROVIDERS])
async def any_bench(request, bench):
    made = bench(request.param)
    yield made
    await made.close()


@pytest.fixture(params=PROVIDERS)
async def provided(request, bench):
    made = bench(request.param)
    yield made
    await made.close()


@pytest.mark.few(6)
@pytest.mark.parametrize("text", ["Paris", '…\n多語 🙂 "quoted" \\ <b>&amp;</b>\t.', "x" * 20_000])
async def test_a_whole_answer_has_the_text_the_usage_and_the_model_that_answered(any_bench, text):
    any_bench.will(said(text))

    assert await any_bench.model.complete(asking()) == said(text)


@pytest.mark.parametrize("text", ["Paris", '…\n多語 🙂 "quoted" \\ <b>&amp;</b>\t.', "x" * 20_000])
async def test_a_stream_is_the_answer_in_pieces_and_last_the_whole_of_it(any_bench, text):
    any_bench.will(said(text))

    pieces, reply = await pieces_of(any_bench.model, asking())

    assert "".join(pieces) == reply.text == text
    assert reply == said(text)


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_part_of_the_input_that_was_cached_is_counted(any_bench, streamed):
    reply = replace(said("Paris"), usage=Usage(input_tokens=2_000, output_tokens=5, requests=1, cached_tokens=1_536))
    any_bench.will(reply)

    model = any_bench.model
    assert ((await pieces_of(model, asking()))[1] if streamed else await model.complete(asking())) == reply


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_was_cut_at_its_limit_says_so(any_bench, streamed):
    any_bench.will(replace(said("Once upon a"), complete=False), said("Once upon a time."))

    async def asked() -> Reply:
        model = any_bench.model
        return (await pieces_of(model, asking()))[1] if streamed else await model.complete(asking())

    assert [(reply.text, reply.complete) for reply in (await asked(), await asked())] == [
        ("Once upon a", False),
        ("Once upon a time.", True),
    ]


@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_of_tools_come_with_their_arguments(any_bench, streamed):
    calls = (
        ToolCall(id="call-1", name="find_page", arguments={"slug": "anna"}),
        ToolCall(id="call-2", name="find_page", arguments={"slug": "übersicht"}),
    )
    any_bench.will(said("Let me look.", calls=calls))
    request = asking(tools=(FIND,))

    reply = (await pieces_of(any_bench.model, request))[1] if streamed else await any_bench.model.complete(request)

    assert reply.calls == calls
    assert reply.text == "Let me look."


async def test_a_conversation_with_answered_calls_goes_on(any_bench):
    call = ToolCall(id="call-1", name="find_page", arguments={"slug": "anna"})
    turns = (
        Message(role="system", text="Be brief."),
        Message(role="user", text="Who is Anna?"),
        Message(role="assistant", text="Let me look.", calls=(call,)),
        Message(role="tool", text="Anna is a baker.", call_id="call-1", name="find_page"),
    )
    any_bench.will(said("A baker."))

    assert (await any_bench.model.complete(Request(messages=turns, tools=(FIND,)))).text == "A baker."

    if any_bench.provider is not None:
        sent = json.dumps(any_bench.provider.asked[-1])
        places = [sent.index(words) for words in ("Who is Anna?", "Let me look.", "Anna is a baker.")]
        assert places == sorted(places)
        assert all(words in sent for words in ("Be brief.", "find_page", "anna"))


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_to_a_schema_is_the_json_as_it_was_written(any_bench, streamed):
    any_bench.will(said('{"city": "Paris"}'))
    request = asking(schema=SCHEMA)

    reply = (await pieces_of(any_bench.model, request))[1] if streamed else await any_bench.model.complete(request)

    assert reply.text == '{"city": "Paris"}'
    assert any_bench.model.structured


async def test_a_model_that_can_be_held_to_a_schema_is_and_the_schema_of_the_caller_stays_as_it_was(provided):
    schema = json.loads(json.dumps(SCHEMA))
    provided.will(said('{"city": "Paris"}'))

    await provided.model.complete(asking(schema=schema))

    assert schema == SCHEMA
    held = json.dumps(provided.provider.asked[-1])
    assert '"city"' in held


@pytest.mark.few(10)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "integer"}},
        {"$ref": "#/$defs/place", "$defs": {"place": SCHEMA}},
        {"anyOf": [SCHEMA, {"type": "null"}]},
    ],
    ids=["list", "reference", "choice"],
)
async def test_a_schema_that_no_provider_holds_an_answer_to_is_told_in_words_once(provided, schema, streamed):
    provided.will(said("[1]"))
    request = asking(schema=schema)

    await (pieces_of(provided.model, request) if streamed else provided.model.complete(request))

    sent = json.dumps(provided.provider.asked[-1])
    assert sent.count("JSON Schema") == 1
    assert sent.count(json.dumps(json.dumps(schema))[1:-1]) == 1


async def test_what_the_request_says_about_the_answer_is_sent_where_the_model_takes_it(provided):
    provided.will(said("ok"), said("ok"))

    await provided.model.complete(asking(temperature=0.25, max_tokens=77))
    sent = flat(provided.provider.asked[-1])
    assert sent.get("temperature") == (None if provided.kind == "anthropic" else 0.25)
    assert 77 in (sent.get("max_tokens"), sent.get("max_completion_tokens"), sent.get("maxOutputTokens"))

    await provided.model.complete(asking())
    assert "temperature" not in flat(provided.provider.asked[-1])


def flat(sent: dict[str, Any]) -> dict[str, Any]:
    return {**sent, **sent.get("generationConfig", {})}


@pytest.mark.parametrize(("name", "takes"), [("gpt-4o", True), ("gpt-5", False), ("o3", False), ("gpt-5.1", True)])
async def test_a_reasoning_model_is_sent_no_temperature_and_nobody_is_warned(bench, name, takes):
    made = bench("openai")
    model = made.models.open(name)
    made.will(said("ok"))

    await model.complete(asking(temperature=0.0))

    assert ("temperature" in made.provider.asked[-1]) is takes
    await made.close()


async def test_the_key_goes_to_the_provider_and_is_shown_nowhere_else(provided, key, caplog):
    caplog.set_level("DEBUG")
    provided.will(said("ok"))

    await provided.model.complete(asking())

    assert any(key in value for value in provided.provider.headers[-1].values())
    assert not any(key in path for path in provided.provider.paths)
    assert key not in repr(provided.model) + repr(provided.models) + str(vars(provided.model))
    assert key not in caplog.text


@pytest.mark.few(2)
async def test_answers_of_requests_at_once_are_not_mixed_up(any_bench):
    any_bench.will(*(said(f"{number}") for number in range(12)))

    replies = await asyncio.gather(*(any_bench.model.complete(asking(f"{number}")) for number in range(12)))

    assert sorted(int(reply.text) for reply in replies) == list(range(12))


async def test_a_stream_that_is_left_early_harms_nothing(any_bench):
    any_bench.will(said("one two three " * 400), said("after"))

    stream = any_bench.model.stream(asking())
    assert await anext(stream)
    await stream.aclose()

    assert (await any_bench.model.complete(asking())).text == "after"


async def test_a_request_that_is_cancelled_ends_at_once_and_harms_nothing(provided):
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def silence(handler):
        loop.call_soon_threadsafe(reached.set)
        handler.provider.stopped.wait(20)

    provided.will(silence, silence, said("after"))

    async def streaming():
        async for _ in provided.model.stream(asking()):
            pass

    for waiting in (provided.model.complete(asking()), streaming()):
        reached.clear()
        task = asyncio.ensure_future(waiting)
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert (await provided.model.complete(asking())).text == "after"


async def test_after_closing_the_next_request_connects_anew(provided):
    provided.will(said("one"), said("two"))

    assert (await provided.model.complete(asking())).text == "one"
    await provided.models.close()
    await provided.models.close()
    assert (await provided.model.complete(asking())).text == "two"


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_model_serves_one_event_loop_after_another(bench, kind):
    made = bench(kind)
    made.will(*(said(f"{number}") for number in range(3)))

    async def once() -> str:
        try:
            return (await made.model.complete(asking())).text
        finally:
            await made.close()

    assert [asyncio.run(once()) for _ in range(3)] == ["0", "1", "2"]


async def test_every_error_of_a_model_is_one_of_ours(any_bench):
    def broken(handler):
        handler.whole(400, b'{"error": {"message": "no"}}')

    any_bench.will(broken if any_bench.provider else ProwessError("no"))

    with pytest.raises(ProwessError):
        await any_bench.model.complete(asking())
