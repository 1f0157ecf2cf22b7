"""Approvals over HTTP: asked once, shown whole, answered once by a person."""

from __future__ import annotations

import hashlib

import pytest

from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
AGENT = agent_of(ANN, name="helper")


async def ask(site):
    site.write("triage", "Check the locks.", front='version: "1.0.0"\n')
    await site.send("PUT", "/settings/skill_enablement_policy", ANN, json={"value": "prompt-user"})
    await site.post("/sessions", {"conversation": "c"}, AGENT)
    problem = await site.post("/sessions/c/enable", {"skill_slug": "triage", "reason": "slow"}, AGENT, status=403)
    assert problem["code"] == "approval-required"
    return problem["approval_id"]


async def test_an_approval_is_answered_as_the_page_has_it_and_the_skill_enters_the_prompt(site):
    asked = await ask(site)
    (listed,) = (await site.get("/approvals?state=pending", ANN))["items"]
    assert (listed["id"], listed["reason"], listed["slug"]) == (asked, "slow", "triage")

    answered = await site.post(f"/approvals/{asked}", {"approved": True}, ANN)
    assert (answered["state"], answered["resolver"]) == ("approved", "ann")
    await site.post("/sessions/c/enable", {"skill_slug": "triage"}, AGENT)
    assert "Check the locks." in (await site.get("/sessions/c/prompt", AGENT))["text"]


async def test_everything_that_a_person_needs_is_shown_and_nothing_is_cut(site):
    asked = await ask(site)
    shown = await site.get(f"/approvals/{asked}", ANN)

    assert f"sha256 {shown['digest']}" in shown["card"]
    assert "Reason given: slow" in shown["card"]
    assert shown["card_sha256"] == hashlib.sha256(shown["card"].encode()).hexdigest()
    (file,) = shown["files"]
    assert file["path"] == "SKILL.md"
    assert "Check the locks." in file["text"]


async def test_changed_bytes_are_shown_as_a_difference(site):
    await site.post(f"/approvals/{await ask(site)}", {"approved": True}, ANN)
    await site.post("/sessions/c/enable", {"skill_slug": "triage"}, AGENT)
    await site.post("/sessions/c/disable", {"skill_slug": "triage"}, AGENT)
    site.write("triage", "Check nothing.")
    problem = await site.post("/sessions/c/enable", {"skill_slug": "triage"}, AGENT, status=403)

    shown = await site.get(f"/approvals/{problem['approval_id']}", ANN)
    assert "-Check the locks." in shown["diff"]
    assert "+Check nothing." in shown["diff"]


async def test_an_agent_sees_its_request_without_the_files_and_cannot_answer(site):
    asked = await ask(site)
    shown = await site.get(f"/approvals/{asked}", AGENT)
    assert shown["files"] is None
    assert shown["diff"] == ""
    assert "Check the locks." not in str(shown)

    assert (await site.post(f"/approvals/{asked}", {"approved": True}, AGENT, status=403))["code"] == "refused"
    assert (await site.post(f"/approvals/{asked}/revoke", {}, AGENT, status=403))["code"] == "refused"
    assert (await site.get(f"/approvals/{asked}", ANN))["state"] == "pending"


async def test_a_second_answer_is_a_conflict_that_says_the_outcome(site):
    asked = await ask(site)
    await site.post(f"/approvals/{asked}", {"approved": False, "note": "not here"}, ANN)

    problem = await site.post(f"/approvals/{asked}", {"approved": True}, ANN, status=409)
    assert "refused by ann" in problem["detail"]
    assert (await site.get(f"/approvals/{asked}", ANN))["state"] == "denied"


@pytest.mark.parametrize("value", ["true", "false", 1, None, [True]])
async def test_only_true_and_false_are_answers(site, value):
    asked = await ask(site)
    assert (await site.send("POST", f"/approvals/{asked}", ANN, json={"approved": value})).status_code == 422
    assert (await site.get(f"/approvals/{asked}", ANN))["state"] == "pending"


async def test_the_audit_has_the_channel_and_the_text_that_was_shown(site):
    asked = await ask(site)
    shown = await site.get(f"/approvals/{asked}", ANN)
    wrong = {"approved": True, "shown": "0" * 64}
    assert (await site.post(f"/approvals/{asked}", wrong, ANN, status=409))["code"] == "conflict"

    await site.post(f"/approvals/{asked}", {"approved": True, "shown": shown["card_sha256"]}, ANN)
    rows = await site.engine.as_actor(ANN).audit.rows()
    (answer,) = [row for row in rows if row.action == "approve"]
    assert answer.detail["channel"] == "http"
    assert answer.detail["shown_sha256"] == shown["card_sha256"]


async def test_a_revoked_approval_takes_the_skill_out_of_the_prompt(site):
    asked = await ask(site)
    await site.post(f"/approvals/{asked}", {"approved": True}, ANN)
    await site.post("/sessions/c/enable", {"skill_slug": "triage"}, AGENT)

    assert (await site.post(f"/approvals/{asked}/revoke", {"note": "mistake"}, ANN))["state"] == "revoked"
    assert (await site.get("/sessions/c/prompt", AGENT))["text"] == ""


async def test_an_approval_of_another_organization_is_unknown(site):
    asked = await ask(site)
    eve = Actor(name="eve", organization="other", user="eve", channel="http")

    for method, path, body in (("GET", "", None), ("POST", "", {"approved": True}), ("POST", "/revoke", {})):
        foreign = await site.send(method, f"/approvals/{asked}{path}", eve, json=body)
        unknown = await site.send(method, f"/approvals/{'0' * 36}{path}", eve, json=body)
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.text.replace(asked, "ID") == unknown.text.replace("0" * 36, "ID")
