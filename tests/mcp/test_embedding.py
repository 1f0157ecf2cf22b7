"""`asgi_app`: an engine served inside another program, with a caller for every token."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from prowess.build.opening import Prowess
from prowess.interfaces.mcp.caller import Caller
from prowess.interfaces.mcp.http import asgi_app
from prowess.policy.actor import Actor, agent_of, local_person

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture
def web(workspace):
    reader = Actor(name="reader", kind="agent", permissions=frozenset({"skills.read"}))
    tokens = {"one": Caller(actor=agent_of(local_person("ann"))), "two": Caller(actor=reader)}
    engine = Prowess.open(workspace)
    app = asgi_app(engine, callers=tokens.get, keys=[b"k" * 32], hosts={"skills.example"}, path="/skills")
    with TestClient(app, base_url="http://skills.example") as client:
        yield client
        client.portal.call(engine.close)


def ask(web, token: str, method: str, headers=None, **params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    given = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        **(headers or {}),
    }
    return web.post("/skills", json=body, headers=given)


def modern(web, token: str, method: str, **params):
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return ask(web, token, method, headers, **params, _meta=META)


def test_each_caller_has_the_tools_that_it_may_use(web):
    one, two = (
        {tool["name"] for tool in modern(web, token, "tools/list").json()["result"]["tools"]}
        for token in ("one", "two")
    )
    assert "skill_create" in one
    assert "skill_create" not in two
    assert "search_skills" in two


def test_what_is_not_offered_is_refused_when_it_is_called(web):
    answer = modern(web, "two", "tools/call", name="skill_delete", arguments={"id": "release-notes"}).json()["result"]
    assert answer["isError"]
    assert answer["structuredContent"]["error"]["code"] == "refused"


def test_a_session_belongs_to_the_caller_who_began_it(web):
    begun = ask(web, "one", "initialize", **HELLO)
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    assert ask(web, "one", "ping", session).status_code == 200
    assert ask(web, "two", "ping", session).status_code == 404


def test_a_token_that_nobody_has_and_a_path_that_is_not_served(web):
    assert modern(web, "three", "tools/list").status_code == 401
    assert web.post("/mcp", json={}, headers={"Authorization": "Bearer one"}).status_code == 404
    assert web.get("/skills", headers={"Host": "127.0.0.1", "Authorization": "Bearer one"}).status_code == 421


def test_a_call_of_the_newer_protocol_is_answered_with_one_piece_of_json(web):
    answer = modern(web, "one", "tools/call", name="load_skill", arguments={"name": "release-notes"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["structuredContent"]["body"].strip() == "Write."
