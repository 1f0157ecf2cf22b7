"""Every route and every MCP tool for every kind of caller: who gets in, and that nobody sees what belongs to others.

The routes come from the OpenAPI document and the tools from their table. One without a row fails.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Generator
from typing import Any, cast
from urllib.parse import quote

import httpx2
import pytest
from tests.sources.registry_stubs import SkillsShStub

from prowess import Prowess
from prowess.engine.engine import Engine
from prowess.interfaces.rest.app import make_api
from prowess.settings import read_settings
from prowess.sources.scripted import ScriptedFetcher
from prowess.tools.toolbox import builtin_tools

from .rows import (
    ANYONE,
    PUBLIC,
    REGISTRY_SKILL,
    ROUTES,
    Row,
    make_own_skill,
    make_packed,
    make_slug,
)
from .tool_rows import TOOLS
from .world import AGENT, CALLERS, OWNER, PERMITTED, STRANGERS, World, opened

PROBLEM_TYPE = "application/problem+json"
METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    folder = tmp_path_factory.mktemp("world")
    environment = {
        "HOME": str(folder),
        "PROWESS_HOME": str(folder / ".prowess"),
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SIDECAR": "off",
    }
    environment |= {"PROWESS_SYSTEM_SKILLS": "off", "PROWESS_SKILL_FOLDERS": "off"}
    with SkillsShStub().served() as registry:
        registry.add(REGISTRY_SKILL)
        environment |= {"SKILLS_API_URL": registry.url, "SKILLS_DOWNLOAD_URL": registry.url}
        settings = read_settings(environment, workspace=folder)
        with opened(Prowess.open(settings=settings, channel="http", fetcher=ScriptedFetcher())) as world:
            for caller in (OWNER, "other organization"):
                switched = "/api/v1/settings/skills_dynamic_search_enabled"
                assert world.send(caller, "PUT", switched, json={"value": True}).status_code == 200
            yield world


def documented() -> dict[str, dict[str, Any]]:
    """Return the operations of the OpenAPI document."""
    return {
        f"{method.upper()} {path}": operation
        for path, operations in make_api(cast("Engine", None)).openapi()["paths"].items()
        for method, operation in operations.items()
        if method in METHODS
    }


def fill(route: str, values: dict[str, str]) -> tuple[str, str]:
    """Return the method and the path of a route with its parameters."""
    method, path = route.split(" ")
    return method, re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: quote(values[found[1]], safe=""), path)


def send(world: World, caller: str, route: str, row: Row, values: dict[str, str]) -> Any:
    method, path = fill(route, values)
    if row.stream and expected(row, caller) < 300 and "zzz" not in path:
        return httpx2.Response(world.status_of_stream(caller, path))
    if row.about:
        return world.send(caller, method, path, **row.about(values))
    return world.send(caller, method, path, **(row.request(world) if callable(row.request) else row.request))


def expected(row: Row, caller: str) -> int:
    if row.needs == PUBLIC:
        return row.status
    if caller in STRANGERS:
        return 401
    if row.needs != ANYONE and row.needs not in PERMITTED[caller]:
        return 403
    if caller in row.exceptions:
        return row.exceptions[caller]
    if (row.owner and caller == "other organization") or (row.owner == "user" and caller not in (OWNER, AGENT)):
        return 404
    return row.status


def test_every_documented_route_has_a_row_and_takes_the_permission_that_the_row_says():
    declared = {}
    for route, operation in documented().items():
        scopes = [scope for one in operation.get("security", ()) for scopes in one.values() for scope in scopes]
        declared[route] = scopes[0] if scopes else (ANYONE if operation.get("security") else PUBLIC)

    assert declared == {route: row.needs for route, row in ROUTES.items()}


@pytest.mark.few(20)
@pytest.mark.parametrize("route", ROUTES)
def test_each_caller_gets_what_its_permissions_allow(world, route):
    row = ROUTES[route]
    values = dict(row.make(world))
    found = {}
    for caller in CALLERS:
        answer = send(world, caller, route, row, values)
        if row.once and answer.status_code < 300:
            values = dict(row.make(world))
        found[caller] = answer.status_code
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == PROBLEM_TYPE
            assert answer.json()["status"] == answer.status_code
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"].startswith("Bearer")

    assert found == {caller: expected(row, caller) for caller in CALLERS}


def unknown_like(value: str) -> str:
    """Return an id that nobody has, of the same shape and length."""
    try:
        uuid.UUID(value)
    except ValueError:
        return re.sub(r"[0-9]", "9", re.sub(r"[a-z]", "z", value))
    return str(uuid.uuid4()) if "-" in value else uuid.uuid4().hex


def normal(answer: Any, values: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """Return a response without the id that was asked for."""
    body = answer.text
    for value in values.values():
        body = body.replace(value, "ID").replace(quote(value, safe=""), "ID")
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length")}
    return answer.status_code, headers, body


@pytest.mark.few(10)
@pytest.mark.parametrize("route", [route for route, row in ROUTES.items() if row.owner])
def test_the_id_of_another_tenant_is_answered_like_an_unknown_one(world, route):
    row = ROUTES[route]
    values = dict(row.make(world))
    unknown = {
        name: value if name in ("kind", "path", "number") else unknown_like(value) for name, value in values.items()
    }
    strangers = ("other organization", "other user") if row.owner == "user" else ("other organization",)

    for caller in strangers:
        foreign = normal(send(world, caller, route, row, values), values)
        assert foreign == normal(send(world, caller, route, row, unknown), unknown)
        assert foreign[0] == 404
    # It still is there for its owner.
    assert send(world, OWNER, route, row, values).status_code == row.status


def test_what_belongs_to_one_user_is_neither_listed_nor_matched_for_another(world):
    own = make_own_skill(world)["id"]
    slug = world.do("GET", f"/api/v1/skills/{own}")["slug"]

    for caller in CALLERS:
        if caller in STRANGERS:
            continue
        listed = world.send(caller, "GET", "/api/v1/skills", params={"q": slug}).text
        assert (slug in listed) == (caller in (OWNER, AGENT)), caller


def call(world: World, caller: str, tool: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Call a tool over MCP. Return the status, and the result or the error of the protocol."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "matrix", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
    headers |= {"mcp-method": "tools/call", "mcp-name": tool}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = world.send(caller, "POST", "/mcp", json=body, headers=headers)
    if answer.status_code >= 400:
        return answer.status_code, {}
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data:")][-1].removeprefix("data:")
    message = json.loads(text)
    return answer.status_code, message.get("result") or message["error"]


def fill_arguments(world: World, tool: str, skill: str = "") -> dict[str, Any]:
    """Return the arguments of a tool: about a new skill of the organization unless one is named."""
    words = {"{skill}": make_slug, "{packed}": make_packed, "{new}": lambda world: world.name("new")}
    filled = {}
    for name, value in TOOLS[tool].arguments.items():
        make = words.get(value)
        filled[name] = value if make is None else skill or make(world)
    return filled


def test_every_tool_has_a_row():
    assert set(builtin_tools()) == set(TOOLS)


@pytest.mark.few(6)
@pytest.mark.parametrize("tool", TOOLS)
def test_each_caller_may_call_the_tools_that_its_permissions_allow(world, tool):
    refused = {}
    for caller in CALLERS:
        status, result = call(world, caller, tool, fill_arguments(world, tool))
        if caller in STRANGERS:
            assert (caller, status) == (caller, 401)
            continue
        refused[caller] = '"code": "refused"' in json.dumps(result)

    assert refused == {caller: TOOLS[tool].needs not in PERMITTED[caller] for caller in CALLERS if caller in PERMITTED}


@pytest.mark.few(4)
@pytest.mark.parametrize("tool", [name for name, row in TOOLS.items() if row.names_skill])
def test_a_tool_answers_about_the_skill_of_another_organization_as_about_none(world, tool):
    slug = make_slug(world)
    unknown = unknown_like(slug)

    foreign = call(world, "other organization", tool, fill_arguments(world, tool, slug))
    missing = call(world, "other organization", tool, fill_arguments(world, tool, unknown))

    assert json.dumps(foreign).replace(slug, "ID") == json.dumps(missing).replace(unknown, "ID")
