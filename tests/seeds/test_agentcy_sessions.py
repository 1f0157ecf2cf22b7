"""Agentcy: the typical conversation of its page, its budget, its policies and its events, end to end."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from prowess.errors import ApprovalRequired, Refused
from prowess.policy.actor import Actor, agent_of
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann")
AGENT = agent_of(ANN)
SLUG = "postgres.health-triage"


@pytest.fixture
def triage(printed: Any, each_place: Any) -> Any:
    """A workspace with the printed skill and a second one of the page."""
    text = printed("agentcy", "markdown\n---\n", "The body is prose", keep="---\n")
    each_place.write("health-triage", {"SKILL.md": text})
    each_place.write(
        "incident-style",
        {
            "SKILL.md": "---\nname: Incident Comms Style Guide\nslug: comms.incident-style\n"
            "description: Tone and structure for customer-facing incident updates.\n---\n\n# Style guide\n\nBe plain.\n"
        },
    )
    return each_place


async def test_the_typical_conversation_of_the_page(printed: Any, triage: Any):
    talk = printed("agentcy", "A typical conversation:\n", "The prompt budget")
    query = re.search(r'query: "(postgres [^"]+)"', talk)
    reason = re.search(r'reason: "([^"]+)"', talk)
    assert query
    assert reason
    async with triage.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        box = Toolbox(engine, actor=AGENT, conversation="checkout")
        found = (await box.call("search_skills", {"query": query[1]})).data["skills"]
        assert found[0]["skill"] == SLUG

        asked = await box.call("enable_skill", {"skill_slug": SLUG, "reason": reason[1]})
        assert asked.data["error"]["code"] == "approval-required"
        assert await engine.prompt("checkout") == ""
        _, event = await engine.events.list()
        assert event.name == "approval_required"
        assert event.data["type"] == "skill_enablement"
        assert event.data["skill"]["slug"] == SLUG
        assert event.data["reason"] == reason[1]

        await engine.approvals.resolve(event.data["approval_id"], approved=True)
        enabled = await box.call("enable_skill", {"skill_slug": SLUG, "reason": reason[1]})
        prompt = await engine.prompt("checkout")
        assert enabled.data["budget_used_chars"] == len(prompt)
        assert "Check `pg_locks` for blocked queries." in prompt
        names = [event.name for event in await engine.events.list()]
        assert names == ["settings_changed", "approval_required", "approval_resolved", "skills_state_changed"]

        freed = await box.call("disable_skill", {"skill_slug": SLUG})
        assert freed.data["budget_used_chars"] == 0
        assert await engine.prompt("checkout") == ""


async def test_enabling_waits_for_the_approval_as_on_the_page(printed: Any, triage: Any):
    talk = printed("agentcy", "A typical conversation:\n", "The prompt budget")
    assert "approval gate (if policy requires)" in talk
    assert "user approves → skill content added to next system prompt" in talk
    async with triage.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        box = Toolbox(engine, actor=AGENT, conversation="checkout", approval_seconds=120)
        call = asyncio.create_task(box.call("enable_skill", {"skill_slug": SLUG}))
        async for event in engine.events.follow(after=0, names=["approval_required"]):
            await engine.approvals.resolve(event.data["approval_id"], approved=True)
            break
        answer = await asyncio.wait_for(call, 120)
        assert answer.data["status"] == "enabled"
        assert "Check `pg_locks` for blocked queries." in await engine.prompt("checkout")


async def test_the_state_event_has_exactly_the_printed_fields(printed: Any, triage: Any):
    example = json.loads(printed("agentcy", "event: skills_state_changed\ndata: ", "The UI's chat panel"))
    async with triage.open(ANN) as engine:
        session = await engine.enable(SLUG, session=await engine.sessions.open("chat"))
        (event,) = await engine.events.list(names=["skills_state_changed"], session=session.id)
        length = len(await engine.prompt(session))
        assert list(event.data) == list(example)
        assert [list(skill) for skill in event.data["enabled_skills"]] == [list(example["enabled_skills"][0])]
        assert event.data == {
            **example,
            "enabled_skills": [{**example["enabled_skills"][0], "content_length": length}],
            "budget_used_chars": length,
        }


async def test_the_budget_is_tracked_live_also_when_it_is_changed_and_when_the_conversation_ends(
    printed: Any, triage: Any
):
    assert "The frontend tracks budget live via the skills_state_changed SSE event" in printed(
        "agentcy", "so the agent has to be deliberate.\n", ":\njson"
    )
    async with triage.open(ANN) as engine:
        await engine.sessions.open("empty")
        await engine.enable(SLUG, session=await engine.sessions.open("chat"))
        await engine.sessions.change("chat", budget=9_000)
        await engine.sessions.change("chat", budget=9_000, model="other")
        await engine.sessions.close("chat")
        await engine.sessions.close("chat")
        await engine.sessions.close("empty")
        events = [event.data for event in await engine.events.list(names=["skills_state_changed"])]
    used = events[0]["budget_used_chars"]
    assert [(event["budget_used_chars"], event["budget_max_chars"]) for event in events] == [
        (used, 16_000), (used, 9_000), (0, 9_000),
    ]  # fmt: skip
    assert [len(event["enabled_skills"]) for event in events] == [1, 1, 0]


async def test_a_block_has_the_printed_form_and_the_blocks_the_printed_order(printed: Any, triage: Any):
    drawn = printed("agentcy", "until the skill is disabled or the conversation ends.\n", "[user] ...prior turns")
    tags = re.findall(r"\[system\] <(\w+)", drawn)
    opening = re.search(r'<skill name="PostgreSQL Health Triage">', drawn)
    assert opening
    async with triage.open(ANN) as engine:
        session = await engine.sessions.open("chat")
        for slug in (SLUG, "comms.incident-style"):
            await engine.enable(slug, session=session)
        blocks = await engine.sessions.blocks(
            session, policies="org policies", memory="recalled facts", graph_context="checkout-svc → db"
        )
        assert [re.match(r"<(\w+)", block)[1] for block in blocks] == ["policies", *tags]
        triage_block = blocks[3].splitlines()
        assert triage_block[0] == opening[0]
        assert triage_block[1].startswith(f"<!-- {SLUG} · workspace · sha256:")
        assert triage_block[2] == "# PostgreSQL Health Triage"
        assert triage_block[-1] == "</skill>"
        assert blocks[4].startswith('<skill name="Incident Comms Style Guide">\n')
        body = (await engine.skills.get(SLUG)).body
        assert "\n".join(triage_block[2:-1]) == body.strip("\n")
        assert await engine.prompt(session) == "\n\n".join(blocks[3:])
        once = await engine.prompt(session, into="You are helpful.", memory="facts")
        assert await engine.prompt(session, into=once, memory="facts") == once


async def test_the_defaults_are_those_of_the_page(printed: Any, place: Any):
    table = printed("agentcy", "| Setting | Default | Notes |\n", "enable_skill returns an error")
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines() if "skill" in line]
    async with place.open(ANN) as engine:
        policy = await engine.policy.get()
        told = {row[0]: row[1].replace(" ", "") for row in rows}
        assert len(told) == 4
        assert {name: str(getattr(policy, name)).lower() for name in told} == told


async def test_over_budget_the_agent_is_told_the_limit_and_can_make_room(triage: Any):
    async with triage.open(ANN) as engine:
        await engine.sessions.open("chat", budget=900)
        box = Toolbox(engine, actor=AGENT, conversation="chat")
        first = await box.call("enable_skill", {"skill_slug": SLUG})
        refused = await box.call("enable_skill", {"skill_slug": "comms.incident-style"})
        if refused.ok:
            await engine.sessions.change("chat", budget=refused.data["budget_used_chars"] - 1)
            await box.call("disable_skill", {"skill_slug": "comms.incident-style"})
            refused = await box.call("enable_skill", {"skill_slug": "comms.incident-style"})
        budget = refused.data["budget"]
        assert refused.data["error"]["code"] == "budget-exceeded"
        assert budget["used"] == first.data["content_length"]
        assert budget["used"] + budget["need"] > budget["limit"]
        assert budget["disable"] == [SLUG]
        assert f"{budget['limit']:,}" in refused.data["error"]["message"]
        await box.call("disable_skill", {"skill_slug": SLUG})
        assert (await box.call("enable_skill", {"skill_slug": "comms.incident-style"})).ok


async def test_the_three_policies_behave_as_the_table_says(printed: Any, triage: Any):
    table = printed("agentcy", "skill_enablement_policy | Behavior |\n", "Approval lives")
    policies = re.findall(r"^([a-z-]+) \|", table, re.MULTILINE)
    assert policies == ["auto", "prompt-user", "admin-only"]
    bob = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read", "skills.write"}))
    async with triage.open(ANN) as engine:
        for policy in policies:
            await engine.policy.set("skill_enablement_policy", policy)
            for actor in (AGENT, bob, ANN):
                session = await engine.as_actor(actor).sessions.open(f"{policy}-{actor.label}")
                if policy == "auto" or (policy == "admin-only" and actor is ANN):
                    assert (await engine.as_actor(actor).enable(SLUG, session=session)).has(SLUG)
                elif policy == "prompt-user":
                    with pytest.raises(ApprovalRequired):
                        await engine.as_actor(actor).enable(SLUG, session=session)
                else:
                    with pytest.raises(Refused) as caught:
                        await engine.as_actor(actor).enable(SLUG, session=session)
                    assert not isinstance(caught.value, ApprovalRequired)
                    assert "administrator" in caught.value.hint


async def test_skills_of_both_scopes_are_listed_by_default_and_by_scope(triage: Any):
    async with triage.open(ANN) as engine:
        given = triage.workspace.parent / "given" / "shared"
        given.mkdir(parents=True)
        (given / "SKILL.md").write_text("---\nname: shared\ndescription: For all.\n---\n\nFor all.\n")
        await engine.skills.import_path(given, scope="account")
        box = Toolbox(engine, actor=AGENT)
        everything = (await box.call("list_skills", {})).data
        assert {(skill["skill"], skill["scope"]) for skill in everything["skills"]} == {
            (SLUG, "workspace"),
            ("comms.incident-style", "workspace"),
            ("shared", "account"),
        }
        for scope, count in (("workspace", 2), ("account", 1), ("org", 0)):
            assert (await box.call("list_skills", {"scope": scope})).data["total"] == count
        tagged = (await box.call("list_skills", {"tags": ["SRE", "postgres"]})).data["skills"]
        assert [skill["skill"] for skill in tagged] == [SLUG]


async def test_tags_that_no_skill_has_do_not_empty_a_search_and_an_unknown_slug_names_near_ones(triage: Any):
    async with triage.open(ANN) as engine:
        box = Toolbox(engine, actor=AGENT, conversation="checkout")
        found = (await box.call("search_skills", {"query": "postgres slow query", "tags": ["performance"]})).data
        wrong = (await box.call("enable_skill", {"skill_slug": "postgres.health-triag"})).data
    assert found["skills"][0]["skill"] == SLUG
    assert "database" in json.dumps(found)
    assert SLUG in json.dumps(wrong["error"]) + wrong.get("hint", "")
