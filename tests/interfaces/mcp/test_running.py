"""Running skills over MCP: progress, cancellation, and the client's own model."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, ElicitResult, ErrorData, TextContent

from prowess.open import Prowess

pytestmark = pytest.mark.anyio

PATIENCE = 60
MODES = pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.long)])
SIDECAR = """
artifacts:
  - {path: prompts/greet.j2, kind: prompt_template, name: greet, ordinal: 1}
"""
CALL = ("run_skill", {"skill": "greeter", "inputs": {"name": "Ada"}})
ANSWER = "Good morning, Ada! How are you on this fine and sunny day?"


@pytest.fixture
def greeter(write_skill):
    """Write a skill that can be run."""
    files = {"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."}
    return write_skill("greeter", **files)


@pytest.fixture
def scripted(greeter, tmp_path, monkeypatch):
    """Configure a model that returns a greeting."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps([ANSWER]))
    monkeypatch.setenv("PROWESS_MODEL", f"scripted:{script}")
    return f"scripted:{script}"


@pytest.fixture
async def silence(greeter, monkeypatch):
    """Start a model server that never answers, and yield a queue of the requests it gets."""
    asked: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(reader, writer):
        try:
            asked.put_nowait(await reader.read(100))
            await reader.read()
        finally:
            writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        monkeypatch.setenv("PROWESS_MODEL", "compatible:silence")
        monkeypatch.setenv("PROWESS_MODEL_URL", url)
        yield asked


async def finished(engine):
    """Return the event of the first run that ends."""
    async with aclosing(engine.events.follow(names=("run_finished",), after=0)) as events:
        return await asyncio.wait_for(anext(events), PATIENCE)


async def cancelled_while_it_waits(client, asked):
    """Call a tool, and cancel the call once the model has been asked."""
    call = asyncio.create_task(client.call_tool(*CALL))
    await asyncio.wait_for(asked.get(), PATIENCE)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


class Follower:
    """Collects progress notifications."""

    def __init__(self):
        self.numbers: list[float] = []
        self.messages: list[str] = []

    async def __call__(self, progress, _total, message):
        self.numbers.append(progress)
        self.messages.append(message)

    @property
    def sound(self) -> bool:
        return self.numbers == sorted(set(self.numbers)) and ANSWER in "".join(self.messages)


@MODES
async def test_a_client_that_asks_is_told_of_the_progress_before_the_answer(scripted, in_memory, mode):
    follower = Follower()
    async with in_memory(mode) as client:
        answer = await client.call_tool(*CALL, progress_callback=follower)
        assert follower.sound
    assert (answer.is_error, answer.structured_content["output"]) == (False, ANSWER)


@MODES
async def test_a_client_that_does_not_ask_gets_the_answer_alone(scripted, in_memory, mode):
    async with in_memory(mode) as client:
        answer = await client.call_tool(*CALL)
    assert (answer.is_error, answer.structured_content["output"]) == (False, ANSWER)


@pytest.mark.long
async def test_progress_comes_over_stdin_and_stdout(scripted, over_stdio, environment):
    environment["PROWESS_MODEL"] = scripted
    follower = Follower()
    async with over_stdio("auto") as client:
        answer = await client.call_tool(*CALL, progress_callback=follower)
        assert answer.structured_content["output"] == ANSWER
    assert follower.sound


@MODES
async def test_progress_comes_over_http(scripted, over_http, mode):
    follower = Follower()
    async with over_http(mode) as client:
        answer = await client.call_tool(*CALL, progress_callback=follower)
        assert answer.structured_content["output"] == ANSWER
    assert follower.sound


@pytest.mark.few(1)
@MODES
async def test_a_cancelled_call_ends_the_run_and_its_trace_says_so(silence, in_memory, engine, mode):
    async with in_memory(mode) as client:
        await cancelled_while_it_waits(client, silence)
        event = await finished(engine)
    assert event.data["status"] == "cancelled"
    (row,) = await engine.traces.list()
    assert row.status == "cancelled"


@MODES
async def test_a_cancelled_call_over_http_ends_the_run(silence, over_http, engine, mode):
    async with over_http(mode) as client:
        await cancelled_while_it_waits(client, silence)
        assert (await finished(engine)).data["status"] == "cancelled"


@pytest.mark.long
async def test_a_cancelled_call_over_stdin_and_stdout_ends_the_run(silence, over_stdio, environment, workspace):
    environment |= {name: os.environ[name] for name in ("PROWESS_MODEL", "PROWESS_MODEL_URL")}
    async with over_stdio("legacy") as client, Prowess.open(workspace) as engine:
        await cancelled_while_it_waits(client, silence)
        assert (await finished(engine)).data["status"] == "cancelled"


class Sampling:
    """The model of a client. It keeps the requests it gets."""

    def __init__(self, answer=None):
        self.asked = []
        self.answer = answer or CreateMessageResult(
            role="assistant", content=TextContent(text=ANSWER), model="claude-test", stop_reason="endTurn"
        )

    async def __call__(self, _context, params):
        self.asked.append(params)
        return self.answer


