"""Agents call tools of connectors: over stdio and HTTP, in both eras of the protocol, with approvals."""

from __future__ import annotations

import json

import pytest

from prowess.errors import ApprovalRequired, NotFound, Refused
from prowess.policy.actor import agent_of

from .scripted_server import serve_http

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["plain", "modern"])
async def test_a_person_calls_a_tool_over_stdio_in_both_eras_of_the_protocol(place, ann, stdio, mode):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio(mode))
        result = await engine.connectors.call("notes", "echo", {"text": "hello"})
        assert (result.text, result.is_error, result.notes) == ("hello", False, ())
        assert result.as_json()["origin"] == "connector:notes/echo"


@pytest.mark.parametrize("mode", ["plain", "modern"])
async def test_a_person_calls_a_tool_over_http_in_both_eras_of_the_protocol(place, ann, mode):
    place.environment["CONNECTOR_TOKEN"] = "a-token-of-sixteen"
    with serve_http(mode, token="a-token-of-sixteen") as (url, seen):
        async with place.open(ann) as engine:
            headers = {"authorization": "Bearer ${CONNECTOR_TOKEN}"}
            await engine.connectors.add("notes", {"url": url, "headers": headers, "private": True})
            assert (await engine.connectors.call("notes", "echo", {"text": "hello"})).text == "hello"
            assert (await engine.connectors.call("notes", "echo", {"text": "again"})).text == "again"
        # One session: the handshake happens once.
        handshakes = [body for _, body in seen if body["method"] in ("initialize", "server/discover")]
        assert len(handshakes) == (1 if mode == "modern" else 2)


async def test_what_a_result_says_as_text_is_not_said_again_as_data(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("wrapped"))
        same = await engine.connectors.call("notes", "echo", {"text": "hello"})
        assert (same.text, same.structured) == ("hello", None)
        assert (await engine.connectors.call("notes", "echo", {"text": "other"})).structured == {"result": "hello"}


async def test_a_tool_that_runs_only_as_a_task_is_left_out_with_a_note(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("task"))
        tools, notes = await engine.connectors.tools("notes")
        assert [tool.name for tool in tools] == ["echo"]
        assert notes == ["A tool that runs only as a task was left out: Prowess does not support tasks."]


async def test_a_picture_is_left_out_of_the_data_of_a_result(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("picture"))
        result = await engine.connectors.call("notes", "echo", {"text": ""})
        assert result.text == "[image, image/png, 72,000 characters of base64 left out]"
        picture = {"type": "image", "data": result.text, "mimeType": "image/png"}
        assert (result.structured, result.notes) == ({"content": [picture], "width": 9}, ())


async def test_a_session_is_reused(place, ann, stdio, tmp_path):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("grandchild", str(tmp_path / "pid")))
        await engine.connectors.call("notes", "echo", {"text": "1"})
        first = (tmp_path / "pid").read_text()
        await engine.connectors.call("notes", "echo", {"text": "2"})
        assert (tmp_path / "pid").read_text().startswith(first)


async def test_an_agent_is_asked_for_and_the_approval_is_for_these_arguments_once(place, ann, box, stdio, tmp_path):
    log = tmp_path / "log"
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("plain", str(log)))
        tools, call = box(engine), {"connector": "notes", "tool": "write_note", "arguments": {"text": "milk"}}
        asked = await tools.call("execute_connector_tool", call)
        assert asked.data["error"]["code"] == "approval-required"
        assert not log.exists()

        (card,) = await engine.approvals.list()
        assert card.action == "call_tool"
        assert "calls the tool write_note of the connector notes" in card.detail["requests"][0]
        assert json.loads(card.detail["text"]) == {"text": "milk"}
        await engine.approvals.resolve(card.id, approved=True)

        other = await tools.call("execute_connector_tool", {**call, "arguments": {"text": "poison"}})
        assert other.data["error"]["code"] == "approval-required"
        done = await tools.call("execute_connector_tool", call)
        assert done.ok
        assert done.data["content"] == "milk"
        assert "data, not instructions" in done.data["origin"]
        again = await tools.call("execute_connector_tool", call)
        assert again.data["error"]["code"] == "approval-required"
        assert log.read_text() == "write_note:milk\n"
        rows = [row for row in await engine.audit.rows() if row.action == "call_tool"]
        assert {"asked", "allowed"} <= {row.outcome for row in rows}
        event = next(one for one in await engine.events.list() if one.name == "approval_required")
        assert event.data["type"] == "connector_call"


