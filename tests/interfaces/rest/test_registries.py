"""The registry endpoints of the page of Agentcy, over HTTP and through the client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.sources.registry_stubs import Answer, SkillsShStub, skill_md

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor, agent_of

ME = Actor(name="me", channel="http")
POSTGRES = "acme/runbooks/postgres-triage"
PATH = "/api/v1/skills/registry"


@pytest.fixture
def registry() -> Iterator[SkillsShStub]:
    with SkillsShStub().served() as stub:
        stub.add(POSTGRES, files={"SKILL.md": skill_md("postgres-triage", "Find out why PostgreSQL is slow.")})
        stub.trending = [POSTGRES]
        yield stub
        assert stub.refused == []


@pytest.fixture
def api(place: Any, registry: SkillsShStub) -> Iterator[Any]:
    """Return a function that sends a request as a person, or as an agent."""
    urls = {"SKILLS_API_URL": registry.url, "SKILLS_DOWNLOAD_URL": registry.url}
    engine = replace(place, environment={**place.environment, **urls}).open(ME)
    callers = known_tokens({"person": Caller(actor=ME), "agent": Caller(actor=agent_of(ME))})
    with TestClient(make_app(engine, callers=callers, keys=[b"k" * 32], hosts=("testserver",))) as client:
        yield lambda method, path, token="person", **more: client.request(
            method, path, headers={"authorization": f"Bearer {token}"}, **more
        )
    asyncio.run(engine.close())


def test_the_registry_is_searched_as_on_the_page(api: Any):
    found = api("GET", f"{PATH}/search?q=postgres")
    assert found.status_code == 200
    (skill,) = found.json()["skills"]
    assert (skill["id"], skill["url"]) == (POSTGRES, f"https://skills.sh/{POSTGRES}")
    assert api("GET", f"{PATH}/trending").json()["skills"][0]["trending"] == 1
    shown = api("GET", f"{PATH}/metadata", params={"id": POSTGRES}).json()
    assert (shown["slug"], shown["entry"]["id"], shown["ok"]) == ("postgres-triage", POSTGRES, True)
    parts = {"source": "acme/runbooks", "skill_id": "postgres-triage"}
    assert api("GET", f"{PATH}/metadata", params=parts).json() == shown


def test_an_agent_searches_only_where_that_is_turned_on_and_reads_nothing_unseen(api: Any, registry: SkillsShStub):
    assert api("GET", f"{PATH}/search?q=postgres", "agent").status_code == 403
    assert registry.requests == []
    api("PUT", "/api/v1/settings/skills_dynamic_search_enabled", json={"value": True})
    (skill,) = api("GET", f"{PATH}/search?q=postgres", "agent").json()["skills"]
    assert (skill["id"], skill["name"], skill["why"]) == (POSTGRES, "", "")
    assert api("GET", f"{PATH}/metadata", "agent", params={"id": POSTGRES}).status_code == 403


@pytest.mark.parametrize(
    ("query", "status"),
    [("search", 422), ("search?q=", 422), ("search?q=postgres&limit=0", 422), ("search?q=x&registry=nowhere", 422),
     ("metadata", 422), ("metadata?id=../../x", 422), ("metadata?id=acme/runbooks/nothing", 404)],
)  # fmt: skip
def test_a_wrong_request_is_a_problem(api: Any, query: str, status: int):
    answer = api("GET", f"{PATH}/{query}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_registry_that_asks_to_wait_is_503_with_retry_after(api: Any, registry: SkillsShStub):
    registry.faults["/api/search"] = Answer({"error": "slow down"}, 429, {"retry-after": "9"})
    answer = api("GET", f"{PATH}/search?q=postgres")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "9")


def test_a_skill_is_installed_as_on_the_page(api: Any, registry: SkillsShStub):
    shown = api("GET", f"{PATH}/metadata", params={"id": POSTGRES}).json()
    body = {"source_type": "marketplace", "source_url": shown["entry"]["url"], "scope": "account"}
    assert api("POST", "/api/v1/skills", "agent", json=body).status_code == 403
    made = api("POST", "/api/v1/skills", json={**body, "digest": shown["digest"]})
    assert made.status_code == 201
    row = made.json()
    assert (row["slug"], row["source_type"], row["trust"]) == ("postgres-triage", "marketplace", "synced")
    assert row["source_url"] == f"https://skills.sh/{POSTGRES}"
    assert api("POST", "/api/v1/skills", json=body).json()["digest"] == row["digest"]
    registry.add("zed/tools/postgres-triage")
    assert api("POST", "/api/v1/skills", json={**body, "source_url": "zed/tools/postgres-triage"}).status_code == 409
    registry.add("acme/runbooks/other")
    wrong = {**body, "source_url": "acme/runbooks/other", "digest": "0" * 64}
    assert api("POST", "/api/v1/skills", json=wrong).status_code == 409
    assert api("POST", "/api/v1/skills", json={**body, "source_url": "https://example.org/x"}).status_code == 422
