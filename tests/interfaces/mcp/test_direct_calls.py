"""Tool calls that do not pass through the SDK's transport are answered as the SDK would answer them."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import httpx2
import pytest
from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from mcp_types.methods import serialize_server_result

from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.mcp.http import NOBODY, wrap_server
from prowess.interfaces.mcp.server import make_security, make_server

pytestmark = pytest.mark.anyio

TOKEN = "t" * 43
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "Host": "127.0.0.1",
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "load_skill",
}


@pytest.fixture
async def ask_both(engine, caller):
    """Return a function that posts the same to a server that answers calls itself, and to one that leaves all to the SDK."""
    async with AsyncExitStack() as stack:
        clients, servers = [], []
        # With `streams`, every request goes to the SDK, which still answers with plain JSON if there is nothing to stream.
        for streams in (False, True):
            server = make_server(engine, NOBODY, security=make_security([b"k" * 32], NOBODY))
            servers.append(server)
            app = wrap_server(server, callers=known_tokens({TOKEN: caller}), streams=streams)
            await stack.enter_async_context(app._app.running())
            transport = httpx2.ASGITransport(app=app)
            clients.append(httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1"))

        async def ask(body, headers=()):
            given = {name: value for name, value in (HEADERS | dict(headers)).items() if value is not None}
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return [await client.post("/mcp", headers=given, content=content) for client in clients]

        ask.servers = servers
        yield ask


def make_call(*, meta=META, params=(), **message):
    given = {"name": "load_skill", "arguments": {"skill": "release-notes"}, "_meta": meta} | dict(params)
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given} | message


CALLS = {
    "valid": make_call(),
    "id as text": make_call(id="a"),
    "unknown skill": make_call(params={"arguments": {"skill": "nothing"}}),
    "wrong arguments": make_call(params={"arguments": {"skill": 1, "x": "\x1b[31m"}}),
    "no client info": make_call(meta={name: value for name, value in META.items() if "Info" not in name}),
    "conversation": make_call(meta=META | {"prowess/conversation": "one"}),
    "trace": make_call(meta=META | {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}),
}
WRONG = {
    "no id": {"jsonrpc": "2.0", "method": "tools/call", "params": make_call()["params"]},
    "id is a float": make_call(id=1.5),
    "id is a bool": make_call(id=True),
    "other jsonrpc": make_call(jsonrpc="1.0"),
    "unknown key": make_call(result={}),
    "params are a list": make_call() | {"params": []},
    "other method": make_call(method="tools/list"),
    "name is a number": make_call(params={"name": 1}),
    "arguments are a list": make_call(params={"arguments": [1]}),
    "no meta": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "load_skill"}},
    "meta of another version": make_call(meta=META | {"io.modelcontextprotocol/protocolVersion": "2025-11-25"}),
    "wrong client info": make_call(meta=META | {"io.modelcontextprotocol/clientInfo": "x"}),
    "wrong progress token": make_call(meta=META | {"progressToken": {}}),
    "wrong conversation": make_call(meta=META | {"prowess/conversation": 1}),
    "forged state": make_call(params={"requestState": "x"}),
    "batch": [make_call()],
    "not JSON": b"{",
    "not UTF-8": b'{"jsonrpc": "2.0", "id": "\xff"}',
    "deep": b"[" * 100_000,
}
HEADERS_TO_CHANGE = {
    "no method": {"Mcp-Method": None},
    "other method": {"Mcp-Method": "tools/list"},
    "no name": {"Mcp-Name": None},
    "other name": {"Mcp-Name": "search_skills"},
    "unknown version": {"MCP-Protocol-Version": "2099-01-01"},
    "no JSON accepted": {"Accept": "text/html"},
    "other type": {"Content-Type": "text/plain"},
    "type with charset": {"Content-Type": "Application/JSON; charset=utf-8"},
    "parameter": {"Mcp-Param-Skill": "other"},
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in (CALLS | WRONG).items()])
async def test_the_answer_is_that_of_the_sdk_byte_for_byte(ask_both, body):
    own, sdk = await ask_both(body)
    assert (own.status_code, dict(own.headers), own.content) == (sdk.status_code, dict(sdk.headers), sdk.content)


@pytest.mark.parametrize("headers", [pytest.param(headers, id=name) for name, headers in HEADERS_TO_CHANGE.items()])
async def test_headers_are_checked_as_the_sdk_checks_them(ask_both, headers):
    own, sdk = await ask_both(make_call(), headers)
    assert (own.status_code, dict(own.headers), own.content) == (sdk.status_code, dict(sdk.headers), sdk.content)


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in CALLS.items()])
async def test_a_result_has_exactly_the_shape_of_its_protocol(ask_both, body):
    own, _ = await ask_both(body)
    result = own.json()["result"]
    meta = result.pop("_meta")
    assert list(meta) == ["io.modelcontextprotocol/serverInfo"]
    assert json.dumps(serialize_server_result("tools/call", VERSION, result)) == json.dumps(result)


async def test_a_handler_of_an_application_is_asked_instead(ask_both):
    async def call_tool(context, params):
        return CallToolResult(content=[TextContent(text="own")])

    for server in ask_both.servers:
        server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    answers = await ask_both(make_call())
    assert [answer.json()["result"]["content"] for answer in answers] == [[{"text": "own", "type": "text"}]] * 2