@MODES
async def test_where_no_model_is_configured_the_clients_own_is_asked(greeter, in_memory, engine, mode):
    sampling, follower = Sampling(), Follower()
    async with in_memory(mode, sampling_callback=sampling) as client:
        answer = await client.call_tool(*CALL, progress_callback=follower)
    assert (answer.is_error, answer.structured_content["output"]) == (False, ANSWER)
    (asked,) = sampling.asked
    assert [(turn.role, turn.content.text) for turn in asked.messages] == [("user", "Greet Ada.")]
    assert follower.sound
    (row,) = await engine.traces.list()
    assert (row.status, row.model_id) == ("ok", "sampling:mcp")
    assert (row.input_tokens, row.output_tokens) == (None, None)


@MODES
async def test_the_clients_model_is_asked_over_http_too(greeter, over_http, mode):
    async with over_http(mode, sampling_callback=Sampling()) as client:
        answer = await client.call_tool(*CALL)
    assert answer.structured_content["output"] == ANSWER


@MODES
async def test_a_configured_model_comes_before_the_clients_own(scripted, in_memory, mode):
    sampling = Sampling()
    async with in_memory(mode, sampling_callback=sampling) as client:
        answer = await client.call_tool(*CALL)
    assert (answer.structured_content["output"], sampling.asked) == (ANSWER, [])


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ErrorData(code=-1, message="The user said no."), "unavailable"),
        (
            CreateMessageResult(
                role="assistant",
                content={"type": "image", "data": "aGk=", "mimeType": "image/png"},
                model="painter",
            ),
            "run-failed",
        ),
    ],
)
async def test_a_client_that_does_not_answer_is_an_error_in_words(greeter, in_memory, answer, code):
    async with in_memory("legacy", sampling_callback=Sampling(answer)) as client:
        result = await client.call_tool(*CALL)
    assert result.is_error
    assert (result.structured_content["error"]["code"], bool(result.structured_content["hint"])) == (code, True)


@pytest.mark.parametrize(("mode", "options"), [("legacy", {}), ("auto", {})])
async def test_without_any_model_the_ways_to_have_one_are_named(greeter, in_memory, mode, options):
    async with in_memory(mode, **options) as client:
        result = await client.call_tool(*CALL)
    assert result.is_error
    assert result.structured_content["error"]["code"] == "no-model"
    assert "PROWESS_MODEL" in result.structured_content["hint"]


@MODES
async def test_a_person_is_asked_before_a_run_where_the_policy_says_so(scripted, in_memory, engine, mode):
    async def agree(context, params):
        return ElicitResult(action="accept", content={"approve": True})

    await engine.policy.set("skill_enablement_policy", "prompt-user")
    async with in_memory(mode, elicitation_callback=agree) as client:
        answer = await client.call_tool(*CALL)
    assert answer.structured_content["output"] == ANSWER


@MODES
async def test_clients_are_told_that_running_reaches_beyond_this_machine(in_memory, mode):
    async with in_memory(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    hints = tools["run_skill"].annotations
    assert (hints.open_world_hint, hints.read_only_hint, hints.destructive_hint) == (True, None, False)
    assert tools["load_skill"].annotations.open_world_hint is False


@MODES
async def test_a_run_may_ask_the_clients_model_again_and_again(greeter, write_skill, in_memory, engine, mode):
    sidecar = SIDECAR.replace("ordinal: 1}", "assertions: [{type: semantic, check: llm_eval, prompt: Is it kind?}]}")
    write_skill("greeter", **{"agents/prowess.yaml": sidecar})
    answers = [ANSWER, '{"answer": "yes", "reason": "It greets."}']

    async def sampling(context, params):
        text = TextContent(text=answers.pop(0))
        return CreateMessageResult(role="assistant", content=text, model="theirs")

    async with in_memory(mode, sampling_callback=sampling) as client:
        answer = await client.call_tool(*CALL)
    assert (answer.structured_content["output"], answers) == (ANSWER, [])
    (row,) = await engine.traces.list()
    assert (row.status, row.assertions_passed) == ("ok", 1)


async def test_an_answer_counts_only_in_the_call_that_it_was_asked_in(greeter, in_memory, engine):
    async with in_memory("auto", sampling_callback=Sampling()) as client:
        asked = await client.session.call_tool(*CALL, allow_input_required=True)
        answers = dict.fromkeys(asked.input_requests, Sampling().answer)
        other = {"skill": "greeter", "inputs": {"name": "Eve"}}
        with pytest.raises(MCPError):
            await client.session.call_tool(
                "run_skill", other, input_responses=answers, request_state=asked.request_state
            )
        done = await client.session.call_tool(*CALL, input_responses=answers, request_state=asked.request_state)
        with pytest.raises(MCPError, match="has ended"):
            await client.session.call_tool(*CALL, input_responses=answers, request_state=asked.request_state)
    assert done.structured_content["output"] == ANSWER


async def test_a_run_whose_client_does_not_come_back_ends_with_the_server(greeter, in_memory, engine):
    async with in_memory("auto", sampling_callback=Sampling()) as client:
        await client.session.call_tool(*CALL, allow_input_required=True)
    assert (await finished(engine)).data["status"] == "cancelled"


async def test_a_question_without_an_answer_is_an_error_in_words(greeter, in_memory):
    async with in_memory("auto", sampling_callback=Sampling()) as client:
        asked = await client.session.call_tool(*CALL, allow_input_required=True)
        result = await client.session.call_tool(*CALL, input_responses={}, request_state=asked.request_state)
    assert (result.is_error, result.structured_content["error"]["code"]) == (True, "unavailable")
