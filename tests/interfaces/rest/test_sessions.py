"""Sessions over HTTP: enabling, prompts, budgets, and conversations of others."""

from __future__ import annotations

import pytest

from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
BOB = Actor(name="bob", organization="acme", user="bob", channel="http", permissions=frozenset({"skills.read"}))
EVE = Actor(name="eve", organization="other", user="eve", channel="http")


async def test_a_skill_enters_the_prompt_and_leaves_it_again(site):
    site.write("triage", "Check the locks first.")
    session = await site.post("/sessions", {"conversation": "support-1"})

    enabled = await site.post(f"/sessions/{session['id']}/enable", {"skill_slug": "triage", "reason": "slow"})
    prompt = await site.get(f"/sessions/{session['id']}/prompt")
    assert [one["slug"] for one in enabled["enabled_skills"]] == ["triage"]
    assert enabled["budget_used_chars"] == len(prompt["text"])
    assert "Check the locks first." in prompt["text"]
    assert prompt["blocks"] == [prompt["text"]]

    freed = await site.post("/sessions/support-1/disable", {"skill_slug": "triage"})
    assert freed["budget_used_chars"] == 0
    assert (await site.get("/sessions/support-1/prompt"))["text"] == ""


async def test_a_prompt_has_policies_memory_and_graph_context_before_the_skills(site):
    site.write("triage")
    await site.post("/sessions", {"conversation": "c"})
    await site.post("/sessions/c/enable", {"skill_slug": "triage"})

    texts = {"policies": "Be kind.", "memory": "Ann likes tables.", "graph_context": "db → api"}
    prompt = await site.post("/sessions/c/prompt", texts)
    assert [block.split(">")[0].split()[0] for block in prompt["blocks"]] == [
        "<policies",
        "<memory",
        "<graph_context",
        "<skill",
    ]

    merged = await site.post("/sessions/c/prompt", {"into": "You are Ada.\n\n" + prompt["text"]})
    assert merged["text"].startswith("You are Ada.")
    assert "Be kind." not in merged["text"]


async def test_a_skill_that_does_not_fit_answers_with_the_budget(site):
    site.write("triage", "x" * 500)
    await site.post("/sessions", {"conversation": "small", "budget": 100})

    problem = await site.post("/sessions/small/enable", {"skill_slug": "triage"}, status=403)
    assert problem["code"] == "budget-exceeded"
    assert problem["budget"]["limit"] == 100

    changed = await site.send("PATCH", "/sessions/small", json={"budget": 5_000})
    assert changed.json()["budget_max_chars"] == 5_000
    await site.post("/sessions/small/enable", {"skill_slug": "triage"})


async def test_a_foreign_session_answers_byte_for_byte_like_an_unknown_one(site):
    session = await site.post("/sessions", {"conversation": "private"}, ANN)
    agent = agent_of(ANN, name="helper")
    path = f"/sessions/{session['id']}"

    for stranger in (BOB, EVE, agent):
        assert (await site.send("GET", path, stranger)).status_code == 404
    unknown = await site.send("GET", "/sessions/00000000-0000-0000-0000-000000000000", BOB)
    other = (await site.send("GET", path, BOB)).text
    assert other.replace(session["id"], "ID") == unknown.text.replace("00000000-0000-0000-0000-000000000000", "ID")
    for action in ("enable", "disable", "load", "run"):
        body = {"skill_slug": "triage"}
        assert (await site.send("POST", f"{path}/{action}", EVE, json=body)).status_code == 404


async def test_sessions_are_listed_last_changed_first_page_by_page(site):
    for name in ("one", "two", "three"):
        await site.post("/sessions", {"conversation": name}, ANN)
    await site.post("/sessions", {"conversation": "of-bob"}, BOB)

    first = await site.get("/sessions?limit=2", ANN)
    rest = await site.get(f"/sessions?limit=2&cursor={first['next_cursor']}", ANN)
    found = [one["conversation"] for one in first["items"] + rest["items"]]
    assert found == ["three", "two", "one"]
    assert (first["total"], rest["next_cursor"]) == (3, None)

    assert (await site.send("DELETE", "/sessions/two", ANN)).status_code == 204
    assert (await site.get("/sessions", ANN))["total"] == 2


async def test_a_text_is_loaded_once_and_an_error_has_its_status(site):
    site.write("triage", "Check.", **{"references/locks.md": "Locks.\n"})
    await site.post("/sessions", {"conversation": "c"})

    loaded = await site.post("/sessions/c/load", {"skill_slug": "triage"})
    assert loaded["body"].strip() == "Check."
    text = await site.post("/sessions/c/load", {"skill_slug": "triage", "reference": "locks.md"})
    assert text["reference_content"] == "Locks.\n"
    missing = await site.post("/sessions/c/load", {"skill_slug": "nothing"}, status=404)
    assert missing["code"] == "not-found"
    assert (await site.get("/sessions/c/prompt"))["blocks"] == []


async def test_a_decision_is_carried_out_and_recorded(site):
    site.write("invoice-reader", "Read the invoice.")
    await site.post("/sessions", {"conversation": "c"})

    turn = await site.post(
        "/sessions/c/decide", {"message": "read this", "action": "activate", "skill": "invoice-reader"}
    )
    assert "Read the invoice." in turn["text"]
    assert turn["session"]["enabled_skills"][0]["slug"] == "invoice-reader"
    refused = await site.send("POST", "/sessions/c/decide", json={"message": "x", "action": "activate"})
    assert refused.status_code == 422
