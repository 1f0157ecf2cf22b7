"""Skills are drafted, refined and approved over HTTP; an agent gets no text that nobody has accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
AGENT = agent_of(ANN)
EXAMPLES = Path(__file__).resolve().parents[3] / "examples/compose"


@pytest.fixture
async def site(site_with, tmp_path):
    """A server whose model writes two drafts."""
    steps = [json.loads((EXAMPLES / name).read_text())[0] for name in ("first-draft.json", "second-draft.json")]
    (tmp_path / "model.json").write_text(json.dumps(steps))
    async with site_with(PROWESS_MODEL=f"scripted:{tmp_path / 'model.json'}", PROWESS_EMBEDDER="none") as site:
        yield site


async def test_a_skill_is_drafted_refined_and_approved(site):
    made = await site.post("/compositions", {"request": "check timeline consistency"}, ANN, status=201)
    assert (made["state"], made["current_round"], made["round"]["ok"]) == ("open", 1, True)
    path = f"/compositions/{made['id']}"
    feedback = {"feedback": "add a dspy_module for optimized execution"}
    second = await site.post(f"{path}/refine", feedback, ANN)
    assert "dspy_module" in second["round"]["kinds"]
    assert [one["number"] for one in await site.get(f"{path}/rounds", ANN)] == [1, 2]
    files = await site.get(f"{path}/files", ANN)
    assert "dspy/module.json" in [one["path"] for one in files["files"]]
    assert "chain_of_thought" in files["diff"]

    seen_before = {"digest": made["round"]["digest"]}
    assert (await site.send("POST", f"{path}/approve", ANN, json=seen_before)).status_code == 409
    saved = await site.post(f"{path}/approve", {"digest": second["round"]["digest"]}, ANN)
    assert saved["digest"] == second["round"]["digest"]
    assert (await site.get(f"/skills/{saved['slug']}", ANN))["digest"] == saved["digest"]
    [listed] = (await site.get("/compositions?state=saved", ANN))["items"]
    assert listed["saved_as"] == f"{saved['scope']}:{saved['slug']}"
    told = [one["data"] for one in (await site.get("/events/list?names=composition_changed", ANN))["items"]]
    assert [(one["round"], one["state"]) for one in told] == [(1, "open"), (2, "open"), (2, "saved")]


async def test_an_agent_proposes_a_draft_and_a_person_approves_it(site):
    made = await site.post("/compositions", {"request": "check timeline consistency"}, AGENT, status=201)
    path = f"/compositions/{made['id']}"
    made = await site.post(f"{path}/refine", {"feedback": "add a dspy_module"}, AGENT)
    assert "Timeline" not in json.dumps(made)
    for action in ("files", "rounds"):
        assert (await site.send("GET", f"{path}/{action}", AGENT)).status_code == 403
    body = {"digest": made["digest"]}
    assert (await site.send("POST", f"{path}/approve", AGENT, json=body)).status_code == 403

    asked = await site.send("POST", f"{path}/propose", AGENT, json={})
    assert asked.status_code == 403
    approval = asked.json()["approval_id"]
    shown = await site.get(f"/approvals/{approval}", ANN)
    assert "List every contradiction" in shown["diff"]
    await site.post(f"/approvals/{approval}", {"approved": True}, ANN)
    saved = await site.post(f"{path}/propose", {}, AGENT)
    assert (await site.get(f"/skills/{saved['slug']}", ANN))["trust"] == "local"


async def test_what_is_wrong_is_said_with_its_status(site):
    assert (await site.send("POST", "/compositions", ANN, json={"request": " "})).status_code == 422
    assert (await site.send("POST", "/compositions", ANN, json={"skill": "x"})).status_code == 422
    body = {"request": "x", "skill": "unknown"}
    assert (await site.send("POST", "/compositions", ANN, json=body)).status_code == 404
    assert (await site.send("GET", "/compositions/0000", ANN)).status_code == 404
