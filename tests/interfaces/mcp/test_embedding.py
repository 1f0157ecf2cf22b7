"""`asgi_app`: an engine served inside another program, with a caller for every token."""

from __future__ import annotations

import asyncio
import time

import pytest
from starlette.testclient import TestClient

from prowess.feed.metrics import CONTENT_TYPE
from prowess.interfaces.auth.browser import LOOPBACK_HOSTS
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.mcp.http import MAX_OPENING_BYTES, NOBODY, asgi_app, wrap_server
from prowess.interfaces.mcp.server import make_security, make_server
from prowess.open import Prowess
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
    stranger = Actor(name="stranger", kind="agent", permissions=frozenset())
    tokens = {
        "one": Caller(actor=agent_of(local_person("ann"))),
        "two": Caller(actor=reader),
        "stranger": Caller(actor=stranger),
        "acme": Caller(actor=agent_of(Actor(name="ann", organization="acme"))),
        "borg": Caller(actor=agent_of(Actor(name="bob", organization="borg"))),
    }
    engine = Prowess.open(workspace)
    app = asgi_app(
        engine, callers=tokens.get, keys=[b"k" * 32], hosts={"skills.example"}, path="/skills", approval_seconds=0
    )
    with TestClient(app, base_url="http://skills.example") as client:
        yield client
        client.portal.call(engine.close)


@pytest.fixture
def open_conversations(workspace):
    """Return a function that lists the conversations with an open session, as another process sees them."""

    async def listed() -> list[str]:
        async with Prowess.open(workspace) as engine:
            return [session.conversation for session in await engine.sessions.list()]

    return lambda: asyncio.run(listed())


