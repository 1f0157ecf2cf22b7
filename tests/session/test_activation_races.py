"""Many callers change one session at once, on both databases, and it stays exact."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest

from prowess.errors import ApprovalRequired, BudgetExceeded, Conflict, NotFound
from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
AGENT = agent_of(ANN)
SLUGS = ("a", "b", "c", "d", "e")


def sum_of(state: dict[str, Any]) -> int:
    return sum(skill["content_length"] for skill in state["enabled_skills"])


async def test_eight_callers_never_take_more_than_the_budget_and_all_of_it_is_accounted_for(each_place: Any):
    for length, slug in enumerate(SLUGS):
        each_place.skill(slug, "x" * 40 * length)
    async with each_place.open() as engine:
        await engine.sessions.open("chat", budget=450)

        async def caller(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(8):
                step = engine.enable if chance.random() < 0.6 else engine.disable
                try:
                    session = await step(chance.choice(SLUGS), session="chat")
                except (BudgetExceeded, NotFound):
                    continue
                assert session.budget.used == sum_of(session.state) <= session.budget.limit

        await asyncio.gather(*map(caller, range(8)))
        now = await engine.sessions.get("chat")
        blocks = await engine.sessions.blocks("chat")
        assert now.budget.used == sum_of(now.state) == sum(map(len, blocks)) <= 450
        events = await engine.events.list(limit=1_000)
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert all(event.data["budget_used_chars"] == sum_of(event.data) <= 450 for event in events)
        assert events[-1].data == now.state
        assert (await engine.audit.verify()).ok


async def test_enabling_disabling_and_prompting_of_one_skill_end_in_one_of_both_states(each_place: Any):
    each_place.skill("a")
    async with each_place.open() as engine:
        await engine.sessions.open("chat")

        async def quietly(step: Awaitable[Any]) -> None:
            with suppress(NotFound):
                await step

        for _ in range(4):
            steps = [
                step
                for _ in range(3)
                for step in (
                    engine.enable("a", session="chat"),
                    engine.disable("a", session="chat"),
                    engine.prompt("chat"),
                )
            ]
            await asyncio.gather(*map(quietly, steps))
            now = await engine.sessions.get("chat")
            assert now.budget.used == len(await engine.prompt("chat"))


async def test_a_skill_that_changes_under_many_readers_is_in_no_prompt_half_or_twice(each_place: Any):
    folder = each_place.skill("a")
    each_place.skill("b")
    async with each_place.open() as engine:
        await engine.enable("a", session=await engine.sessions.open("chat"))
        await engine.enable("b", session="chat")
        text = (folder / "SKILL.md").read_text()
        for number in range(5):
            (folder / "SKILL.md").write_text(text + "y" * number * 30)
            prompts = await asyncio.gather(*(engine.sessions.blocks("chat") for _ in range(6)))
            assert all([block.split('"')[1] for block in blocks] == ["a", "b"] for blocks in prompts)
            now = await engine.sessions.get("chat")
            assert now.budget.used == sum(map(len, await engine.sessions.blocks("chat")))


async def test_a_skill_that_was_disabled_is_not_brought_back_by_a_prompt_that_finds_it_changed(each_place: Any):
    folder = each_place.skill("a")
    async with each_place.open() as engine:
        await engine.sessions.open("chat")
        for number in range(4):
            await engine.enable("a", session="chat")
            (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + f"{number}")
            await asyncio.gather(*(engine.prompt("chat") for _ in range(4)), engine.disable("a", session="chat"))
            assert (await engine.sessions.get("chat")).state == {
                "enabled_skills": [],
                "budget_used_chars": 0,
                "budget_max_chars": 16_000,
            }


async def test_a_skill_that_many_prompts_find_changed_is_asked_about_once(each_place: Any):
    folder = each_place.skill("a")
    for slug in SLUGS[1:]:
        each_place.skill(slug)
    async with each_place.open(ANN) as engine:
        session = await engine.sessions.open("chat")
        await engine.as_actor(AGENT).enable("a", session=session)
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "New.")
        others = [engine.as_actor(AGENT).enable(slug, session=session) for slug in SLUGS[1:]]
        prompts = [engine.as_actor(AGENT).prompt(session) for _ in range(6)]
        answers = await asyncio.gather(*prompts, *others, return_exceptions=True)
        assert answers[:6] == [""] * 6
        assert all(isinstance(answer, ApprovalRequired) for answer in answers[6:])
        waiting = await engine.approvals.list()
        assert sorted(row.slug for row in waiting) == list(SLUGS)
        assert len(await engine.events.list(names=["approval_required"])) == len(SLUGS)
        assert (
            len([row for row in await engine.audit.rows() if (row.action, row.outcome) == ("disable", "changed")]) == 1
        )


async def test_a_question_that_many_ask_is_one_and_has_one_outcome(each_place: Any):
    each_place.skill("a")
    async with each_place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        session = await engine.sessions.open("chat")
        asked = await asyncio.gather(
            *(engine.as_actor(AGENT).enable("a", session=session) for _ in range(8)), return_exceptions=True
        )
        (approval,) = {error.approval_id for error in asked if isinstance(error, ApprovalRequired)}
        assert len(asked) == 8
        answers = await asyncio.gather(
            *(engine.approvals.resolve(approval, approved=number % 2 == 0) for number in range(8)),
            return_exceptions=True,
        )
        (outcome,) = [answer.state for answer in answers if not isinstance(answer, BaseException)]
        assert all(isinstance(answer, Conflict) for answer in answers if isinstance(answer, BaseException))
        entered = await asyncio.gather(
            *(engine.as_actor(AGENT).enable("a", session=session) for _ in range(8)), return_exceptions=True
        )
        assert {isinstance(answer, BaseException) for answer in entered} == {outcome != "approved"}
        assert len(await engine.events.list(names=["approval_required"])) == 1
        assert len(await engine.events.list(names=["approval_resolved"])) == 1
        assert len(await engine.events.list(names=["skills_state_changed"])) == (outcome == "approved")
