"""Trust over HTTP: skills that were found are accepted by their exact content, by a person who saw it."""

from __future__ import annotations

import pytest

from prowess.policy.actor import agent_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def found(site_with):
    """A server with a skill that nobody has accepted."""
    async with site_with(PROWESS_TRUSTED_FOLDERS="") as site:
        site.write("triage", "Check the locks.")
        yield site


async def test_a_found_skill_is_shown_accepted_and_revoked(found):
    (listed,) = (await found.get("/trust/found"))["items"]
    assert listed["slug"] == "triage"
    shown = await found.get("/trust/found/triage")
    assert f"Content: sha256 {shown['digest']}" in shown["card"]
    assert "Check the locks." in shown["content"][0]["text"]

    content = {"slug": "triage", "digest": shown["digest"], "shown": shown["card_sha256"]}
    assert await found.post("/trust", {"skills": [content]}) == {"accepted": ["triage"], "changed": []}
    assert (await found.get("/trust/found"))["items"] == []
    (kept,) = (await found.get("/trust"))["items"]
    assert (kept["digest"], kept["channel"]) == (shown["digest"], "http")

    assert (await found.send("DELETE", "/trust/triage")).json() == {"revoked": 1}
    assert len((await found.get("/trust/found"))["items"]) == 1


async def test_other_content_than_was_shown_is_not_accepted(found):
    shown = await found.get("/trust/found/triage")
    wrong = {"slug": "triage", "digest": shown["digest"], "shown": "0" * 64}
    assert (await found.post("/trust", {"skills": [wrong]}))["changed"] == ["triage"]

    found.write("triage", "Delete everything.")
    late = {"slug": "triage", "digest": shown["digest"], "shown": shown["card_sha256"]}
    assert await found.post("/trust", {"skills": [late]}) == {"accepted": [], "changed": ["triage"]}
    assert (await found.get("/trust"))["items"] == []


async def test_an_agent_neither_sees_nor_accepts_found_skills(found):
    agent = agent_of(found.engine.actor, name="helper")
    content = {"slug": "triage", "digest": "0" * 64}
    assert (await found.send("GET", "/trust/found", agent)).status_code == 403
    assert (await found.send("POST", "/trust", agent, json={"skills": [content]})).status_code == 403
    assert (await found.send("DELETE", "/trust/triage", agent)).status_code == 403


@pytest.mark.parametrize("target", ["~", "..", "/etc", "a/b"])
async def test_a_path_on_the_server_is_not_an_address(found, target):
    body = {"skills": [{"slug": target, "digest": "0" * 64}]}
    assert (await found.send("POST", "/trust", json=body)).status_code == 422
