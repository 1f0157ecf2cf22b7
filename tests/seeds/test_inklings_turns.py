"""Inklings: phase 1 gives a context package, phase 2 is a recorded decision that loads exactly the named artifacts."""

from __future__ import annotations

import json

import pytest

from prowess.errors import Invalid, NotFound, Refused
from prowess.policy.actor import Actor
from prowess.session.turn import TurnDecision

MESSAGE = "are there any contradictions between my pages?"


@pytest.fixture
def checker(place, tmp_path, printed):
    """An engine that keeps the printed Consistency Checker."""
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    file = tmp_path / "consistency-checker.json"
    file.write_text(json.dumps(json.loads(text)))

    async def keep(prowess):
        await prowess.skills.import_path(file)
        return prowess

    return place, keep


@pytest.mark.anyio
async def test_the_context_package_has_ranked_skills_their_descriptions_and_the_state_of_the_session(checker) -> None:
    place, keep = checker
    async with place.open() as prowess:
        await keep(prowess)
        session = await prowess.sessions.open("chat")
        package = await prowess.turns.context(MESSAGE, session=session)
    told = package.as_json()
    assert told["skill_recommendations"][0]["slug"] == "consistency-checker"
    assert told["descriptions"]["consistency-checker"].startswith("Analyzes workspace content")
    assert (told["session"]["id"], told["session"]["budget_used_chars"]) == (session.id, 0)
    assert "{{ entity_name }}" not in json.dumps(told)
    assert "import inklings" not in json.dumps(told)


@pytest.mark.anyio
async def test_activating_puts_the_description_into_the_prompt_and_loads_the_named_artifacts_alone(checker) -> None:
    place, keep = checker
    async with place.open() as prowess:
        await keep(prowess)
        session = await prowess.sessions.open("chat")
        package = await prowess.turns.context(MESSAGE, session=session)
        decision = TurnDecision(
            action="activate", skill="consistency-checker", artifacts=("Check Prompt",), reason="It asks for conflicts."
        )
        turn = await prowess.turns.decide(package, decision)
        prompt = await prowess.prompt(session)
    async with place.open() as prowess:
        [event] = [event for event in await prowess.events.list() if event.name == "decision_made"]
    assert [artifact.name for artifact in turn.artifacts] == ["Check Prompt"]
    assert "{{ entity_name }}" in turn.artifacts[0].content
    assert "analyzes content across your workspace" in prompt
    assert turn.text in prompt
    assert turn.session is not None
    assert turn.session.has("consistency-checker")
    assert (event.data["action"], event.data["artifacts"], event.session) == ("activate", ["Check Prompt"], session.id)
    assert event.data["recommended"][0]["skill"] == "consistency-checker"


@pytest.mark.anyio
async def test_a_skill_can_be_activated_without_a_session(checker) -> None:
    place, keep = checker
    async with place.open() as prowess:
        await keep(prowess)
        package = await prowess.turns.context(MESSAGE)
        turn = await prowess.turns.decide(package, await prowess.turns.suggest(package))
    assert turn.decision.skill == "consistency-checker"
    assert "analyzes content across your workspace" in turn.text
    assert (turn.session, turn.artifacts) == (None, ())


@pytest.mark.anyio
async def test_without_a_fitting_skill_the_suggestion_is_to_answer(checker) -> None:
    place, keep = checker
    async with place.open() as prowess:
        await keep(prowess)
        package = await prowess.turns.context("thanks, good night!")
        decision = await prowess.turns.suggest(package)
        turn = await prowess.turns.decide(package, decision)
    assert (turn.decision.action, turn.text) == ("answer", "")


@pytest.mark.anyio
async def test_an_artifact_that_does_not_exist_enables_nothing(checker) -> None:
    place, keep = checker
    async with place.open() as prowess:
        await keep(prowess)
        session = await prowess.sessions.open("chat")
        package = await prowess.turns.context(MESSAGE, session=session)
        wrong = TurnDecision(action="activate", skill="consistency-checker", artifacts=("Nothing",))
        with pytest.raises(NotFound, match="Nothing") as caught:
            await prowess.turns.decide(package, wrong)
        after = await prowess.sessions.get(session)
    assert "Check Prompt" in caught.value.hint
    assert after.enabled == ()


@pytest.mark.anyio
async def test_an_agent_activates_only_what_the_gate_admits(checker) -> None:
    place, keep = checker
    async with place.open() as prowess:
        await keep(prowess)
        agent = prowess.as_actor(Actor(name="bot", kind="agent", permissions=frozenset()))
        package = await agent.turns.context(MESSAGE)
        with pytest.raises(Refused):
            await agent.turns.decide(package, TurnDecision(action="activate", skill="consistency-checker"))


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "activate"},
        {"action": "answer", "skill": "x"},
        {"action": "dance"},
        {"action": "clarify", "artifacts": ("A",)},
    ],
)
def test_a_decision_that_contradicts_itself_is_invalid(fields) -> None:
    with pytest.raises(Invalid):
        TurnDecision(**fields)
