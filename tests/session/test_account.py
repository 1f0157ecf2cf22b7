"""Why a skill was or was not offered: the same each time, and able to say what changed; and the index it speaks of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prowess.errors import ApprovalRequired
from prowess.policy.actor import Actor, agent_of
from prowess.session.explanation import diff_explanations

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
AGENT = agent_of(ANN)
OTHER = agent_of(ANN, name="other")
MESSAGE = "the prod Postgres is slow, can you triage the locks?"


def fill(place: Any) -> None:
    place.skill("postgres-triage", "Look at the locks of the slow Postgres.", fields="metadata:\n  tags: sre\n")
    place.skill("poetry", "Write verse.")
    place.write(
        "runner",
        {"skill.json": '{"id":"runner","name":"R","description":"Triage."}', "execute.ts": "export const execute = 1"},
    )


async def told(engine: Any, **options: Any) -> dict[str, Any]:
    """An account as it would be kept in a file."""
    return json.loads(json.dumps((await engine.why(MESSAGE, **options)).as_json()))


async def test_an_account_tells_candidates_scores_index_rule_budget_and_choice(each_place: Any):
    fill(each_place)
    async with each_place.open(ANN) as engine:
        session = await engine.sessions.open("chat", budget=1_000)
        account = await told(engine, session=session)
        first = account["steps"][0]
        assert (first["slug"], first["choice"], first["answer"], first["index"]) == (
            "postgres-triage",
            "offered",
            "allow",
            "full",
        )
        assert first["score"] > account["steps"][1]["score"]
        assert first["fields"]
        assert first["signals"]
        state = await engine.enable("postgres-triage", session=session)
        assert first["need"] == state.budget.used
        assert (account["skills"], account["budget_max"], account["session"]) == (3, 1_000, session.id)
        assert (await engine.why(MESSAGE, session=session)).steps[0].choice == "enabled"


async def test_the_same_message_gives_the_same_account_also_after_a_restart(place: Any):
    fill(place)
    async with place.open(ANN) as engine:
        first = await told(engine)
        assert diff_explanations(first, await told(engine)) == []
        assert first == await told(engine)
    async with place.open(ANN) as engine:
        assert diff_explanations(first, await told(engine)) == []


async def test_looking_changes_nothing(place: Any):
    fill(place)
    async with place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        session = await engine.sessions.open("chat")
        before = len(await engine.audit.rows())
        account = await told(engine.as_actor(AGENT), session=session)
        await engine.index(MESSAGE, session=session)
        assert account["steps"][0]["choice"] == "needs approval"
        assert await engine.approvals.list() == []
        assert [event.name for event in await engine.events.list()] == ["settings_changed"]
        assert len(await engine.audit.rows()) == before
        assert await engine.sessions.get(session) == session


async def test_an_account_says_what_is_not_as_it_was(place: Any):
    fill(place)
    async with place.open(ANN) as engine:
        session = await engine.sessions.open("chat", budget=200)
        first = await told(engine.as_actor(AGENT), session=session)

        async def changed() -> list[str]:
            return diff_explanations(first, await told(engine.as_actor(AGENT), session=session))

        await engine.enable("postgres-triage", session=session)
        now = await changed()
        assert "the enabled skills changed" in now
        assert "postgres-triage: choice changed" in now
        await engine.disable("postgres-triage", session=session)
        assert await changed() == []
        await engine.sessions.change(session, budget=10)
        assert "the prompt budget changed" in await changed()
        assert (await told(engine.as_actor(AGENT), session=session))["steps"][0]["choice"] == "no room"
        await engine.sessions.change(session, budget=200)
        await engine.policy.set("skill_enablement_policy", "admin-only")
        now = await changed()
        assert "the policy changed" in now
        assert (await told(engine.as_actor(AGENT), session=session))["steps"][0]["choice"] == "refused"
        await engine.policy.set("skill_enablement_policy", None)
        place.skill("another-triage", "Triage of Postgres locks.")
        await engine.skills.reload()
        now = await changed()
        assert now[0] == "the available skills changed"
        assert "another-triage is now a candidate" in now
        assert "the actor changed" in diff_explanations(first, await told(engine, session=session))


async def test_the_role_of_the_session_decides(place: Any):
    fill(place)
    async with place.open(ANN) as engine:
        session = await engine.sessions.open("chat", role="communicator")
        account = await engine.as_actor(AGENT).why(MESSAGE, session=session)
        assert account.role == "communicator"
        assert {step.choice for step in account.steps} <= {"refused", "not offered"}
        assert account.steps[0].rule == "role-tags"


async def test_a_skill_that_cannot_enter_is_told_so(place: Any):
    fill(place)
    async with place.open(ANN) as engine:
        steps = {step.slug: step for step in (await engine.why(MESSAGE)).steps}
        assert (steps["runner"].answer, steps["runner"].rule, steps["runner"].need) == ("deny", "no-text", 0)


async def test_the_cut_of_the_index_shows_in_the_account(place: Any):
    for number in range(300):
        place.skill(f"skill-{number:03}", "Nothing much.")
    place.skill("postgres-triage", "Look at the locks of the slow Postgres.")
    async with place.open(ANN) as engine:
        session = await engine.sessions.open("chat", window=10_000)
        account = await engine.why(MESSAGE, session=session)
        plan = await engine.index(MESSAGE, session=session)
        assert account.index_budget == 800
        assert account.index_omitted == plan.omitted > 200
        assert account.steps[0].slug == plan.entries[0].slug == "postgres-triage"
        assert plan.chars == len(plan.text) <= 800
        assert plan.text.endswith(f"… and {plan.omitted} more; call search_skills with a few words to find them")
        assert plan == await engine.index(MESSAGE, session=session)
        for budget in (0, 10, 100, 5_000, 100_000):
            cut = await engine.index(MESSAGE, budget=budget)
            assert cut.chars <= budget
            assert len(cut.entries) == 301
        assert {entry.form for entry in cut.entries} == {"full"}


async def test_what_was_loaded_often_comes_first_in_an_index_without_a_message(place: Any):
    for slug in ("a", "b", "c"):
        place.skill(slug)
    async with place.open(ANN) as engine:
        for _ in range(3):
            await engine.load("c")
    async with place.open(ANN) as engine:
        plan = await engine.index()
        tight = await engine.index(budget=len(plan.text) - 5)
        assert [entry.form for entry in tight.entries if entry.slug == "c"] == ["full"]
        assert {entry.form for entry in plan.entries} == {"full"}


async def test_an_account_counts_the_answers_that_people_gave(each_place: Any):
    fill(each_place)
    async with each_place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")

        async def choice() -> tuple[str, str]:
            first = (await engine.as_actor(AGENT).why(MESSAGE, session="chat")).steps[0]
            return first.choice, first.rule

        assert await choice() == ("needs approval", "skill_enablement_policy")
        asked: list[str] = []
        for approved in (False, True):
            with pytest.raises(ApprovalRequired) as caught:
                await engine.as_actor(AGENT if not approved else OTHER).enable("postgres-triage", session="chat")
            asked.append(caught.value.approval_id)
            await engine.approvals.resolve(asked[-1], approved=approved)
        assert await choice() == ("refused", "refused")
        other = (await engine.as_actor(OTHER).why(MESSAGE, session="chat")).steps[0]
        assert (other.choice, other.rule, other.answer) == ("offered", "approved", "allow")
        rows = len(await engine.audit.rows())
        await choice()
        assert len(await engine.audit.rows()) == rows
        await engine.approvals.revoke(asked[-1])
        assert (await engine.as_actor(OTHER).why(MESSAGE, session="chat")).steps[0].choice == "needs approval"


async def test_the_index_of_a_large_catalog_lists_what_fits_the_message_or_the_role_and_what_is_used(place: Any):
    for number in range(600):
        place.skill(f"aa-{number:03}-ledger", "Nothing much.")
    text = "---\nname: {slug}\ndescription: {about}\n---\n\nDo it.\n"
    about = {
        "zebra-review": "Reviews the diff of a pull request for correctness, design and tests.",
        "yak-locks": "Finds the locks of a slow Postgres database.",
        "xylo-notes": "Writes notes for the people who play the xylophone.",
    }
    for slug, description in about.items():
        place.write(slug, {"SKILL.md": text.format(slug=slug, about=description)})
    async with place.open(ANN) as engine:
        await engine.load("xylo-notes")
        asked = (await engine.index("the Postgres database is slow, find the locks")).text
        role = (await engine.roles.prompt("reviewer")).text
        plain = (await engine.index()).text
    assert asked.startswith(f"- yak-locks: {about['yak-locks']}\n")
    for listed in (asked, role, plain):
        assert f"- xylo-notes: {about['xylo-notes']}\n" in listed
        assert "call search_skills with a few words to find them" in listed
        assert listed.count("aa-0") < 100
    assert f"- zebra-review: {about['zebra-review']}\n" in role
    assert len(role.partition("</available_skills>")[0]) < 8_200
