"""`prowess mcp`: only protocol messages on stdout, and a clean shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from prowess.interfaces.mcp.stdio import _StdoutWriter

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.mark.few(1)
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_client_starts_it_and_uses_tools_and_skills(over_stdio, mode, workspace):
    async with over_stdio(mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        found = await client.call_tool("search_skills", {"query": "invoices"})
        loaded = await client.call_tool("load_skill", {"name": "release-notes"})
        listed = await client.list_resources()
        (content,) = (await client.read_resource("skill://invoice-reader/scripts/total.py")).contents
    assert {"search_skills", "load_skill"} <= tools
    assert "invoice-reader" in json.dumps(found.structured_content)
    assert "Write." in json.dumps(loaded.structured_content)
    assert "skill://release-notes/SKILL.md" in {resource.uri for resource in listed.resources}
    assert content.text == "print('total')\r\n"


@pytest.mark.long
@pytest.mark.anyio
async def test_its_own_conversation_ends_with_it_and_a_named_one_stays(over_stdio, engine):
    mode = "legacy"
    async with over_stdio(mode) as client:
        await client.call_tool("enable_skill", {"skill_slug": "release-notes"})
        assert [session.conversation[:4] for session in await engine.sessions.list()] == ["mcp:"]
    assert await engine.sessions.list() == []
    async with over_stdio(mode, "--conversation", "talk") as client:
        await client.call_tool("enable_skill", {"skill_slug": "release-notes"})
    assert [session.conversation for session in await engine.sessions.list()] == ["talk"]


@pytest.fixture
def start(workspace, environment):
    """Start the server with pipes for stdin and stdout, and kill it after the test if it still runs."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace), *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(BrokenPipeError):
                stream.close()


def greet(process) -> dict:
    process.stdin.write(json.dumps(HELLO).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_the_end_of_the_input_ends_it_cleanly(start):
    process = start()
    assert greet(process)["result"]["serverInfo"]["name"] == "prowess"
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_in_a_terminal_it_says_what_it_waits_for_and_ctrl_d_ends_it(workspace, environment):
    terminal, given = pty.openpty()
    command = [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=given, stdout=pipe, stderr=pipe, text=True) as process:
        told = [process.stderr.readline() for _ in range(4)]
        os.write(terminal, b"\x04")
        out, rest = process.communicate(timeout=60)
    os.close(terminal)
    os.close(given)
    assert told[0].startswith("Waiting for an MCP client on stdin.")
    assert "prowess mcp --install claude-code --write" in told[1]
    assert told[3] == "Press Ctrl+C to stop.\n"
    assert (process.returncode, out, rest) == (0, "", "")


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_a_signal_ends_it_while_the_client_holds_on(start, number, code):
    process = start()
    greet(process)
    process.send_signal(number)
    assert process.wait(timeout=60) == code
    assert process.stdout.read() == b""
    assert b"Traceback" not in process.stderr.read()


def test_what_is_not_json_gets_an_error_and_stdout_stays_protocol(start):
    process = start()
    process.stdin.write(b"this is not JSON\n")
    greeting = greet(process)
    while "result" not in greeting:
        assert greeting["error"]["code"] == -32700
        greeting = json.loads(process.stdout.readline())
    out, _ = process.communicate(timeout=60)
    assert greeting["result"]["protocolVersion"] == "2025-11-25"
    assert out == b""


@pytest.mark.long
def test_a_client_that_goes_away_leaves_no_traceback(start):
    process = start()
    greet(process)
    process.stdout.close()
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\n')
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert b"Traceback" not in process.stderr.read()


@pytest.mark.long
def test_it_reads_requests_from_a_file(workspace, environment, tmp_path):
    requests = tmp_path / "requests"
    requests.write_text(json.dumps(HELLO) + "\n")
    with requests.open() as given:
        command = [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace)]
        ran = subprocess.run(command, env=environment, stdin=given, capture_output=True, timeout=60, check=False)
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["id"] == 1


def test_without_the_extra_it_says_how_to_install_it(workspace, environment):
    blocked = "import sys; sys.modules['mcp'] = None; from prowess.interfaces.cli.main import run; sys.argv[1:] = ['mcp']; run()"
    ran = subprocess.run(
        [sys.executable, "-c", blocked], env=environment, cwd=workspace, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 7
    assert "pip install 'prowess[mcp]'" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.long
def test_a_role_that_there_is_not_is_told_at_once(workspace, environment):
    command = [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace), "--role", "nobody"]
    ran = subprocess.run(command, env=environment, input="", capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 4
    assert "nobody" in ran.stderr
    assert ran.stdout == ""


HALF = "\ud800 half of a character"
DRAFT = {"id": "draft", "name": "Draft", "description": "Writes drafts.", "instructions": "# Draft"}
BROKEN_CALLS = [
    *({"name": "skill_create", "arguments": {**DRAFT, broken: HALF}} for broken in DRAFT),
    {"name": "skill_create", "arguments": {HALF: 1}},
    {"name": "run_skill", "arguments": {"skill_slug": "release-notes", "inputs": {"deep": [{"a": HALF}]}}},
    {"name": HALF, "arguments": {}},
]


@pytest.mark.long
def test_half_of_a_surrogate_pair_gets_a_clear_answer_under_its_id_and_a_whole_one_is_a_character(start):
    """JSON writes it as an escape, `\\ud800`."""
    process = start()
    greet(process)
    process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    for number, call in enumerate(BROKEN_CALLS, 100):
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
        process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 8, "method": "ping"}\n')
    process.stdin.flush()
    count = len(BROKEN_CALLS) + 1
    answers = {answer["id"]: answer for answer in (json.loads(process.stdout.readline()) for _ in range(count))}
    assert answers.pop(8)["result"] == {}
    assert sorted(answers) == list(range(100, 100 + len(BROKEN_CALLS)))
    for answer in answers.values():
        assert "surrogate" in answer["error"]["message"]
        assert answer["error"]["data"]["hint"]
    call = rb'{"name": "show_skill", "arguments": {"skill_slug": "\ud83d\ude00"}}'
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": %s}\n' % call)
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert (answer["id"], "result" in answer) == (7, True)


@pytest.mark.anyio
async def test_a_message_that_has_begun_is_finished_although_its_request_is_cancelled():
    reader, writer = os.pipe()
    output = _StdoutWriter(writer)
    long, short = "a" * 200_000 + "\n", "b\n"  # a pipe takes 64 KiB at once
    first = asyncio.create_task(output.write(long))
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.create_task(output.write(short))
    got = b""
    while not got.endswith(b"b\n"):
        got += await asyncio.to_thread(os.read, reader, 65536)
    await second
    assert got.decode() == long + short
    os.close(reader)
    os.close(writer)
