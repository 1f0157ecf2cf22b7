"""The server does what its OpenAPI document says: no request that Schemathesis can think of breaks it."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

import httpx2
import pytest
import uvicorn
from starlette.types import ASGIApp
from tests.sources.registry_stubs import ClawHubStub, SkillsShStub

from prowess.client.transport import read_json
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.listener import GuardedProtocol, open_listener
from prowess.interfaces.rest.app import OPENAPI_PATH
from prowess.interfaces.rest.problems import API, REQUESTS, hint_for_requests
from prowess.interfaces.rest.request import respond
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor

# Long values are no problem here, and the `random` that Hypothesis warns of is used by the server, in its own thread.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")

TOKEN = "secret"
ME = Actor(name="me", channel="http")


@contextmanager
def served(app: ASGIApp) -> Generator[str]:
    """Serve an app on a free port of this machine, in a thread."""
    listener = open_listener("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(app, http=GuardedProtocol, lifespan="on", log_level="error", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


def tried(url: str, *, examples: int) -> list[str]:
    """Send requests of all phases to a server, and return what failed."""
    # Imported only here: it takes a second, which each process that collects this file would wait for.
    import schemathesis
    from schemathesis.engine import Status, events, from_schema

    settings = {
        "auth": {"openapi": {"token": {"bearer": TOKEN}}},
        "generation": {"max-examples": examples, "deterministic": True, "database": "none"},
        "checks": {
            # What a schema allows may still break a rule that it cannot express, such as the names of settings.
            "positive_data_acceptance": {"enabled": False},
            "negative_data_rejection": {"expected-statuses": ["4xx"]},
        },
        # Validation reports what is wrong with whatever is uploaded, and a time may be given in seconds.
        "operations": [
            {
                "include-path-regex": "^/api/v1/(skills/validate|stats|traces.*)$",
                "checks": {"negative_data_rejection": {"enabled": False}},
            },
            # No model is configured here, and no connector can be reached, which is answered with 502 or 503.
            {
                "include-path-regex": "^/api/v1/(compositions|connectors/.*/(tools|call|allowed))$",
                "checks": {"not_a_server_error": {"enabled": False}},
            },
        ],
        "request-timeout": 30,
        "max-failures": 20,
    }
    config = schemathesis.Config.from_dict(settings)
    schema = schemathesis.openapi.from_url(f"{url}{OPENAPI_PATH}", config=config, timeout=60)
    # A stream of events does not end by itself.
    schema = schema.exclude(path_regex=r"/events$", method="GET")
    problems: list[str] = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished) and event.status in (Status.FAILURE, Status.ERROR):
            for checks in event.recorder.checks.values():
                problems += [
                    f"{event.phase.value}: {event.recorder.label}: {check.name}: {check.failure_info.failure}\n"
                    f"  {check.failure_info.code_sample}"
                    for check in checks
                    if check.failure_info is not None
                ]
        elif isinstance(event, events.NonFatalError):
            problems.append(f"{event.label}: {event.value!r}")
        elif isinstance(event, events.FatalError):
            raise event.exception
    return problems


def expect_none(problems: list[str]) -> None:
    if problems:
        pytest.fail("\n".join([f"{len(problems)} problems", *problems]), pytrace=False)


@pytest.fixture
def url(place) -> Generator[str]:
    with SkillsShStub().served() as skills_sh, ClawHubStub().served() as clawhub:
        urls = {"SKILLS_API_URL": skills_sh.url, "SKILLS_DOWNLOAD_URL": skills_sh.url, "CLAWHUB_REGISTRY": clawhub.url}
        engine = replace(place, environment={**place.environment, **urls}).open(ME)
        app = make_app(engine, callers=known_tokens({TOKEN: Caller(actor=ME)}), keys=[b"k" * 32])
        with served(app) as address:
            yield address
        asyncio.run(engine.close())


@pytest.mark.long
def test_every_response_to_generated_requests_is_one_that_the_document_describes(url):
    expect_none(tried(url, examples=10))


def test_a_wrong_path_is_answered_with_where_the_routes_are(client):
    answer = client.get("/api/v1/skils")
    assert (answer.status_code, answer.json()["code"]) == (404, "no-such-route")
    assert answer.json()["detail"] == "No such route."
    assert "/api/v1/openapi.json" in answer.json()["hint"]


def test_a_browser_gets_a_page_for_a_wrong_address(client):
    answer = client.get("/skils", headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/api/v1/skills", "GET, POST"),
        ("PUT", "/api/v1/match", "POST"),
        ("POST", "/api/v1/skills/notes/files/references/a.md", "GET"),
        ("DELETE", "/healthz", "GET"),
    ],
)
def test_a_wrong_method_is_answered_with_the_right_ones(client, method, path, allowed):
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert answer.headers["allow"] == allowed.replace("GET", "GET, HEAD")
    assert answer.json()["detail"] == f"{method} is not allowed here."
    assert answer.json()["hint"] == f"Use {allowed}."


def test_the_methods_that_a_wrong_one_is_answered_with_are_those_of_the_document(client):
    paths = client.get(OPENAPI_PATH).json()["paths"]
    plain = {path: sorted(method.upper() for method in methods) for path, methods in paths.items() if "{" not in path}
    asked = {path: methods for path, methods in plain.items() if "PATCH" not in methods}
    assert len(asked) > 30
    told = {path: client.request("PATCH", path).headers.get("allow") for path in asked}
    assert told == {path: ", ".join(methods).replace("GET", "GET, HEAD") for path, methods in asked.items()}


@pytest.mark.parametrize("path", ["/", "/sign-in", "/healthz", "/assets/icon.svg", f"{API}/skills", f"{API}/skills/no"])
@pytest.mark.parametrize("token", ["secret", "wrong"])
def test_head_is_answered_as_get_without_a_body(client, path, token):
    headers = {"authorization": f"Bearer {token}"}
    head, get = client.head(path, headers=headers), client.get(path, headers=headers)
    assert (head.status_code, dict(head.headers)) == (get.status_code, dict(get.headers))
    assert get.content
    assert head.content == b""


def test_a_query_parameter_that_a_route_does_not_have_is_answered_with_those_that_it_has(client):
    operations = [
        (method, path, operation)
        for path, methods in client.get(OPENAPI_PATH).json()["paths"].items()
        for method, operation in methods.items()
        if operation.get("security")
    ]
    assert len(operations) > 100
    for method, path, operation in operations:
        documented = sorted(one["name"] for one in operation.get("parameters", ()) if one["in"] == "query")
        answer = client.request(method, path.replace("{", "").replace("}", ""), params={"colour": "red"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid"), (method, path)
        assert answer.json()["detail"] == "This route has no query parameter 'colour'."
        assert answer.json()["hint"] == (f"It has: {', '.join(documented)}." if documented else "It has none.")


def test_a_misspelt_query_parameter_is_answered_with_the_right_one(client):
    answer = client.get("/api/v1/skills", params={"limt": "3", "cursor": ""}).json()
    (problem,) = answer["problems"]
    assert (problem["field"], problem["hint"]) == ("query.limt", "Did you mean 'limit'?")


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/sign-in", "/api/v1/docs", OPENAPI_PATH])
def test_pages_and_health_take_any_query(client, path):
    assert client.get(path, params={"colour": "red"}).status_code == 200


def test_a_caller_without_the_permission_learns_nothing_about_parameters(serve):
    scout = Actor(name="scout", channel="http", permissions=frozenset({"skills.read"}))
    assert serve(scout).get("/api/v1/audit", params={"colour": "red"}).status_code == 403


def test_every_request_that_a_hint_names_is_in_the_document(client):
    paths = client.get(OPENAPI_PATH).json()["paths"]
    known = {f"{method.upper()} {blank(path)}" for path, methods in paths.items() for method in methods}
    named = {command: blank(request.replace(" ", f" {API}")) for command, request in REQUESTS.items()}
    assert {command: request for command, request in named.items() if request not in known} == {}


def blank(path: str) -> str:
    """Return a path without the names of its parts."""
    return re.sub(r"\{[^}]*\}", "{}", path)


@pytest.mark.parametrize(
    ("hint", "request_hint"),
    [
        ("Run `prowess list` to see all skills.", "Send `GET /api/v1/skills` to see all skills."),
        ("See `prowess jobs show nightly`.", "See `GET /api/v1/jobs/nightly`."),
        ("Add some with `prowess import PATH`.", "Add some with `POST /api/v1/skills/import`."),
        ("`prowess load a b`, then `prowess doctor`.", "`POST /api/v1/skills/a/load`, then `prowess doctor`."),
        ("Run `prowess enable notes`.", "Send `POST /api/v1/sessions/{session}/enable`."),
        ("`prowess show SLUG` lists them.", "`GET /api/v1/skills/{id}` lists them."),
        ("`prowess policy set roots '[]'`.", "`PUT /api/v1/settings/roots`."),
    ],
)
def test_a_hint_names_requests_instead_of_commands(hint, request_hint):
    assert hint_for_requests(hint) == request_hint


def test_an_error_has_the_request_to_send_and_the_command_for_clients_that_are_a_shell(client):
    answer = client.get("/api/v1/skills/nothing-like-it").json()
    assert "/api/v1/skills" in answer["hint"]
    assert "`prowess " not in answer["hint"]
    assert "`prowess " in answer["command_hint"]


def test_errors_inside_a_response_name_requests_too():
    error = {"code": "not-found", "message": "No skill.", "hint": "Run `prowess list`."}
    output = {"hint": "Run `prowess list`.", "text": "Run `prowess list`."}
    answer = json.loads(respond({"items": [{"error": error, "output": output}]}).body)
    named = {**error, "hint": "Send `GET /api/v1/skills`.", "command_hint": error["hint"]}
    assert answer == {"items": [{"error": named, "output": output}]}
    # The client is used where there is a shell.
    assert read_json(httpx2.Response(200, json=answer)) == {"items": [{"error": error, "output": output}]}
