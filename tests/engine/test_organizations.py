"""One engine serves many organizations: each finds, enables, runs and reads what is its own, and nothing of another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prowess.errors import ApprovalRequired, NotFound, SpendExceeded
from prowess.llm.model import Reply, Usage
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import Actor, agent_of
from prowess.skill.kinds import Instructions, PromptTemplate
from prowess.skill.model import Skill

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme")
BOB = Actor(name="bob", organization="borg")


def skill(slug: str, about: str, text: str) -> Skill:
    return Skill(
        slug=slug,
        title=slug.title(),
        description=about,
        artifacts=(
            Instructions(name="instructions", content=text),
            PromptTemplate(name="ask", content=f"{text} {{{{ topic }}}}"),
        ),
    )


@pytest.fixture
async def two(each_place: Any):
    """The same engine for a person of each organization; both have a skill of the same slug, each its own."""
    async with each_place.open(ANN) as acme:
        borg = acme.as_actor(BOB)
        await acme.skills.create(skill("brew", "Brews coffee in the morning.", "Acme brews."), scope="account")
        await borg.skills.create(skill("brew", "Writes sonnets about the sea.", "Borg brews."), scope="account")
        await acme.skills.create(skill("assay", "Assays metal ore in a crucible.", "Acme assays."), scope="account")
        yield acme, borg


async def test_a_slug_means_the_skill_of_the_own_organization(two: Any):
    acme, borg = two
    assert (await acme.skills.get("brew")).body == "Acme brews."
    assert (await borg.skills.get("brew")).body == "Borg brews."
    assert [card.slug for card in await acme.skills.cards()] == ["assay", "brew"]
    assert [card.slug for card in await borg.skills.cards()] == ["brew"]


async def test_a_change_and_a_removal_leave_the_skill_of_the_other_as_it_was(two: Any):
    acme, borg = two
    mine = await acme.skills.get("brew")
    theirs = await borg.skills.get("brew")
    (text, prompt) = mine.artifacts
    changed = mine.model_copy(update={"artifacts": (text.model_copy(update={"content": "Acme roasts."}), prompt)})
    await acme.skills.update(changed)
    assert (await acme.skills.get("brew")).body == "Acme roasts."
    await acme.skills.delete("brew")
    assert await borg.skills.get("brew") == theirs
    assert [version.change for version in await borg.skills.history("brew")] == ["create"]
    with pytest.raises(NotFound):
        await acme.skills.get("brew")


async def test_what_belongs_to_another_answers_as_what_does_not_exist(two: Any):
    acme, borg = two
    session = await acme.sessions.open("talk")
    await acme.run("assay", {"topic": "gold"}, artifacts="ask", model=ScriptedModel(["Fine."]))
    [trace] = await acme.traces.list()
    calls = [
        (borg.skills.get, "assay", "absent"),
        (borg.load, "assay", "absent"),
        (lambda which: borg.run(which, {}, model=ScriptedModel([])), "assay", "absent"),
        (borg.skills.history, "assay", "absent"),
        (borg.sessions.get, session.id, "0" * len(session.id)),
        (borg.traces.get, trace.id, "0" * len(trace.id)),
    ]
    for call, theirs, nobodys in calls:
        assert await answer(call(theirs), theirs) == await answer(call(nobodys), nobodys)
    assert await borg.sessions.find("talk") is None


async def answer(call: Any, which: str) -> object:
    """What came of a call, with what was asked for left out."""
    try:
        return str(await call).replace(which, "?")
    except NotFound as error:
        return error.code, error.message.replace(which, "?"), error.hint.replace(which, "?")


async def test_messages_and_searches_find_only_skills_of_the_own_organization(two: Any):
    acme, borg = two
    assert [found.slug for found in await acme.match("assay this metal ore in the crucible")] == ["assay"]
    assert await borg.match("assay this metal ore in the crucible") == []
    assert [found.slug for found in await borg.match("write sonnets about the sea")] == ["brew"]
    assert await acme.match("write sonnets about the sea") == []
    assert [found.slug for found in await borg.skills.search("")] == ["brew"]
    assert [found.slug for found in await acme.skills.search("")] == ["assay", "brew"]
    theirs = await borg.index("anything")
    assert "sonnets" in theirs.text
    assert "coffee" not in theirs.text
    assert "assay" not in theirs.text


async def test_a_new_engine_matches_from_the_index_of_the_right_organization(each_place: Any):
    async with each_place.open(ANN) as acme:
        await acme.skills.create(skill("assay", "Assays metal ore in a crucible.", "Acme."), scope="account")
        assert [found.slug for found in await acme.match("assay this metal ore")] == ["assay"]
    for actor, expected in ((BOB, []), (Actor(name="me"), []), (ANN, ["assay"])):
        async with each_place.open(actor) as engine:
            assert [found.slug for found in await engine.match("assay this metal ore")] == expected


async def test_prompts_and_runs_use_the_own_skill_and_leave_their_rows_with_the_own_organization(two: Any):
    acme, borg = two
    for engine, own, other in ((acme, "Acme", "Borg"), (borg, "Borg", "Acme")):
        session = await engine.sessions.open("same-conversation")
        await engine.enable("brew", session=session)
        prompt = await engine.prompt(session)
        assert f"{own} brews." in prompt
        assert f"{other} brews." not in prompt
        model = ScriptedModel([f"{own} answers."])
        result = await engine.run("brew", {"topic": "now"}, artifacts="ask", session=session, model=model)
        assert result.text == f"{own} answers."
        assert [message.text for message in model.requests[0].messages] == [f"{own} brews. now"]
    for engine, label in ((acme, "acme"), (borg, "borg")):
        traces = await engine.traces.list()
        assert [(trace.skill_slug, trace.organization_id) for trace in traces] == [("brew", label)]
        assert (await engine.traces.stats()).total.runs == 1
        assert len(await engine.sessions.list()) == 1
        rows = await engine.audit.rows()
        assert {row.organization_id for row in rows} == {label}
        assert (await engine.audit.verify()).ok


async def test_policies_approvals_and_events_are_those_of_the_own_organization(two: Any):
    acme, borg = two
    await acme.policy.set("skill_enablement_policy", "prompt-user")
    agents = {engine: engine.as_actor(agent_of(engine.actor)) for engine in (acme, borg)}
    asking, allowed = await agents[acme].sessions.open("talk"), await agents[borg].sessions.open("talk")
    with pytest.raises(ApprovalRequired):
        await agents[acme].enable("brew", session=asking)
    await agents[borg].enable("brew", session=allowed)
    [approval] = await acme.approvals.list()
    assert await borg.approvals.list() == []
    for call in (borg.approvals.get(approval.id), borg.approvals.resolve(approval.id, approved=True)):
        with pytest.raises(NotFound):
            await call
    await acme.approvals.resolve(approval.id, approved=True)
    await agents[acme].enable("brew", session=asking)

    for engine, session in ((acme, asking), (borg, allowed)):
        assert {event.session for event in await engine.events.list() if event.session} == {session.id}
    metrics = {engine: (await engine.events.metrics()).decode() for engine in (acme, borg)}
    assert 'skill_approvals{state="approved"} 1.0' in metrics[acme]
    assert 'skill_approvals{state="approved"} 0.0' in metrics[borg]


async def test_what_one_organization_spends_does_not_count_against_another(two: Any):
    acme, borg = two

    def dear() -> ScriptedModel:
        usage = Usage(input_tokens=10, output_tokens=4_000, requests=1)
        return ScriptedModel([Reply(text="Done.", usage=usage)], name="openai:gpt-4o")

    for engine in (acme, borg):
        await engine.policy.set("spend_per_day_usd", 0.1)
    await acme.run("brew", {"topic": "x"}, artifacts="ask", model=dear())
    with pytest.raises(SpendExceeded):
        await acme.run("brew", {"topic": "x"}, artifacts="ask", model=dear())
    assert (await borg.run("brew", {"topic": "x"}, artifacts="ask", model=dear())).text == "Done."


async def test_organizations_at_work_at_once_never_see_each_other(each_place: Any):
    names = [f"org-{number}" for number in range(4)]

    async def work(engine: Any, name: str) -> None:
        await engine.skills.create(skill("brew", f"Brews for {name}.", f"{name} brews."), scope="account")
        session = await engine.sessions.open("talk")
        for round_number in range(5):
            assert (await engine.skills.get("brew")).body == f"{name} brews."
            assert [found.slug for found in await engine.match(f"brew something for {name}")] == ["brew"]
            await engine.enable("brew", session=session)
            assert f"{name} brews." in await engine.prompt(session)
            model = ScriptedModel([f"{name} {round_number}"])
            result = await engine.run("brew", {"topic": "x"}, artifacts="ask", session=session, model=model)
            assert result.text == f"{name} {round_number}"
            await engine.disable("brew", session=session)
        assert {trace.organization_id for trace in await engine.traces.list()} == {name}
        assert len(await engine.traces.list()) == 5

    async with each_place.open() as engine:
        await asyncio.gather(*(work(engine.as_actor(organization=name), name) for name in names))
        assert await engine.skills.cards() == []
        assert await engine.traces.list() == []
