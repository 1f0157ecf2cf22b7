"""Enabling, listing and disabling as an agent does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prowess.policy.actor import Actor
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio


async def test_an_agent_enables_lists_and_disables(each_place: Any, box: Callable[..., Toolbox], ann: Actor):
    each_place.skill("triage")
    async with each_place.open(ann) as engine:
        toolbox = box(engine)
        told = (await toolbox.call("enable_skill", {"skill_slug": "triage", "reason": "slow"})).data
        length = len(await engine.prompt("chat"))
        assert told.pop("hint")
        assert told == {
            "skill": "triage",
            "status": "enabled",
            "title": "triage",
            "content_length": length,
            "budget_used_chars": length,
            "budget_max_chars": 16_000,
            "budget_left_chars": 16_000 - length,
        }
        listed = (await toolbox.call("list_enabled_skills", {})).data
        assert listed == {
            **(await engine.sessions.get("chat")).state,
            "budget_used_tokens": listed["budget_used_tokens"],
            "budget_left_chars": 16_000 - length,
        }
        assert 0 < listed["budget_used_tokens"] < length
        assert (await toolbox.call("disable_skill", {"skill_slug": "triage"})).data == {
            "skill": "triage",
            "status": "disabled",
            "budget_used_chars": 0,
            "budget_max_chars": 16_000,
            "budget_left_chars": 16_000,
        }
        again = await toolbox.call("disable_skill", {"skill_slug": "triage"})
        assert (again.data["error"]["code"], again.data["hint"]) == ("not-found", "No skill is enabled.")


async def test_an_agent_whose_prompt_is_not_ours_is_handed_the_block(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    folder = place.skill("triage")
    place.skill("other")
    async with place.open(ann) as engine:
        toolbox = box(engine, return_content=True)
        await toolbox.call("enable_skill", {"skill_slug": "other"})
        told = (await toolbox.call("enable_skill", {"skill_slug": "workspace:triage"})).data
        blocks = await engine.sessions.blocks("chat")
        assert told["content"] == blocks[1]
        assert told["content_length"] == len(told["content"])
        assert "hint" not in told
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "More.")
        again = (await toolbox.call("enable_skill", {"skill_slug": "triage"})).data
        assert "More." in again["content"]
        listed = (await toolbox.call("list_enabled_skills", {"content": True})).data
        assert listed["content"] == await engine.prompt("chat")
        assert listed["budget_used_chars"] == sum(map(len, await engine.sessions.blocks("chat")))


async def test_listing_with_the_text_tells_the_state_that_the_text_has(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    folder = place.skill("triage")
    async with place.open(ann) as engine:
        toolbox = box(engine)
        await toolbox.call("enable_skill", {"skill_slug": "triage"})
        (folder / "SKILL.md").unlink()
        told = (await toolbox.call("list_enabled_skills", {"content": True})).data
        assert (told["content"], told["enabled_skills"], told["budget_used_chars"]) == ("", [], 0)


async def test_over_budget_an_agent_is_told_what_to_disable_and_that_works(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    place.skill("small")
    place.skill("large", "x" * 200)
    place.skill("new", "y" * 150)
    async with place.open(ann) as engine:
        await engine.sessions.open("chat", budget=600)
        toolbox = box(engine)
        for slug in ("small", "large"):
            await toolbox.call("enable_skill", {"skill_slug": slug})
        refused = await toolbox.call("enable_skill", {"skill_slug": "new"})
        used = (await engine.sessions.get("chat")).budget.used
        assert refused.data["error"]["code"] == "budget-exceeded"
        assert refused.data["budget"] == {
            "limit": 600,
            "used": used,
            "need": refused.data["budget"]["need"],
            "disable": ["small"],
        }
        assert refused.data["hint"].startswith("Call disable_skill for small")
        await toolbox.call("disable_skill", {"skill_slug": "small"})
        assert (await toolbox.call("enable_skill", {"skill_slug": "new"})).ok


async def test_an_agent_that_waits_for_a_person_is_told_so_and_enters_later(
    each_place: Any, box: Callable[..., Toolbox], ann: Actor
):
    each_place.skill("triage")
    async with each_place.open(ann) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        toolbox = box(engine)
        waits = await toolbox.call("enable_skill", {"skill_slug": "triage", "reason": "the database is slow"})
        assert waits.data["error"]["code"] == "approval-required"
        row = await engine.approvals.get(waits.data["approval_id"])
        assert (row.reason, row.requester, row.state) == ("the database is slow", "agent:agent", "pending")
        assert (await toolbox.call("load_skill", {"name": "triage"})).data["approval_id"] == row.id
        await engine.approvals.resolve(row.id, approved=True)
        assert (await toolbox.call("enable_skill", {"skill_slug": "triage"})).ok
        other = await box(engine, name="another").call("load_skill", {"name": "triage"})
        assert other.data["approval_id"] != row.id


async def test_listing_opens_no_session_and_tells_the_budget_there_would_be(
    each_place: Any, box: Callable[..., Toolbox], ann: Actor
):
    each_place.skill("triage")
    async with each_place.open(ann) as engine:
        toolbox = box(engine)
        nothing = {
            "enabled_skills": [],
            "budget_used_chars": 0,
            "budget_max_chars": 16_000,
            "budget_used_tokens": 0,
            "budget_left_chars": 16_000,
        }
        assert (await toolbox.call("list_enabled_skills", {})).data == nothing
        assert (await toolbox.call("list_enabled_skills", {"content": True})).data == {**nothing, "content": ""}
        refused = await toolbox.call("disable_skill", {"skill_slug": "triage"})
        assert (refused.data["error"]["code"], refused.data["hint"]) == ("not-found", "No skill is enabled.")
        assert await engine.sessions.list() == []
        await engine.policy.set("skills_max_prompt_chars", 900)
        assert (await toolbox.call("enable_skill", {"skill_slug": "triage"})).ok
        await engine.sessions.close("chat")
        told = (await box(engine).call("list_enabled_skills", {})).data
        assert (told["enabled_skills"], told["budget_max_chars"]) == ([], 900)
        assert await engine.sessions.list() == []


async def test_a_skill_is_disabled_by_the_address_it_was_enabled_by(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    place.skill("triage")
    async with place.open(ann) as engine:
        toolbox = box(engine)
        await toolbox.call("enable_skill", {"skill_slug": "workspace:triage"})
        for other in ("account:triage", "nowhere:triage", ":triage"):
            refused = await toolbox.call("disable_skill", {"skill_slug": other})
            assert refused.data["error"]["code"] == "not-found"
            assert refused.data["hint"].startswith("Call disable_skill with one of the enabled skills: triage.")
        told = (await toolbox.call("disable_skill", {"skill_slug": "workspace:triage"})).data
        assert (told["skill"], told["budget_used_chars"]) == ("triage", 0)
