"""A provider's model through the front door: what a run costs, what it may cost, and that no key is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prowess.errors import RunFailed, SpendExceeded, Unavailable
from prowess.llm.model import Reply, Usage

pytestmark = pytest.mark.anyio

SIDECAR = (
    "title: Greeter\nversion: 1.0.0\nartifacts:\n  - {path: prompts/greet.j2, kind: prompt_template, name: greet}\n"
)
ANSWER = Reply(text="Good morning!", usage=Usage(input_tokens=1_000, output_tokens=100, requests=1), model="gpt-4o")
COST = 1_000 * 2.5e-6 + 100 * 10e-6


@pytest.fixture
def served(bench, each_place, key):
    """An engine's place with a skill, and OpenAI on loopback."""
    made = bench("openai")
    files = {"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."}
    each_place.skill("greeter", files=files)
    each_place.environment.update(
        OPENAI_API_KEY=key, OPENAI_BASE_URL=f"{made.provider.url}/v1", PROWESS_MODEL="openai:gpt-4o"
    )
    return each_place, made.provider


def refuse(handler) -> None:
    body = {"error": {"message": "Incorrect API key provided: " + handler.headers["Authorization"]}}
    handler.whole(401, json.dumps(body).encode())


async def test_a_run_costs_what_the_provider_counts(served):
    place, provider = served
    provider.queue.append(ANSWER)

    async with place.open() as prowess:
        result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet")

    assert (result.text, result.cost) == ("Good morning!", pytest.approx(COST))
    assert result.usage == ANSWER.usage
    assert provider.asked[0]["messages"][-1]["content"] == "Greet Ada."


def decline(handler) -> None:
    choice = {"index": 0, "finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 0, "total_tokens": 1_000}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [choice],
        "usage": usage,
    }
    handler.whole(200, json.dumps(body).encode())


async def test_what_an_answer_of_no_use_cost_is_in_the_trace(served):
    place, provider = served
    provider.queue.append(decline)

    async with place.open() as prowess:
        with pytest.raises(RunFailed, match="refused to answer"):
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet")
        (trace,) = await prowess.traces.list()

    assert (trace.status, trace.input_tokens, trace.output_tokens) == ("failed", 1_000, 0)
    assert trace.estimated_cost == pytest.approx(0.0025)


async def test_the_tools_of_a_conversation_count_for_what_it_may_cost(served):
    place, provider = served
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "many words " * 20_000}}}
    files = {"agents/prowess.yaml": json.dumps({"parameters": schema}), "execute.py": "def execute(args, ctx): ..."}
    place.skill("wordy", files=files)
    async with place.open() as prowess:
        await prowess.policy.set("spend_per_session_usd", 0.15)
        talk = await prowess.agent.start()
        updates = [update async for update in prowess.agent.send(talk.id, "Hello")]

    assert (updates[-1].state, updates[-1].error["code"]) == ("stopped", "spend-exceeded")
    assert provider.asked == []


async def test_over_the_cap_nothing_is_asked_and_an_administrator_can_allow_more(served):
    place, provider = served
    async with place.open() as prowess:
        await prowess.policy.set("spend_per_day_usd", 0.000_001)
        with pytest.raises(SpendExceeded, match="today"):
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet")
        assert provider.asked == []
        assert [trace.status for trace in await prowess.traces.list()] == ["refused"]

        await prowess.policy.set("spend_per_day_usd", 1)
        provider.queue.append(ANSWER)
        assert (await prowess.run("greeter", {"name": "Ada"}, artifacts="greet")).text == "Good morning!"


async def test_no_key_is_left_in_a_trace_an_event_a_file_or_a_log(served, key, caplog, home, tmp_path):
    caplog.set_level("DEBUG")
    place, provider = served
    provider.queue.extend([refuse, ANSWER])

    async with place.open() as prowess:
        with pytest.raises(Unavailable) as caught:
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet")
        result = await prowess.run("greeter", {"name": f"Ada {key}"}, artifacts="greet")
        rows = [await prowess.traces.get(trace.id) for trace in await prowess.traces.list()]

    assert len(rows) == 2
    shown = "\n".join([str(caught.value), caught.value.hint, json.dumps(result.as_json()), repr(rows), caplog.text])
    assert key not in shown
    written = files_under(home, tmp_path)
    assert written
    assert [name for name, content in written.items() if key.encode() in content] == []


def files_under(*folders: Path) -> dict[str, bytes]:
    found = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found}
