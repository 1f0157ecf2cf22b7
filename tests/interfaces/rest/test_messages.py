"""Conversations with the agent over HTTP: a turn as JSON and as a stream, approvals, history, and clients that go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from prowess.agent.agent import Agent
from prowess.llm.model import Reply, Usage
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import Actor

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
BOB = Actor(
    name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read", "skills.run"}), channel="http"
)
ENABLE = {"calls": [{"name": "enable_skill", "arguments": {"skill_slug": "triage", "reason": "slow"}}]}
UPDATES = ("decided", "text", "tool_started", "tool_ended", "approval_needed", "skills_changed", "turn_ended")


@pytest.fixture
def talking(site_with: Any, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that serves a workspace whose default model answers from a script."""

    @asynccontextmanager
    async def serve(*steps: Any) -> AsyncGenerator[Any]:
        script = tmp_path / "answers.json"
        script.write_text(json.dumps(list(steps)))
        async with site_with(PROWESS_MODEL=f"scripted:{script}") as site:
            site.write("triage", "Check the locks first.")
            await site.post("/sessions", {"conversation": "c"}, ANN)
            yield site

    return serve


async def test_a_turn_is_one_answer_with_everything_that_happened(talking):
    async with talking({"calls": [{"name": "list_skills", "arguments": {}}]}, "Hello.") as site:
        turn = await site.post("/sessions/c/messages", {"message": "good morning"}, ANN)
        assert (turn["state"], turn["text"], turn["approvals"], turn["error"]) == ("done", "Hello.", [], None)
        assert turn["session"] == (await site.get("/sessions/c", ANN))["id"]
        kinds = [update["kind"] for update in turn["updates"]]
        assert (kinds[0], kinds[-1]) == ("decided", "turn_ended")
        assert [kind for kind in kinds if kind.startswith("tool")] == ["tool_started", "tool_ended"]


