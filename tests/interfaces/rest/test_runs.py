"""Runs over HTTP: as JSON, as a stream, and what happens when the client goes away."""

from __future__ import annotations

import asyncio
import json

import pytest

from prowess.policy.actor import Actor

pytestmark = pytest.mark.anyio

SIDECAR = """
title: Greeter
version: 1.0.0
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
"""


@pytest.fixture
async def greeter(site_with, tmp_path):
    """A server whose default model is a script with one answer, and a skill that greets."""
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["Hello Ann, nice to see you."]))
    async with site_with(PROWESS_MODEL=f"scripted:{script}") as site:
        site.write("greeter", **{"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."})
        yield site


async def test_a_run_answers_with_the_result_and_leaves_a_trace(greeter):
    result = await greeter.post("/skills/greeter/run", {"inputs": {"name": "Ann"}})

    assert (result["ok"], result["output"]) == (True, "Hello Ann, nice to see you.")
    assert result["parts"][0]["artifact"] == "greet"
    assert (await greeter.engine.traces.get(result["parts"][0]["trace"])).status == "ok"


async def test_a_run_is_streamed_as_steps_text_and_result(greeter):
    await greeter.post("/sessions", {"conversation": "c"})
    body = {"skill_slug": "greeter", "inputs": {"name": "Ann"}}
    stream = await greeter.stream("/sessions/c/run", method="POST", body=body)
    frames = await stream.rest()

    assert stream.status == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    names = [frame.fields["event"] for frame in frames]
    assert set(names) == {"text", "result"}
    assert "".join(one.data["text"] for one in frames if one.fields["event"] == "text") == frames[-1].data["output"]
    assert names[-1] == "result"


async def test_a_dry_run_sends_nothing_and_says_what_would_be_sent(greeter):
    planned = await greeter.post("/skills/greeter/run", {"inputs": {"name": "Ann"}, "dry_run": True})
    assert planned["parts"][0]["would_send"][0]["messages"][-1]["content"] == "Greet Ann."
    assert (await greeter.post("/skills/greeter/run", {"inputs": {"name": "Ann"}}))["ok"] is True


async def test_a_run_that_cannot_start_has_its_status_streamed_or_not(greeter):
    for accept in ("application/json", "text/event-stream"):
        unknown = await greeter.stream("/skills/nothing/run", method="POST", body={}, headers={"accept": accept})
        assert (unknown.status, unknown.headers["content-type"]) == (404, "application/problem+json")
        await unknown.close()


async def test_a_run_that_fails_answers_with_the_error_and_its_parts(greeter):
    await greeter.post("/skills/greeter/run", {"inputs": {"name": "Ann"}})
    problem = await greeter.post("/skills/greeter/run", {"inputs": {"name": "Bob"}}, status=502)
    assert problem["run"]["ok"] is False
    assert problem["run"]["parts"][0]["status"] != "ok"

    stream = await greeter.stream("/skills/greeter/run", method="POST", body={"inputs": {"name": "Bob"}})
    last = (await stream.rest())[-1]
    assert (last.fields["event"], last.data["status"]) == ("error", 502)


@pytest.mark.few(1)
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_client_that_goes_away_cancels_the_run(site_with, accept):
    asked, left = asyncio.Event(), asyncio.Event()

    async def never_answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        while await reader.read(1_000):
            pass
        left.set()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server, site_with(PROWESS_MODEL="compatible:slow", PROWESS_MODEL_URL=url) as site:
        site.write("greeter", **{"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet."})
        stream = await site.stream(
            "/skills/greeter/run", method="POST", body={}, headers={"accept": accept}, wait=False
        )
        await asyncio.wait_for(asked.wait(), 60)
        await stream.close()
        await asyncio.wait_for(left.wait(), 60)


async def test_a_caller_without_the_permission_to_run_is_refused(greeter):
    reader = Actor(name="bob", permissions=frozenset({"skills.read"}), channel="http")
    assert (await greeter.post("/skills/greeter/run", {}, reader, status=403))["code"] == "refused"


@pytest.mark.parametrize("place", ["run", "session"])
async def test_a_request_cannot_name_a_model_by_a_path_on_the_server(greeter, tmp_path, place):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(["from a file"]))
    model = f"scripted:{secret}"
    await greeter.post("/sessions", {"conversation": "c", "model": model if place == "session" else ""})
    body = {"skill_slug": "greeter", "inputs": {"name": "A"}, "model": model if place == "run" else ""}

    problem = await greeter.post("/sessions/c/run", body, status=403)
    assert "may not choose the model" in problem["detail"]