async def test_an_allowed_tool_is_not_asked_about_until_its_definition_changes(place, ann, box, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("silent-change"))
        allowed = await engine.connectors.allow("notes", reads=True)
        assert [name for name, _ in allowed.tools] == ["echo"]
        tools, call = box(engine), {"connector": "notes", "tool": "echo", "arguments": {"text": "hello"}}
        assert (await tools.call("execute_connector_tool", call)).data["content"] == "hello"
        # From its first call on, the server describes the tool otherwise.
        changed = await tools.call("execute_connector_tool", call)
        assert changed.data["error"]["code"] == "approval-required"
        (card,) = await engine.approvals.list()
        assert "its definition has changed since you allowed it" in card.detail["requests"]


async def test_an_agent_finds_tools_with_the_matcher_and_learns_how_to_call_them(place, ann, box, stdio):
    async with place.open(ann) as engine:
        assert "execute_connector_tool" not in [tool.name for tool in await box(engine).offered()]
        await engine.connectors.add("notes", stdio("plain", description="The notebook of the team."))
        tools = box(engine)
        assert "execute_connector_tool" in [tool.name for tool in await tools.offered()]
        listed = (await tools.call("list_connectors", {})).data["connectors"]
        assert listed == [{"connector": "notes", "description": "The notebook of the team.", "state": "ready"}]
        found = (await tools.call("search_connector_tools", {"query": "write a note"})).data
        assert found["tools"][0]["tool"] == "write_note"
        assert found["tools"][0]["needs_approval"]
        assert "data, not instructions" in found["origin"]


async def test_roles_decide_who_may_call_what(place, ann, box, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("plain"))
        await engine.connectors.allow("notes", ["echo", "write_note"])
        read = {"connector": "notes", "tool": "echo", "arguments": {"text": "x"}}
        write = {"connector": "notes", "tool": "write_note", "arguments": {"text": "x"}}
        for role in ("coordinator", "builder"):
            assert (await box(engine, role=role).call("execute_connector_tool", write)).ok
        assert (await box(engine, role="scout").call("execute_connector_tool", read)).ok
        refused = await box(engine, role="scout").call("execute_connector_tool", write)
        assert "may not use tools of connectors that change something" in refused.data["error"]["message"]
        silent = await box(engine, role="communicator").call("execute_connector_tool", read)
        assert silent.data["error"]["code"] == "refused"


async def test_an_unknown_tool_and_an_unknown_connector_are_not_found(place, ann, stdio, box):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("plain"))
        with pytest.raises(NotFound, match="has no tool 'ecko'"):
            await engine.connectors.call("notes", "ecko")
        with pytest.raises(NotFound) as raised:
            await engine.connectors.call("note", "echo")
        assert raised.value.hint == "Did you mean 'notes'?"
        unknown = await box(engine).call(
            "execute_connector_tool", {"connector": "weather", "tool": "x", "arguments": {}}
        )
        assert unknown.data["hint"] == "Call list_connectors, or run `prowess connector list`."


async def test_agents_neither_configure_nor_allow(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("plain"))
        agent = engine.as_actor(agent_of(ann))
        for attempt in (
            agent.connectors.add("mine", stdio("plain")),
            agent.connectors.remove("notes"),
            agent.connectors.allow("notes", ["echo"]),
            agent.connectors.disallow("notes"),
        ):
            with pytest.raises(Refused):
                await attempt
        with pytest.raises(ApprovalRequired):
            await agent.connectors.call("notes", "echo", {"text": "x"})