async def test_a_turn_is_streamed_as_events_named_by_their_kind(talking):
    async with talking(ENABLE, "Check the locks.") as site:
        stream = await site.stream("/sessions/c/messages", ANN, method="POST", body={"message": "good morning"})
        frames = await stream.rest()
        assert (stream.status, stream.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        names = [frame.fields["event"] for frame in frames]
        assert set(names) == set(UPDATES) - {"approval_needed"}
        assert names[-1] == "turn_ended"
        assert all(frame.data["kind"] == frame.fields["event"] for frame in frames)
        changed = next(frame.data["state"] for frame in frames if frame.fields["event"] == "skills_changed")
        assert changed["budget_max_chars"] == 16_000
        assert [skill["slug"] for skill in changed["enabled_skills"]] == ["triage"]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_turn_waits_for_a_person_and_is_resumed(talking, approved: bool):
    async with talking(ENABLE, "Now I know." if approved else "Then not.") as site:
        await site.engine.as_actor(ANN).policy.set("skill_enablement_policy", "prompt-user")
        waiting = await site.post("/sessions/c/messages", {"message": "good morning"}, ANN)
        assert (waiting["state"], len(waiting["approvals"])) == ("waiting", 1)
        needed = next(update for update in waiting["updates"] if update["kind"] == "approval_needed")
        assert (needed["approval_id"], needed["approval"]["slug"]) == (waiting["approvals"][0], "triage")

        still = await site.post("/sessions/c/messages/resume", {}, ANN)
        assert still["state"] == "waiting"
        await site.post(f"/approvals/{needed['approval_id']}", {"approved": approved}, ANN)
        done = await site.post("/sessions/c/messages/resume", {}, ANN)
        assert (done["state"], done["text"]) == ("done", "Now I know." if approved else "Then not.")
        enabled = (await site.get("/sessions/c", ANN))["enabled_skills"]
        assert [skill["slug"] for skill in enabled] == (["triage"] if approved else [])


async def test_what_was_said_comes_in_pages(talking):
    async with talking("One.", "Two.") as site:
        for message in ("first", "second"):
            await site.post("/sessions/c/messages", {"message": message}, ANN)
        page = await site.get("/sessions/c/messages?limit=3", ANN)
        rest = await site.get(f"/sessions/c/messages?cursor={page['next_cursor']}", ANN)
        said = [(one["role"], one["text"]) for one in page["items"] + rest["items"]]
        assert said == [("user", "first"), ("assistant", "One."), ("user", "second"), ("assistant", "Two.")]
        assert (len(page["items"]), page["total"], rest["next_cursor"]) == (3, 4, None)
        newest = await site.get("/sessions/c/messages?limit=1&order=newest", ANN)
        assert ([one["text"] for one in newest["items"]], newest["total"]) == (["Two."], 4)
        assert (await site.send("GET", "/sessions/c/messages?cursor=IngiCg", ANN)).status_code == 422


async def test_a_conversation_is_renamed_and_a_model_chosen_and_wrong_values_change_nothing(talking):
    async with talking("Hello.") as site:
        await site.post("/sessions/c/messages", {"message": "good morning"}, ANN)
        body = {"title": "Greetings", "model": "ollama:qwen3"}
        changed = (await site.send("PATCH", "/conversations/c", ANN, json=body)).json()
        assert (changed["title"], changed["model"], changed["error"]) == ("Greetings", "ollama:qwen3", None)
        for wrong in (
            {"title": " "},
            {"title": "X", "model": "nonsense"},
            {"title": "X", "model": "scripted:/etc/passwd"},
        ):
            assert (await site.send("PATCH", "/conversations/c", ANN, json=wrong)).status_code in (403, 422)
        assert (await site.send("PATCH", "/conversations/c", BOB, json={"title": "Mine"})).status_code == 404
        read = await site.get("/conversations/c", ANN)
        assert (read["title"], read["model"]) == ("Greetings", "ollama:qwen3")
        (model,) = (await site.get("/models", ANN))["items"]
        assert (model["name"], model["is_default"], model["needs"]) == ("scripted:answers.json", True, "")


async def test_conversations_are_listed_exported_and_deleted(talking):
    async with talking("Hello.") as site:
        await site.post("/sessions/c/messages", {"message": "good morning"}, ANN)
        (listed,) = (await site.get("/conversations", ANN))["items"]
        assert (listed["id"], listed["turns"], listed["state"]) == (
            (await site.get("/sessions/c", ANN))["id"],
            1,
            "idle",
        )
        assert (await site.get("/sessions/c/messages/export", ANN))["messages"][1]["text"] == "Hello."
        markdown = await site.send("GET", "/sessions/c/messages/export?format=markdown", ANN)
        assert markdown.headers["content-type"].startswith("text/markdown")
        assert "## User\n\ngood morning" in markdown.text
        assert (await site.send("DELETE", "/sessions/c/messages", ANN)).status_code == 204
        assert (await site.get("/conversations", ANN))["items"] == []


async def test_nobody_else_reads_or_continues_a_conversation(talking):
    async with talking("Hello.") as site:
        turn = await site.post("/sessions/c/messages", {"message": "good morning"}, ANN)
        own = f"/sessions/{turn['session']}/messages"
        for method, path, options in (
            ("GET", own, {}),
            ("POST", own, {"json": {"message": "hi"}}),
            ("POST", f"{own}/resume", {"json": {}}),
            ("DELETE", own, {}),
            ("GET", f"{own}/export", {}),
            ("GET", f"/conversations/{turn['session']}", {}),
        ):
            assert (await site.send(method, path, BOB, **options)).status_code == 404, (method, path)
        assert (await site.get("/conversations", BOB))["items"] == []


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_turn_that_cannot_start_has_its_status_streamed_or_not(talking, accept: str):
    async with talking() as site:
        for path, body, status in (
            ("/sessions/nothing/messages", {"message": "hi"}, 404),
            ("/sessions/c/messages", {"message": ""}, 422),
            ("/sessions/c/messages", {"text": "hi"}, 422),
        ):
            stream = await site.stream(path, ANN, method="POST", body=body, headers={"accept": accept})
            assert (stream.status, stream.headers["content-type"]) == (status, "application/problem+json")
            await stream.close()


async def test_a_request_cannot_name_a_model_by_a_path_on_the_server(talking, tmp_path: Path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(["from a file"]))
    async with talking() as site:
        answer = await site.send(
            "POST", "/sessions/c/messages", ANN, json={"message": "hi", "model": f"scripted:{secret}"}
        )
        assert "from a file" not in answer.text
        assert "may not choose the model" in answer.text


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_client_that_goes_away_stops_the_turn_and_the_conversation_goes_on(talking, accept: str, monkeypatch):
    asked, left = asyncio.Event(), asyncio.Event()

    async def never_answer(self: ScriptedModel, request: Any) -> AsyncGenerator[str]:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        yield ""

    async with talking("Here I am.") as site:
        with monkeypatch.context() as patch:
            patch.setattr(ScriptedModel, "stream", never_answer)
            stream = await site.stream(
                "/sessions/c/messages",
                ANN,
                method="POST",
                body={"message": "hi"},
                headers={"accept": accept},
                wait=False,
            )
            await asyncio.wait_for(asked.wait(), 60)
            await stream.close()
        assert left.is_set()
        (conversation,) = (await site.get("/conversations", ANN))["items"]
        assert conversation["state"] == "stopped"
        assert (await site.post("/sessions/c/messages", {"message": "still there?"}, ANN))["text"] == "Here I am."
        said = [one["text"] for one in (await site.get("/sessions/c/messages", ANN))["items"]]
        assert said == ["hi", "still there?", "Here I am."]


class SlowModel:
    """A model that writes half of its answer, and the rest when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.go_on, self.left = asyncio.Event(), asyncio.Event(), asyncio.Event()
        model = self

        async def stream(_: ScriptedModel, request: Any) -> AsyncGenerator[Any]:
            try:
                yield "Half of "
                yield "it "
                model.asked.set()
                await model.go_on.wait()
                yield "and the rest."
                yield Reply(text="Half of it and the rest.", usage=Usage(input_tokens=3, output_tokens=5))
            finally:
                model.left.set()

        monkeypatch.setattr(ScriptedModel, "stream", stream)


async def start_slowly(site: Any, model: SlowModel, **fields: Any) -> Any:
    """Send a message as a stream, and return the stream once the model has written the first half."""
    body = {"message": "hi", **fields}
    stream = await site.stream("/sessions/c/messages", ANN, method="POST", body=body)
    await asyncio.wait_for(model.asked.wait(), 60)
    return stream


async def test_a_turn_in_the_background_outlives_its_client_and_is_followed_from_its_beginning(talking, monkeypatch):
    async with talking("x") as site:
        model = SlowModel(monkeypatch)
        stream = await start_slowly(site, model, background=True)
        await stream.close()
        assert not model.left.is_set()
        (conversation,) = (await site.get("/conversations", ANN))["items"]
        assert conversation["state"] == "running"
        followers = [await site.stream("/sessions/c/messages/stream", ANN) for _ in range(2)]
        model.go_on.set()
        for follower in followers:
            frames = await follower.rest()
            names = [frame.fields["event"] for frame in frames]
            assert (names[0], names[1], names[-1]) == ("following", "decided", "turn_ended")
            about = frames[0].data
            assert (about["here"], about["message"], about["after"]) == (True, "hi", 0)
            texts = [frame.data["text"] for frame in frames if frame.fields["event"] == "text"]
            assert (texts[0], "".join(texts)) == ("Half of it ", "Half of it and the rest.")
            assert (frames[-1].data["state"], frames[-1].data["text"]) == ("done", "Half of it and the rest.")
        said = [one["text"] for one in (await site.get("/sessions/c/messages", ANN))["items"]]
        assert said == ["hi", "Half of it and the rest."]
        assert (await site.send("GET", "/sessions/c/messages/stream", ANN)).status_code == 204


async def test_a_running_turn_is_stopped_and_its_followers_learn_that(talking, monkeypatch):
    async with talking("x") as site:
        model = SlowModel(monkeypatch)
        stream = await start_slowly(site, model)
        stopped = await site.post("/sessions/c/messages/stop", {}, ANN)
        assert (stopped["stopped"], stopped["state"]) == (True, "stopped")
        assert model.left.is_set()
        last = (await stream.rest())[-1]
        assert (last.fields["event"], last.data["state"], last.data["error"]["code"]) == (
            "turn_ended",
            "stopped",
            "stopped",
        )
        again = await site.post("/sessions/c/messages/stop", {}, ANN)
        assert (again["stopped"], again["state"]) == (False, "stopped")


@pytest.mark.parametrize("follow", [True, False])
async def test_a_turn_that_begins_while_it_is_looked_for_is_found(talking, monkeypatch, follow):
    async with talking("x") as site:
        model, get, begun = SlowModel(monkeypatch), Agent.get, list[Any]()

        async def get_late(agent: Agent, *args: Any, **options: Any) -> Any:
            if not begun:
                begun.append(None)
                begun[0] = await start_slowly(site, model)
            return await get(agent, *args, **options)

        monkeypatch.setattr(Agent, "get", get_late)
        if follow:
            follower = await site.stream("/sessions/c/messages/stream", ANN)
            model.go_on.set()
            assert (await follower.rest())[-1].fields["event"] == "turn_ended"
        else:
            stopped = await site.post("/sessions/c/messages/stop", {}, ANN)
            assert (stopped["stopped"], stopped["state"]) == (True, "stopped")
        await begun[0].rest()


async def test_a_second_message_is_refused_while_a_turn_runs_and_disturbs_nothing(talking, monkeypatch):
    async with talking("x") as site:
        model = SlowModel(monkeypatch)
        stream = await start_slowly(site, model, background=True)
        assert (await site.send("POST", "/sessions/c/messages", ANN, json={"message": "me too"})).status_code == 409
        follower = await site.stream("/sessions/c/messages/stream", ANN)
        model.go_on.set()
        assert (await follower.rest())[-1].data["state"] == "done"
        assert (await stream.rest())[-1].data["state"] == "done"


async def test_a_turn_in_the_background_ends_with_the_server_and_is_resumed_later(talking, monkeypatch):
    async with talking("Here I am.") as site:
        with monkeypatch.context() as patch:
            model = SlowModel(patch)
            async with lifespan(site.app):
                await (await start_slowly(site, model, background=True)).close()
                follower = await site.stream("/sessions/c/messages/stream", ANN)
            assert model.left.is_set()
            last = (await follower.rest())[-1]
            assert (last.fields["event"], last.data["detail"]) == ("error", "The server is closing.")
        assert (await site.get("/conversations", ANN))["items"][0]["state"] == "stopped"
        resumed = await site.post("/sessions/c/messages/resume", {}, ANN)
        assert (resumed["state"], resumed["text"]) == ("done", "Here I am.")


@asynccontextmanager
async def lifespan(app: Any) -> AsyncGenerator[None]:
    """Start a server and stop it again."""
    received, sent = asyncio.Queue[Any](), asyncio.Queue[Any]()
    task = asyncio.create_task(app({"type": "lifespan", "asgi": {}, "state": {}}, received.get, sent.put))
    received.put_nowait({"type": "lifespan.startup"})
    assert (await sent.get())["type"] == "lifespan.startup.complete"
    yield
    received.put_nowait({"type": "lifespan.shutdown"})
    assert (await sent.get())["type"] == "lifespan.shutdown.complete"
    await task


async def test_no_more_turns_are_started_than_a_server_can_bear(talking, monkeypatch):
    monkeypatch.setattr("prowess.agent.live_turns.MAX_TURNS", 1)
    async with talking("x") as site:
        model = SlowModel(monkeypatch)
        stream = await start_slowly(site, model, background=True)
        await site.post("/sessions", {"conversation": "d"}, ANN)
        refused = await site.send("POST", "/sessions/d/messages", ANN, json={"message": "hi"})
        assert (refused.status_code, refused.json()["detail"]) == (503, "Too many turns are running already.")
        model.go_on.set()
        assert (await stream.rest())[-1].data["state"] == "done"


async def test_nobody_else_follows_or_stops_a_turn(talking, monkeypatch):
    async with talking("x") as site:
        model = SlowModel(monkeypatch)
        stream = await start_slowly(site, model)
        own = f"/sessions/{(await site.get('/sessions/c', ANN))['id']}/messages"
        assert (await site.send("GET", f"{own}/stream", BOB)).status_code == 404
        assert (await site.send("POST", f"{own}/stop", BOB, json={})).status_code == 404
        model.go_on.set()
        assert (await stream.rest())[-1].data["state"] == "done"


async def test_a_turn_in_another_process_is_followed_by_what_it_stores(talking, monkeypatch):
    monkeypatch.setattr("prowess.interfaces.rest.messages.LOOK_SECONDS", 0.01)
    async with talking("x") as site:
        model = SlowModel(monkeypatch)
        # Beside the server: it knows no more of this turn than of one in another process.
        turn = site.engine.as_actor(ANN).agent.send("c", "hi")
        await anext(turn)
        rest = asyncio.ensure_future(collect(turn))
        await asyncio.wait_for(model.asked.wait(), 60)
        refused = await site.send("POST", "/sessions/c/messages/stop", ANN, json={})
        assert (refused.status_code, refused.json()["detail"]) == (
            409,
            "Another process of the server is working on this turn.",
        )
        follower = await site.stream("/sessions/c/messages/stream", ANN)
        model.go_on.set()
        frames = await follower.rest()
        await rest
        assert [frame.fields["event"] for frame in frames] == ["following", "message", "ended_elsewhere"]
        assert (frames[0].data["here"], frames[0].data["after"]) == (False, 1)
        assert (frames[1].data["role"], frames[1].data["text"]) == ("assistant", "Half of it and the rest.")
        assert frames[2].data["state"] == "idle"


async def collect(turn: AsyncGenerator[Any]) -> list[Any]:
    return [update async for update in turn]


async def test_messages_are_read_from_the_newest_back(talking):
    async with talking("One.", "Two.") as site:
        for message in ("first", "second"):
            await site.post("/sessions/c/messages", {"message": message}, ANN)
        page = await site.get("/sessions/c/messages?order=newest&limit=3", ANN)
        assert [one["text"] for one in page["items"]] == ["Two.", "second", "One."]
        rest = await site.get(f"/sessions/c/messages?order=newest&limit=3&cursor={page['next_cursor']}", ANN)
        assert ([one["text"] for one in rest["items"]], rest["next_cursor"]) == (["first"], None)
