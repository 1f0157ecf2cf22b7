"""Agentcy: the sources of its page over HTTP, with the requests as they are printed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.sources.registry_stubs import SkillsShStub

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.server import make_app
from prowess.open import Prowess
from prowess.settings import read_settings
from prowess.skill.package import Package
from prowess.sources.scripted import ScriptedFetcher, make_fetched

from .test_agentcy_rest import ANN, TOKEN, curl

REPOSITORY = "https://github.com/acme/runbooks.git"
URL = "https://example.com/skill.md"
HEADERS = {"authorization": f"Bearer {TOKEN}"}


def package(slug: str, body: str = "Drain it first.") -> Package:
    return Package.of_texts(slug, {"SKILL.md": f"---\nname: {slug}\ndescription: About {slug}.\n---\n\n{body}\n"})


@pytest.fixture
def upstream() -> ScriptedFetcher:
    packages = {f"skills/{slug}": package(slug) for slug in ("restart-db", "rotate-keys")}
    return ScriptedFetcher(
        {REPOSITORY: make_fetched(REPOSITORY, packages), URL: make_fetched(URL, {"": package("one-off")})}
    )


@pytest.fixture
def client(each_place: Any, upstream: ScriptedFetcher) -> Generator[TestClient]:
    engine = Prowess.open(settings=read_settings(each_place.environment), actor=ANN, fetcher=upstream)
    app = make_app(engine, callers=known_tokens({TOKEN: Caller(actor=ANN)}), keys=[b"k" * 32], hosts=("testserver",))
    with TestClient(app, headers=HEADERS, raise_server_exceptions=False) as client:
        yield client
    asyncio.run(engine.close())


def printed_source(printed: Any) -> str:
    return printed("agentcy", "parses every .md file into a skill row.\nbash\n", "Sync triggers:")


def test_the_printed_command_creates_the_printed_source_and_syncs_it(client: TestClient, printed: Any) -> None:
    command = printed_source(printed)
    sent = json.loads(command.partition("-d '")[2].rpartition("'")[0])

    answer = curl(client, command)

    assert answer.status_code == 201, answer.text
    source = answer.json()
    for field in ("name", "source_type", "config"):
        assert source[field] == sent[field]
    assert (source["organization_id"], source["enabled"], source["last_sync_at"]) == ("acme", True, None)
    assert client.get(answer.headers["location"]).json() == source

    synced = client.post(f"/api/v1/skills/sources/{source['id']}/sync")

    assert synced.status_code == 200, synced.text
    assert (synced.json()["status"], synced.json()["counts"]) == ("ok", {"added": 2})
    rows = client.get("/api/v1/skills", params={"source_id": source["id"]}).json()["items"]
    assert [row["slug"] for row in rows] == ["restart-db", "rotate-keys"]
    for row in rows:
        assert (row["source_type"], row["source_id"], row["scope"]) == ("github", source["id"], "org")
        assert row["source_url"] == f"https://github.com/acme/runbooks/tree/main/skills/{row['slug']}"
        assert row["source_ref"]
    after = client.get(f"/api/v1/skills/sources/{source['id']}").json()
    assert (after["last_sync_status"], after["last_sync_error"]) == ("ok", None)
    assert after["last_sync_at"]


def test_the_printed_url_source_is_fetched_on_sync(client: TestClient, printed: Any) -> None:
    sent = json.loads(printed("agentcy", "Re-fetched on sync.\njson\n", "marketplace — installed"))

    source = client.post("/api/v1/skills/sources", json={"name": "a runbook", **sent}).json()
    synced = client.post(f"/api/v1/skills/sources/{source['id']}/sync").json()

    assert synced["counts"] == {"added": 1}
    assert client.get("/api/v1/skills/one-off").json()["source_type"] == "url"


def test_every_printed_route_of_sources_answers(client: TestClient, printed: Any) -> None:
    table = printed("agentcy", "| Method | Path | Purpose |\n", "Gotchas")
    routes = re.findall(r"^\| (GET|POST|PUT|DELETE) \| (/api/v1/skills/sources\S*) \|", table, re.MULTILINE)
    made = curl(client, printed_source(printed)).json()
    bodies = {
        ("POST", "/api/v1/skills/sources"): {"name": "b", "source_type": "github", "config": {"repo": "acme/runbooks"}},
        ("PUT", "/api/v1/skills/sources/{id}"): {"name": "renamed"},
    }

    statuses: dict[tuple[str, str], int] = {}
    for method, path in sorted(routes, key=lambda route: route[0] == "DELETE"):
        answer = client.request(method, path.replace("{id}", made["id"]), json=bodies.get((method, path)))
        statuses[method, path] = answer.status_code

    assert len(routes) == 6
    assert statuses == dict.fromkeys(routes, 200) | {
        ("POST", "/api/v1/skills/sources"): 201,
        ("DELETE", "/api/v1/skills/sources/{id}"): 204,
    }
    assert client.get(f"/api/v1/skills/sources/{made['id']}").status_code == 404
    assert client.get("/api/v1/skills/restart-db").status_code == 200


def test_the_bulk_route_syncs_what_is_past_its_interval(client: TestClient, upstream: ScriptedFetcher) -> None:
    config = {"repo": "acme/runbooks", "sync_interval_minutes": 360}
    body = {"name": "a", "source_type": "github", "config": config}
    source = client.post("/api/v1/skills/sources", json=body).json()

    first = client.post("/api/v1/skills/sources/sync-stale").json()["items"]
    second = client.post("/api/v1/skills/sources/sync-stale").json()["items"]

    assert [(one["source_id"], one["status"]) for one in first] == [(source["id"], "ok")]
    assert second == []
    assert upstream.fetches == [REPOSITORY]


def test_a_skill_is_installed_from_its_address_without_its_content(client: TestClient) -> None:
    body = {"source_type": "github", "source_url": "https://github.com/acme/runbooks", "slug": "restart-db"}

    several = client.post("/api/v1/skills", json={**body, "slug": None})
    installed = client.post("/api/v1/skills", json=body)
    again = client.post("/api/v1/skills", json=body)
    written = client.post(
        "/api/v1/skills", json={"content": "---\nname: restart-db\ndescription: Mine.\n---\n\nMine.\n"}
    )
    one = client.post("/api/v1/skills", json={"source_type": "url", "source_url": URL, "scope": "user"})
    missing = client.post("/api/v1/skills", json={"source_type": "url", "source_url": "https://example.com/x.md"})

    assert several.status_code == 409
    assert "rotate-keys" in several.json()["hint"]
    assert (installed.status_code, installed.json()["source_type"], installed.json()["trust"]) == (
        201,
        "github",
        "synced",
    )
    # From its own address it is updated; another skill of that slug is a conflict.
    assert again.json() == installed.json()
    assert written.status_code == 409
    assert (one.status_code, one.json()["scope"], one.json()["user_id"]) == (201, "user", "ann")
    assert missing.status_code == 404
    assert client.post("/api/v1/skills", json={"source_type": "manual"}).status_code == 422
    assert client.post("/api/v1/skills", json={**body, "name": "Mine"}).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "source_type": "ftp", "config": {}},
        {"name": "x", "source_type": "github", "config": {}},
        {"name": "x", "source_type": "github", "config": {"repo": "acme/runbooks", "sync_interval_minutes": "often"}},
        {"name": "x", "source_type": "github", "config": {"repo": "acme/runbooks"}, "last_sync_status": "ok"},
        {"name": "x", "source_type": "github", "config": {"repo": "file:///etc/repo.git"}},
        {"name": "x", "source_type": "url", "config": {"url": "http://example.com/skill.md"}},
    ],
)
def test_what_cannot_be_a_source_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    assert client.post("/api/v1/skills/sources", json=body).status_code == 422


def test_a_skill_of_the_registry_is_installed_by_its_page(place: Any) -> None:
    """`{ "source_type": "marketplace", "source_url": "https://skills.sh/…" }`."""
    with SkillsShStub().served() as registry:
        registry.add("acme/runbooks/triage")
        registry.add("zed/tools/triage")
        environment = {**place.environment, "SKILLS_API_URL": registry.url, "SKILLS_DOWNLOAD_URL": registry.url}
        engine = Prowess.open(settings=read_settings(environment), actor=ANN)
        callers = known_tokens({TOKEN: Caller(actor=ANN)})
        app = make_app(engine, callers=callers, keys=[b"k" * 32], hosts=("testserver",))
        body = {"source_type": "marketplace", "source_url": "https://skills.sh/acme/runbooks/triage"}
        with TestClient(app, headers=HEADERS, raise_server_exceptions=False) as client:
            installed = client.post("/api/v1/skills", json=body)
            again = client.post("/api/v1/skills", json=body)
            other = client.post("/api/v1/skills", json={**body, "source_url": "https://skills.sh/zed/tools/triage"})
            elsewhere = client.post("/api/v1/skills", json={**body, "source_url": "https://example.com/triage"})
        asyncio.run(engine.close())

    assert installed.status_code == 201, installed.text
    found = installed.json()
    assert (found["slug"], found["source_type"], found["trust"]) == ("triage", "marketplace", "synced")
    assert found["source_url"] == body["source_url"]
    assert again.json() == found
    assert other.status_code == 409
    assert elsewhere.status_code == 422
