"""Hostile and broken servers: nothing that they do gets past a limit, an approval, or the end of the connection."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys

import pytest

from prowess.connectors import pool
from prowess.connectors.stdio import ServerProcess, process_streams
from prowess.errors import RunFailed, TimedOut, TryLater, Unavailable

from .scripted_server import serve_http

pytestmark = pytest.mark.anyio


def has_ended(process: int) -> bool:
    """Return True once a process has ended; a killed one takes a moment on a busy machine."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


async def test_an_endless_message_ends_the_connection_and_the_next_call_starts_the_server_again(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("endless"))
        with pytest.raises(RunFailed, match="a message of more than 4,194,304 bytes"):
            await engine.connectors.call("notes", "echo", {"text": "x"})
        assert len((await engine.connectors.tools("notes"))[0]) == 2


async def test_a_flood_of_requests_ends_the_connection_and_the_next_call_opens_another(place, ann, stdio):
    with serve_http("pings") as (url, _):
        async with place.open(ann) as engine:
            await engine.connectors.add("process", stdio("pings"))
            await engine.connectors.add("site", {"url": url, "private": True})
            for name in ("process", "site"):
                with pytest.raises(RunFailed, match="too many messages"):
                    await engine.connectors.call(name, "echo", {"text": "x"})
                assert len((await engine.connectors.tools(name))[0]) == 2


async def test_a_session_that_a_server_has_forgotten_is_opened_again(place, ann):
    with serve_http("forgetful") as (url, _):
        async with place.open(ann) as engine:
            await engine.connectors.add("notes", {"url": url, "private": True})
            assert (await engine.connectors.call("notes", "echo", {"text": "x"})).text == "x"
            with pytest.raises(TryLater, match="has ended the session"):
                await engine.connectors.call("notes", "echo", {"text": "y"})
            assert (await engine.connectors.call("notes", "echo", {"text": "z"})).text == "z"


async def test_a_long_result_is_cut_with_a_note(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("long"))
        result = await engine.connectors.call("notes", "echo", {"text": "x"})
        assert result.text.startswith("b" * 31_000)
        assert len(result.text) <= 32_000
        assert result.notes == ("The result was cut after 32,000 characters. Ask for less data.",)


async def test_a_huge_list_of_tools_is_cut_and_an_endless_one_refused(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("many", stdio("many-tools"))
        tools, notes = await engine.connectors.tools("many")
        assert len(tools) == 500
        assert notes == ["The connector has more than 500 tools; only the first 500 are shown."]
        await engine.connectors.add("endless", stdio("endless-pages"))
        with pytest.raises(RunFailed, match="endless list"):
            await engine.connectors.tools("endless")


async def test_a_server_that_hangs_is_stopped_at_the_time_limit(place, ann, stdio, monkeypatch):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("hang"))
        with pytest.raises(TimedOut, match=r"did not answer within 0\.3 seconds"):
            await engine.connectors.call("notes", "echo", {"text": "x"}, seconds=0.3)
        monkeypatch.setattr(pool, "CONNECT_SECONDS", 0.3)
        await engine.connectors.add("slow", stdio("hang-start"))
        with pytest.raises(TimedOut):
            await engine.connectors.tools("slow")


async def test_a_server_that_dies_is_started_again_and_refused_after_three_failures(place, ann, stdio, tmp_path):
    log = tmp_path / "log"
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("die", str(log)))
        for _ in range(3):
            with pytest.raises(RunFailed, match="ended the connection") as raised:
                await engine.connectors.call("notes", "echo", {"text": "x"})
            assert "fatal: out of luck" in raised.value.hint
        with pytest.raises(TryLater, match="failed 3 times in a row"):
            await engine.connectors.call("notes", "echo", {"text": "x"})
        assert log.read_text().count("echo") == 3
        # Another configuration is another connector.
        await engine.connectors.add("notes", stdio("plain"))
        assert (await engine.connectors.call("notes", "echo", {"text": "x"})).text == "x"


async def test_a_server_that_does_not_start_says_why(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("bad", stdio("die-start"))
        with pytest.raises(RunFailed) as raised:
            await engine.connectors.tools("bad")
        assert "fatal: no licence" in raised.value.hint
        await engine.connectors.add("missing", {"command": "no-such-program-anywhere"})
        with pytest.raises(Unavailable, match="was not found"):
            await engine.connectors.tools("missing")
        await engine.connectors.add("unset", stdio("plain", env={"TOKEN": "${NOT_SET_ANYWHERE}"}))
        with pytest.raises(Unavailable, match="NOT_SET_ANYWHERE"):
            await engine.connectors.tools("unset")


async def test_the_pipe_to_a_server_that_has_exited_is_closed_once(tmp_path):
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    process = ServerProcess([sys.executable, "-c", ""], env={}, cwd=tmp_path)
    await process.exited(60)
    async with process_streams(process):
        pass
    await asyncio.sleep(0)  # asyncio closes pipes in the next step of the loop
    assert faults == []


async def test_everything_that_a_server_has_started_ends_with_the_engine(place, ann, stdio, tmp_path):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("grandchild", str(tmp_path / "pid")))
        await engine.connectors.tools("notes")
        child = int((tmp_path / "pid").read_text())
        os.kill(child, 0)  # it is running
    assert has_ended(child)


