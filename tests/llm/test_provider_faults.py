"""Whatever a provider does, a model answers with an error of ours, and never with the key."""

from __future__ import annotations

import base64
import gc
import gzip
import json
import logging
import socket
import traceback
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from prowess.errors import AnswerUnusable, ProwessError, RunFailed, TimedOut, TryLater, Unavailable
from prowess.llm.model import Message, Reply, Request, ToolSpec, Usage

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai", "compatible", "anthropic", "google")
ASKING = Request(messages=(Message(role="user", text="Where?"),))
HEAD = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
TOOL = ToolSpec(name="find", description="Find.", parameters={"type": "object", "properties": {}})


@pytest.fixture(params=PROVIDERS)
async def provided(request, bench):
    made = bench(request.param, attempts=1, timeout_seconds=20)
    yield made
    await made.close()


@pytest.fixture
def no_collection():
    """Collect no garbage: clients of earlier tests fail to close themselves while nested data fills the stack."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def ask(request):
    """Ask a model once, for a whole answer or a stream; what comes last."""

    async def once(model, asking: Request = ASKING) -> Reply:
        if not request.param:
            return await model.complete(asking)
        *_, last = [piece async for piece in model.stream(asking)]
        assert isinstance(last, Reply)
        return last

    return once


def everything_about(error: BaseException) -> str:
    """All that an error could show anybody: its words, and those of whatever it holds on to."""
    seen = [repr(error), str(error), getattr(error, "hint", ""), repr(vars(error))]
    seen.extend(traceback.format_exception(error))
    seen.extend(everything_about(held) for held in (error.__cause__, error.__context__) if held is not None)
    return "\n".join(seen)


def status(code: int, message: str = "no", **headers: str):
    body = {"error": {"message": message, "type": "some_error", "code": code, "status": "FAILED"}, "type": "error"}

    def respond(handler):
        handler.whole(code, json.dumps(body).encode(), **headers)

    return respond


def content(body: bytes, kind: str = "application/json", **headers: str):
    def respond(handler):
        handler.whole(200, body, kind, **headers)

    return respond


STATUSES = {
    **dict.fromkeys((400, 405, 413, 415, 418, 422), RunFailed),
    **dict.fromkeys((401, 402, 403, 404), Unavailable),
    **dict.fromkeys((408, 409, 425, 429, 500, 502, 503, 504, 529, 599), TryLater),
}


@pytest.mark.few(4)
async def test_each_status_is_an_error_that_says_who_must_act(provided, ask):
    kinds = {}
    for code in STATUSES:
        provided.will(status(code))
        with pytest.raises(ProwessError, match=f"{provided.model.name}.*{code}") as caught:
            await ask(provided.model)
        kinds[code] = type(caught.value)
        assert caught.value.hint
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)

    assert kinds == STATUSES


@pytest.mark.few(4)
async def test_when_the_provider_wants_to_be_asked_again_is_known(provided, ask):
    for given, expected in (("7", 7), ("0", 0), ("soon", None), ("-3", None), ("9" * 400, None)):
        provided.will(status(429, Retry_After=given))
        with pytest.raises(TryLater) as caught:
            await ask(provided.model)
        if expected is not None:
            assert caught.value.retry_after == expected


async def test_a_wrong_key_is_told_with_the_variable_that_has_it(bench):
    made = bench("anthropic")
    made.will(status(401, "invalid x-api-key"))

    with pytest.raises(Unavailable, match="invalid x-api-key") as caught:
        await made.model.complete(ASKING)

    assert "ANTHROPIC_API_KEY" in caught.value.hint
    await made.close()


async def test_a_quota_that_is_used_up_does_not_pass(bench):
    made = bench("openai", attempts=3)
    body = {
        "error": {"message": "You exceeded your quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
    }
    made.will(lambda handler: handler.whole(429, json.dumps(body).encode()))

    with pytest.raises(Unavailable) as caught:
        await made.model.complete(ASKING)

    assert not isinstance(caught.value, TryLater)
    await made.close()


@pytest.mark.few(4)
async def test_no_redirect_takes_the_key_elsewhere(provided, serve, ask):
    elsewhere = serve(provided.provider.dialect)
    for code in (301, 302, 303, 307, 308):
        provided.will(status(code, Location=f"{elsewhere.url}/v1/chat/completions"))
        with pytest.raises(Unavailable, match=f"status {code}"):
            await ask(provided.model)

    assert elsewhere.asked == []


@pytest.mark.few(3)
async def test_a_provider_that_repeats_the_key_does_not_get_it_shown(provided, ask, key, caplog):
    caplog.set_level(logging.DEBUG)
    encoded, part = base64.b64encode(key.encode()).decode(), key[6:20]
    echoes = (f"wrong key: {key}", key, f"Bearer {key}\n", f"{key[:14]}…", f"key {part}", encoded, f"\u200b{key}\x00")
    for code in (400, 401, 429, 500):
        for echo in echoes:
            provided.will(status(code, echo))
            with pytest.raises(ProwessError) as caught:
                await ask(provided.model)
            shown = everything_about(caught.value)
            assert [secret for secret in (key, part, key[:14], encoded) if secret in shown] == []
    assert key not in caplog.text


@pytest.mark.few(4)
async def test_a_body_that_is_the_key_and_nothing_else_is_not_shown(provided, ask, key, caplog):
    caplog.set_level(logging.DEBUG)
    for code in (200, 400, 500):
        provided.will(lambda handler, code=code: handler.whole(code, key.encode(), "text/plain"))
        with pytest.raises(ProwessError) as caught:
            await ask(provided.model)
        assert key not in everything_about(caught.value)
    assert key not in caplog.text


NONSENSE = {
    "nothing": b"",
    "a page": b"<!doctype html><html><body>It works!</body></html>",
    "null": b"null",
    "a number": b"3",
    "a list": b"[]",
    "an empty object": b"{}",
    "half of it": b'{"id": "chat-1", "object": "chat.compl',
    "an error with status 200": b'{"error": {"message": "overloaded", "code": 502}}',
    "no choices": b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}',
    "choices that are none": b'{"id": "1", "model": "m", "choices": 3, "content": 3, "candidates": 3}',
    "a choice of null": b'{"id": "1", "model": "m", "choices": [null], "content": [null], "candidates": [null]}',
    "a content that is a number": b'{"id": "1", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant",'
    b' "content": 7}}], "content": [{"type": "text", "text": 7}], "candidates": [{"content": {"parts": [{"text": 7}]}}]}',
    "bytes": bytes(range(256)),
    "deep": b'{"choices": ' + b"[" * 100_000,
    "a huge number": b'{"id": "1", "choices": [], "created": ' + b"9" * 10_000 + b"}",
    "not a number": b'{"id": "1", "created": NaN, "model": "m", "choices": []}',
}


@pytest.mark.few(3)
@pytest.mark.usefixtures("no_collection")
async def test_nonsense_is_an_error_of_ours_and_no_answer(provided, ask, key):
    for what, body in NONSENSE.items():
        provided.will(content(body))
        assert await outcome(ask(provided.model), key) in ("told", ""), what

    provided.will(Reply(text="after", model="m"))
    assert (await ask(provided.model)).text == "after"


async def outcome(asked: Awaitable[Reply], key: str) -> str:
    """The text of an answer, or `told` where there is an error of ours that shows no key."""
    try:
        return (await asked).text
    except (RunFailed, Unavailable) as error:
        return "told" if error.hint and key not in everything_about(error) else everything_about(error)


STREAMS = {
    "no events": b"",
    "a broken event": b"data: {\n\n",
    "an event that is no object": b"data: 3\n\ndata: [DONE]\n\n",
    "an error": b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n',
    "a page": b"<html></html>",
    "bytes": b"data: " + bytes(range(128, 256)) + b"\n\n",
    "deep": b"data: " + b"[" * 100_000 + b"\n\n",
    "events of another kind": b"event: surprise\ndata: {}\n\n: a comment\n\nid: 1\nretry: 1\n\n",
}


@pytest.mark.usefixtures("no_collection")
async def test_a_stream_of_nonsense_is_an_error_of_ours_or_an_empty_answer(provided, key):
    async def all_text() -> Reply:
        pieces = [piece async for piece in provided.model.stream(ASKING)]
        return Reply(text="".join(piece if isinstance(piece, str) else piece.text for piece in pieces))

    for what, body in STREAMS.items():
        provided.will(content(body, "text/event-stream"))
        assert await outcome(all_text(), key) in ("told", ""), what

    provided.will(Reply(text="after", model="m"))
    assert (await provided.model.complete(ASKING)).text == "after"


async def test_a_stream_that_breaks_off_is_no_whole_answer(provided):
    def half(handler):
        handler.begin(200, "text/event-stream")
        for piece in handler.provider.dialect.pieces(Reply(text="one two three four", model="m"))[:-2]:
            handler.piece(piece)
        handler.connection.shutdown(socket.SHUT_RDWR)

    provided.will(half, Reply(text="after", model="m"))

    with pytest.raises(AnswerUnusable, match="ended early"):
        _ = [piece async for piece in provided.model.stream(ASKING)]

    assert (await provided.model.complete(ASKING)).text == "after"


@pytest.mark.few(4)
async def test_a_server_that_hangs_up_is_unavailable(provided, ask):
    provided.will(lambda handler: handler.connection.shutdown(socket.SHUT_RDWR))

    with pytest.raises(TryLater, match="is not reachable"):
        await ask(provided.model)


async def test_a_server_that_is_not_there_is_unavailable(bench, ask):
    made = bench("compatible", attempts=1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free = taken.getsockname()[1]
    from prowess.llm.remote import open_compatible

    model = open_compatible("x", name="compatible:x", base_url=f"http://127.0.0.1:{free}/v1", key="", family="x")

    with pytest.raises(TryLater, match="compatible:x is not reachable"):
        await ask(model)
    await model.close()
    await made.close()


async def test_an_answer_that_takes_too_long_is_timed_out(bench, ask):
    made = bench("openai", timeout_seconds=0.05)
    made.will(lambda handler: handler.provider.stopped.wait(20))

    with pytest.raises(TimedOut, match=r"timed out after 0\.05 seconds"):
        await ask(made.model)
    await made.close()


BOMB = gzip.compress(b" " * 5_000_000)


async def test_a_compressed_answer_is_refused_before_it_is_unpacked(provided, ask):
    provided.will(content(BOMB, Content_Encoding="gzip"))

    with pytest.raises(RunFailed, match="compressed"):
        await ask(provided.model)


async def test_an_answer_without_end_is_cut_off(bench):
    def endless(handler):
        handler.begin(200, "application/json")
        while not handler.provider.stopped.is_set():
            handler.piece(b" " * 1_000_000)

    made = bench("openai", attempts=3)
    made.will(endless)

    with pytest.raises(RunFailed, match="limit of 33,554,432 bytes"):
        await made.model.complete(ASKING)
    await made.close()


async def test_a_call_with_what_is_no_object_is_an_error_of_ours(bench):
    made = bench("openai", attempts=1)
    asking = Request(messages=ASKING.messages, tools=(TOOL,))
    for arguments in ("{", "[1]", '"x"', "null", "3", '{"a": NaN}', '{"a": 1e999}', "", "{}"):
        function = {"name": "find", "arguments": arguments}
        message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        made.will(content(json.dumps({**HEAD, "choices": [choice]}).encode()))
        if arguments in ("", "{}"):
            assert (await made.model.complete(asking)).calls[0].arguments == {}
        else:
            with pytest.raises(RunFailed, match="called 'find' with arguments that are not a JSON object"):
                await made.model.complete(asking)
    await made.close()


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_tokens_are_whole_numbers_whatever_a_server_counts(bench):
    made = bench("openai", attempts=1)
    choice = {"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": "Hello."}}
    usage = {"prompt_tokens": 1.5, "completion_tokens": 2.25, "total_tokens": 3.75}
    chunk = {**HEAD, "object": "chat.completion.chunk", "choices": [choice], "usage": usage}
    made.will(content(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), "text/event-stream"))
    *_, reply = [piece async for piece in made.model.stream(ASKING)]
    await made.close()
    assert repr((reply.usage.input_tokens, reply.usage.output_tokens)) == "(1, 2)"


async def test_a_refusal_is_no_answer(bench, ask):
    made = bench("openai", attempts=1)
    choice = {"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
    made.will(content(json.dumps({**HEAD, "choices": [choice]}).encode()))

    with pytest.raises(RunFailed, match="refused to answer"):
        await made.model.complete(ASKING)
    await made.close()


def chosen(finish: str, *, prompt_tokens: int, completion_tokens: int, **message) -> bytes:
    """A whole answer of OpenAI, with what it took."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None, **message}}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": 1}
    return json.dumps({**HEAD, "choices": [choice], "usage": usage}).encode()


