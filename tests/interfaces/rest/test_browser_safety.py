"""Nothing that a browser can be made to send is routed: every route of the API, and the others, before any of them runs."""

from __future__ import annotations

import re

import pytest

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.rest.app import PUBLIC_PATHS
from prowess.policy.actor import Actor

FOREIGN = [
    ({"host": "evil.example"}, 421, "unknown-host"),
    ({"host": "testserver.evil.example"}, 421, "unknown-host"),
    ({"host": "testserver@evil.example"}, 421, "unknown-host"),
    ({"origin": "http://evil.example"}, 403, "origin-not-allowed"),
    ({"origin": "null"}, 403, "origin-not-allowed"),
    ({"origin": "http://testserver:81"}, 403, "origin-not-allowed"),
    ({"content-type": "text/plain"}, 415, "unsupported-media-type"),
    ({"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported-media-type"),
    ({"content-type": "multipart/form-data; boundary=x"}, 415, "unsupported-media-type"),
    ({"content-type": ""}, 415, "unsupported-media-type"),
]
OPERATION = ("/", "/sign-in", "/assets/prowess.css", "/api/v1/docs", "/api/v1/openapi.json", "/no-such-route")


@pytest.fixture
def document(client):
    """Return the OpenAPI document."""
    return client.get("/api/v1/openapi.json").json()


@pytest.fixture
def routes(document):
    """Return the method and path of every route, with ids that no skill has."""
    described = [
        (method.upper(), re.sub(r"\{.*?\}", "nothing", path))
        for path, methods in document["paths"].items()
        for method in methods
    ]
    return [*described, *(("GET", path) for path in OPERATION), ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp")]


@pytest.mark.few(3)
@pytest.mark.parametrize(("headers", "status", "code"), FOREIGN)
def test_a_foreign_host_origin_or_content_type_is_refused_on_every_route_before_routing(
    client, routes, headers, status, code
):
    for method, path in routes:
        answer = client.request(method, path, headers=headers, content=b"{}")
        assert answer.status_code == status, (method, path)
        if path != "/mcp":
            assert answer.json()["code"] == code
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_request_of_another_page_without_an_origin_has_no_effect(client, routes):
    for method, path in routes:
        if method != "GET":
            answer = client.request(method, path, headers={"sec-fetch-site": "cross-site"})
            assert (answer.status_code) == 403, (method, path)


def test_no_route_changes_anything_on_get(document):
    assert all("requestBody" not in methods.get("get", {}) for methods in document["paths"].values())


@pytest.mark.few(1)
def test_every_response_has_the_headers_that_protect_a_browser(client, routes):
    for method, path in routes:
        if (method, path) == ("GET", "/mcp") or path.endswith("/events"):
            continue  # streams
        answer = client.request(method, path, headers={"authorization": ""})
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == ("max-age=300" if path.startswith("/assets/") else "no-store")


def test_the_pages_contain_no_script_and_no_style_and_load_nothing_from_elsewhere(client):
    client.headers.pop("authorization")
    for path in ("/", "/skills/any", "/sign-in", "/api/v1/docs"):
        page = client.get(path).text
        assert not re.search(
            r"<script(?! src=\"/assets/| type=\"module\" crossorigin src=\"/app/)|<style|style=| on\w+=|<form", page
        )
        assets = re.findall(r'(?:src|href)="([^"#]+)"', page)
        assert all(asset.startswith("/") for asset in assets)
        for asset in assets:
            if asset.startswith("/assets/"):
                answer = client.get(asset)
                assert answer.status_code == 200
                assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)


def test_without_a_token_every_route_but_the_public_ones_answers_401(client, routes):
    for method, path in routes:
        if path not in PUBLIC_PATHS:
            answer = client.request(method, path, headers={"authorization": ""})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), (method, path)


def test_a_token_in_a_cookie_counts_only_on_pages_of_the_server(serve):
    client = serve(cookies={"session": Caller(actor=Actor(name="ann", channel="http"))})
    client.headers.pop("authorization")
    client.cookies.set("prowess_session", "session")
    path = "/api/v1/settings/approval_days"

    def change(**headers: str) -> int:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.put(path, json={"value": 3}, headers=given).status_code

    assert change(origin="http://testserver") == 200
    assert change(sec_fetch_site="same-origin") == 200
    assert change() == 401
    assert change(sec_fetch_site="none") == 401
    assert change(sec_fetch_site="same-site") == 403
    assert client.get("/api/v1/settings").status_code == 200
    assert client.get("/api/v1/settings", headers={"sec-fetch-site": "same-site"}).status_code == 401


def test_a_wrong_token_is_not_replaced_by_a_cookie(serve):
    client = serve(cookies={"session": Caller(actor=Actor(name="ann", channel="http"))})
    client.cookies.set("prowess_session", "session")
    assert client.get("/api/v1/settings", headers={"authorization": "Bearer wrong"}).status_code == 401


def test_a_page_that_the_operator_allows_may_ask_and_read_but_never_with_cookies(serve):
    client = serve(origins=("https://tools.example",), cookies={"session": Caller(actor=Actor(name="ann"))})
    page = {"origin": "https://tools.example"}
    asked = client.options(
        "/api/v1/settings",
        headers={
            **page,
            "authorization": "",
            "access-control-request-method": "PUT",
            "access-control-request-headers": "x",
        },
    )
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == "https://tools.example"
    assert "access-control-allow-credentials" not in asked.headers
    assert asked.headers["access-control-allow-headers"] == "x"

    answer = client.get("/api/v1/settings", headers=page)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://tools.example")
    assert "access-control-allow-origin" not in client.get("/api/v1/settings").headers
    client.cookies.set("prowess_session", "session")
    assert client.get("/api/v1/settings", headers={**page, "authorization": ""}).status_code == 401
    other = {"origin": "https://evil.example", "access-control-request-method": "PUT"}
    assert client.options("/api/v1/settings", headers=other).status_code == 403


def test_behind_a_proxy_the_public_address_is_the_servers_own(serve):
    client = serve(public_url="https://skills.example")
    answer = client.get("/api/v1/settings", headers={"host": "skills.example"})
    assert answer.headers["strict-transport-security"].startswith("max-age=")
    assert client.get("/api/v1/settings", headers={"origin": "https://skills.example"}).status_code == 200
    assert client.get("/api/v1/settings", headers={"origin": "http://skills.example"}).status_code == 403