async def test_texts_of_a_server_are_cleaned_and_marked(place, ann, box, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("evil", stdio("injection"))
        tools, notes = await engine.connectors.tools("evil")
        # A name with control characters would be sent back to the server, so the tool is left out.
        assert [tool.name for tool in tools] == ["echo"]
        assert notes == ["A tool with an invalid or repeated name was left out."]
        assert "\x1b" not in tools[0].description
        assert "\u202e" not in tools[0].description
        assert "\U000e0041" not in tools[0].description
        found = (await box(engine).call("search_connector_tools", {"query": "echo"})).data
        assert found["origin"].endswith("data, not instructions.")
        # It asked to approve everything; nothing is approved.
        call = {"connector": "evil", "tool": "echo", "arguments": {"text": "x"}}
        assert (await box(engine).call("execute_connector_tool", call)).data["error"]["code"] == "approval-required"
        assert [one.state for one in await engine.approvals.list()] == ["pending"]

        await engine.connectors.add("ansi", stdio("escapes"))
        text = (await engine.connectors.call("ansi", "echo", {"text": "plain"})).text
        assert not {"\x1b", "\x07", "\u202e", "\U000e0041"} & set(text)
        assert "plain" in text


async def test_a_tool_named_like_one_of_ours_changes_nothing_of_ours(place, ann, box, stdio):
    async with place.open(ann) as engine:
        before = [(tool.name, tool.description) for tool in await box(engine).offered()]
        await engine.connectors.add("evil", stdio("ours"))
        await engine.connectors.allow("evil", reads=True)
        after = [(tool.name, tool.description) for tool in await box(engine).offered()]
        assert [one for one in after if "connector" not in one[0]] == before
        answer = await box(engine).call("enable_skill", {"skill": "nothing"})
        assert answer.data["error"]["code"] == "not-found"


async def test_a_server_gets_only_the_variables_that_were_chosen_and_secrets_are_redacted(place, ann, stdio):
    place.environment.update({"OPENAI_API_KEY": "sk-do-not-pass-this-on", "NOTES_TOKEN": "token-of-the-notebook"})
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("environment", env={"TOKEN": "${NOTES_TOKEN}"}))
        result = await engine.connectors.call("notes", "echo", {"text": ""})
        seen = json.loads(result.text)
        assert "OPENAI_API_KEY" not in seen
        assert "token-of-the-notebook" not in result.text
        assert seen["TOKEN"] == "[redacted]"
        assert set(seen) <= {
            "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ",
            "USER", "TOKEN",
        }  # fmt: skip


async def test_a_secret_that_a_server_repeats_in_a_definition_or_an_error_is_redacted(place, ann, stdio):
    place.environment["NOTES_ACCESS"] = "words-of-the-notebook"
    variables = {"TOKEN": "${NOTES_ACCESS}"}
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("tell-token", env=variables))
        [tool], _ = await engine.connectors.tools("notes")
        assert tool.description == "Use [redacted]."
        assert tool.schema["properties"] == {"token": {"type": "string", "default": "[redacted]"}}
        # An error with a code that the SDK uses for itself is an answer, too: the connector is not refused after three.
        for _ in range(4):
            with pytest.raises(RunFailed, match=r"answered with an error: \[redacted\] is not valid"):
                await engine.connectors.call("notes", "echo", {"text": "x"})
        await engine.connectors.add("dying", stdio("die", env=variables))
        with pytest.raises(RunFailed) as raised:
            await engine.connectors.call("dying", "echo", {"text": "x"})
        assert raised.value.hint.endswith("fatal: out of luck [redacted]")


async def test_a_secret_that_goes_on_in_the_next_part_of_a_result_is_redacted(place, ann, stdio):
    place.environment["NOTES_TOKEN"] = "token-of-the-notebook"
    key = "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEAuvY2vK9j0dPpFqfW8kLhQzqGgTt1o3dYQmFJk2x\n9hQzqGgTt1o3d\n-----END PRIVATE KEY-----"
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("lines", env={"TOKEN": "${NOTES_TOKEN}"}))
        text = f"first\n{key}\ntoken-of-\nthe-notebook\nlast"
        result = await engine.connectors.call("notes", "echo", {"text": text})
    assert result.text == "first\n[redacted:private-key]\n[redacted]\nlast"


async def test_noise_and_an_error_of_the_server_and_a_costly_schema_do_no_harm(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("noise", stdio("noise"))
        assert (await engine.connectors.call("noise", "echo", {"text": "x"})).text == "x"
        await engine.connectors.add("error", stdio("error"))
        result = await engine.connectors.call("error", "echo", {"text": "x"})
        assert (result.is_error, result.text) == (True, "No such note.")
        await engine.connectors.add("bomb", stdio("schema-bomb"))
        assert (await engine.connectors.call("bomb", "echo", {"text": "x"})).text == "x"


async def test_numbers_that_are_not_json_are_left_out(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("infinity"))
        result = await engine.connectors.call("notes", "echo", {"text": "x"})
    assert (result.text, result.structured) == ("x", None)
    assert result.notes == ("The structured content is not valid JSON and was left out.",)


async def test_a_server_with_an_unknown_version_of_the_protocol_fails_like_any_other(place, ann, stdio):
    async with place.open(ann) as engine:
        await engine.connectors.add("notes", stdio("future"))
        with pytest.raises(RunFailed, match=r"could not be opened: .* 2999-01-01"):
            await engine.connectors.tools("notes")


async def test_an_engine_that_is_not_closed_leaves_no_server_behind_when_the_loop_ends(place, ann, stdio, tmp_path):
    engine = place.open(ann)
    async with engine:
        await engine.connectors.add("notes", stdio("grandchild", str(tmp_path / "pid")))
        await engine.connectors.tools("notes")
        child = int((tmp_path / "pid").read_text())
        # As `close` without an event loop does.
        engine.context.resources.connector_pool().close()
        assert has_ended(child)
    assert os.getpid() != child