async def test_an_answer_that_is_of_no_use_says_what_it_took_and_cost(bench):
    made = bench("openai", attempts=1)
    function = {"name": "find", "arguments": "{"}
    calls = [{"id": "1", "type": "function", "function": function}]
    made.will(
        content(chosen("content_filter", prompt_tokens=1_000, completion_tokens=0)),
        content(chosen("tool_calls", prompt_tokens=1_000, completion_tokens=100, tool_calls=calls)),
    )

    for tokens, cost in ((1_000, 0), 0.0025), ((1_000, 100), 0.0035):
        with pytest.raises(AnswerUnusable) as caught:
            await made.model.complete(replace(ASKING, tools=(TOOL,)))
        assert (caught.value.tokens, caught.value.cost) == (tokens, pytest.approx(cost))
    await made.close()


@pytest.mark.parametrize("read", [0, -1_000, 10**18])
async def test_tokens_that_cannot_be_are_not_known(bench, read):
    made = bench("openai", attempts=1)
    made.will(content(chosen("content_filter", prompt_tokens=read, completion_tokens=0)))

    with pytest.raises(AnswerUnusable) as caught:
        await made.model.complete(ASKING)
    assert (caught.value.tokens, caught.value.cost) == (None, None)
    await made.close()


async def test_a_call_that_was_cut_at_the_limit_is_told_as_such(bench):
    made = bench("openai", attempts=1)
    calls = [{"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"slug": "an'}}]
    made.will(content(chosen("length", prompt_tokens=10, completion_tokens=10, tool_calls=calls)))

    with pytest.raises(AnswerUnusable, match="was truncated") as caught:
        await made.model.complete(replace(ASKING, tools=(TOOL,)))
    assert "max_tokens" in caught.value.hint
    await made.close()


async def test_an_answer_that_cannot_be_read_is_no_refusal_of_the_request(provided):
    provided.will(*(content(NONSENSE[what]) for what in ("half of it", "choices that are none", "deep")))
    provided.will(content(BOMB, Content_Encoding="gzip"))

    for _ in range(4):
        with pytest.raises(AnswerUnusable) as caught:
            await provided.model.complete(ASKING)
        assert (caught.value.tokens, caught.value.cost) == (None, None)


async def test_what_a_provider_refuses_is_no_answer_of_no_use(provided, ask):
    provided.will(status(400))

    with pytest.raises(RunFailed) as caught:
        await ask(provided.model)
    assert not isinstance(caught.value, AnswerUnusable)


async def test_an_answer_without_usage_counts_one_request(bench):
    made = bench("compatible")
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}
    made.will(content(json.dumps({**HEAD, "choices": [choice]}).encode()))

    assert await made.model.complete(ASKING) == Reply(text="Hello.", usage=Usage(requests=1), model="m")
    await made.close()


async def test_a_strange_text_is_sent_or_refused_but_breaks_nothing(provided):
    for text in ("\ud800", "a\x00b", "\ufeff", "x" * 200_000):
        provided.provider.queue[:] = [Reply(text="ok", model="m")]
        request = Request(messages=(Message(role="user", text=text),))
        try:
            assert (await provided.model.complete(request)).text == "ok"
        except RunFailed:
            assert text == "\ud800"


async def test_nothing_of_an_openai_account_is_sent_to_another_server(bench, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "of-the-account")
    made = bench("compatible")
    made.will(Reply(text="ok", model="m"))

    await made.model.complete(ASKING)

    assert "of-the-account" not in json.dumps(made.provider.headers)
    await made.close()


async def test_a_server_on_this_machine_is_reached_past_the_proxies_of_the_environment(bench, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    made = bench("compatible")
    made.will(Reply(text="ok", model="m"))

    assert (await made.model.complete(ASKING)).text == "ok"
    await made.close()