def until(holds) -> bool:
    """Repeat the check until it holds. Return False if it does not within a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            return False
    return True


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
    if "name" in params or method == "resources/read":
        headers["Mcp-Name"] = params.get("name") or params["uri"]
    return ask(web, token, method, headers, **params, _meta=META)


def test_each_caller_has_the_tools_that_it_may_use(web):
    one, two = (
        {tool["name"] for tool in modern(web, token, "tools/list").json()["result"]["tools"]}
        for token in ("one", "two")
    )
    assert "skill_create" in one
    assert "skill_create" not in two
    assert "search_skills" in two


def test_each_caller_is_served_the_skills_and_the_metrics_of_its_own_organization(web):
    secret = {"id": "secret-sauce", "name": "Sauce", "description": "Makes sauce.", "instructions": "Stir."}
    created = modern(web, "acme", "tools/call", name="skill_create", arguments=secret).json()["result"]
    assert not created["isError"], created
    uri = next(one["uri"] for one in listed(web, "acme") if "secret-sauce/SKILL.md" in one["uri"])
    assert "Stir." in modern(web, "acme", "resources/read", uri=uri).text
    modern(web, "acme", "tools/call", name="load_skill", arguments={"name": "secret-sauce"})

    for other in ("borg", "one"):
        assert not [one for one in listed(web, other) if "secret-sauce" in one["uri"]]
        answer = modern(web, other, "resources/read", uri=uri).json()
        absent = modern(web, other, "resources/read", uri=uri.replace("secret-sauce", "absent")).json()
        assert answer["error"]["code"] == absent["error"]["code"]
        loaded = modern(web, other, "tools/call", name="load_skill", arguments={"name": "secret-sauce"})
        assert "Stir." not in loaded.text
        found = modern(web, other, "tools/call", name="search_skills", arguments={"query": "sauce"})
        assert "secret-sauce" not in found.json()["result"]["content"][0]["text"]
        metrics = web.get("/metrics", headers={"Authorization": f"Bearer {other}"}).text
        assert "secret-sauce" not in metrics


def listed(web, token: str):
    return modern(web, token, "resources/list").json()["result"]["resources"]


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


def outcome(web, token: str, method: str, **params):
    """Return the result, or the error code: all that a client learns from an answer."""
    answer = modern(web, token, method, **params).json()
    return answer["error"]["code"] if "error" in answer else answer["result"]


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("resources/read", "skill://index.json"),
        ("resources/read", "skill://release-notes/SKILL.md"),
        ("resources/read", "skill://release-notes/_manifest"),
        ("skills/get", "skill://release-notes/SKILL.md"),
        ("resources/directory/read", "skill://release-notes"),
    ],
)
def test_to_who_may_not_read_skills_an_address_is_one_of_nothing(web, method, uri):
    assert outcome(web, "stranger", method, uri=uri) == outcome(web, "one", method, uri="skill://nothing/at/all")
    assert isinstance(outcome(web, "two", method, uri=uri), dict)


def test_to_who_may_not_read_skills_nothing_is_listed(web):
    assert outcome(web, "stranger", "resources/list")["resources"] == []
    assert outcome(web, "stranger", "skills/list")["skills"] == []
    assert outcome(web, "two", "resources/list")["resources"]
    assert outcome(web, "two", "skills/list")["skills"]


def test_the_metrics_are_for_who_has_a_token_and_may_read(web):
    modern(web, "one", "tools/call", name="load_skill", arguments={"name": "release-notes"})
    told = web.get("/metrics", headers={"Authorization": "Bearer two"})
    assert (told.status_code, told.headers["content-type"]) == (200, CONTENT_TYPE)
    assert "skill_events_total" in told.text
    assert web.get("/metrics").status_code == 401
    assert web.get("/metrics", headers={"Authorization": "Bearer stranger"}).status_code == 404
    assert web.post("/metrics", headers={"Authorization": "Bearer two"}).status_code == 404


def test_the_conversation_of_a_session_ends_with_it(web, open_conversations):
    begun = ask(web, "one", "initialize", **HELLO)
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    given = {"Authorization": "Bearer one", "Accept": "application/json, text/event-stream", **session}
    assert web.post("/skills", json=note, headers=given).status_code == 202
    ask(web, "one", "tools/call", session, name="enable_skill", arguments={"skill_slug": "release-notes"})
    assert open_conversations() == [f"mcp:{session['Mcp-Session-Id']}"]
    assert web.delete("/skills", headers=given).status_code == 200
    assert until(lambda: open_conversations() == [])


def test_calls_that_name_no_conversation_share_that_of_their_caller(web, open_conversations):
    for slug in ("release-notes", "invoice-reader"):
        modern(web, "one", "tools/call", name="enable_skill", arguments={"skill_slug": slug})
    modern(web, "two", "tools/call", name="enable_skill", arguments={"skill_slug": "release-notes"})
    assert sorted(open_conversations()) == ["mcp:agent:agent", "mcp:agent:reader"]


@pytest.fixture
def small_web(workspace):
    """Start a server that allows three sessions of the older protocol."""
    users = {"ann": "ann", "ann's other agent": "ann", "bob": "bob"}
    callers = {name: Caller(actor=Actor(name=name, kind="agent", user=user)) for name, user in users.items()}
    engine = Prowess.open(workspace)
    server = make_server(engine, NOBODY, security=make_security([b"k" * 32], NOBODY))
    app = wrap_server(server, callers=callers.get, hosts={"skills.example"}, path="/skills", sessions=3)
    with TestClient(app, base_url="http://skills.example") as client:
        yield client
        client.portal.call(engine.close)


def test_who_finds_no_room_for_a_session_is_told_when_to_try_again(small_web):
    first, second, third = (ask(small_web, "ann", "initialize", **HELLO) for _ in range(3))
    assert [answer.status_code for answer in (first, second, third)] == [200, 200, 503]
    assert int(third.headers["retry-after"]) > 0
    assert "retry-after" not in first.headers
    assert modern(small_web, "ann", "tools/list").status_code == 200
    given = {"Authorization": "Bearer ann", "Mcp-Session-Id": first.headers["mcp-session-id"]}
    assert small_web.delete("/skills", headers=given).status_code == 200
    assert ask(small_web, "ann", "initialize", **HELLO).status_code == 200


def test_sessions_of_one_user_leave_room_for_those_of_others(small_web):
    callers = ("ann", "ann", "ann", "ann's other agent", "bob", "bob")
    statuses = [ask(small_web, who, "initialize", **HELLO).status_code for who in callers]
    assert statuses == [200, 200, 503, 503, 200, 503]


def test_a_request_that_opens_a_session_or_a_stream_cannot_be_long(small_web):
    long = "x" * MAX_OPENING_BYTES
    opening = ask(small_web, "ann", "initialize", **{**HELLO, "clientInfo": {"name": long, "version": "1"}})
    listening = modern(small_web, "ann", "subscriptions/listen", notifications={"resourceSubscriptions": [long]})
    for refused in (opening, listening):
        assert (refused.status_code, "more than 65,536 bytes" in refused.text) == (413, True)
    assert ask(small_web, "ann", "initialize", **HELLO).status_code == 200
    assert modern(small_web, "ann", "tools/call", name="list_skills", arguments={"tag": long}).status_code == 200


SIDECAR = "artifacts:\n  - {path: prompts/greet.j2, kind: prompt_template, name: greet, ordinal: 1}\n"


def test_a_client_that_reports_many_names_is_one_caller(workspace, write_skill, monkeypatch):
    monkeypatch.setattr("prowess.interfaces.mcp.sampling.MAX_OPEN_RUNS", 2)
    write_skill("greeter", **{"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."})
    engine = Prowess.open(workspace)
    caller = Caller(actor=agent_of(local_person("ann")), named_by_client=True)
    app = asgi_app(engine, callers={"one": caller}.get, keys=[b"k" * 32], hosts={"skills.example"}, path="/skills")
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "run_skill"}
    call = {"name": "run_skill", "arguments": {"skill": "greeter", "inputs": {"name": "Ada"}}}
    with TestClient(app, base_url="http://skills.example") as client:
        answers: list[str] = []
        for name in ("first", "second"):
            meta = META | {
                "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
            }
            answers.append(ask(client, "one", "tools/call", headers, **call, _meta=meta).text)
        client.portal.call(engine.close)

    # The first run waits for the client's model, and there is no room for another one.
    assert ["input_required" in answer for answer in answers] == [True, False]
    assert "Too many runs wait" in answers[1]


async def accept_all(engine):
    await engine.trust.accept(await engine.trust.preview(), proof="reviewed")


@pytest.mark.parametrize(
    ("peer", "host", "header", "is_here"),
    [
        ("127.0.0.1", "localhost:8090", {}, True),
        ("::1", "[::1]:8090", {}, True),
        ("192.168.1.20", "localhost", {}, False),
        ("", "localhost", {}, False),
        ("127.0.0.1", "skills.example", {}, False),
        ("127.0.0.1", "localhost", {"X-Forwarded-For": "127.0.0.1"}, False),
        ("127.0.0.1", "localhost", {"Forwarded": "for=127.0.0.1"}, False),
    ],
)
def test_only_a_client_at_this_machine_learns_the_folder_of_a_skill(
    workspace, write_skill, peer, host, header, is_here
):
    folder = write_skill("cutter", "---\nname: cutter\ndescription: Cuts.\n---\n\nRun `{baseDir}/cut.sh`.\n")
    engine = Prowess.open(workspace)
    caller = Caller(actor=agent_of(local_person("ann")))
    hosts = {"skills.example", *LOOPBACK_HOSTS}
    app = asgi_app(engine, callers={"one": caller}.get, keys=[b"k" * 32], hosts=hosts, path="/skills")
    with TestClient(app, base_url=f"http://{host}", client=(peer, 50000)) as web:
        web.headers.update(header)
        web.portal.call(accept_all, engine)
        loaded = modern(web, "one", "tools/call", name="load_skill", arguments={"name": "cutter"}).text
        web.portal.call(engine.close)
    assert (f"{folder}/cut.sh" in loaded, "`cut.sh`" in loaded) == (is_here, not is_here), loaded
