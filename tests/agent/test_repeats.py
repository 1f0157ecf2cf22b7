"""A repeated ask is noticed from the record, and the agent is told once to ask whether it should become a skill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu import cpu_limit

from prowess.agent.repeats import SIMILARITY, EarlierMessage, count_occasions, find_repeats, resemblance
from prowess.llm.scripted import ScriptedModel

from .turns import calling, play

pytestmark = pytest.mark.anyio

PAIRS = json.loads((Path(__file__).parent / "repeats.json").read_text("utf-8"))
HINT = "whether it should become a skill"
ASKS = [
    "Turn the numbers of shop-12 into a chart please",
    "turn the numbers of shop-40 into a chart",
    "Please turn the numbers of shop-7 into a chart",
    "Turn the numbers of shop-99 into a chart",
]


async def say(prowess, message: str, *, role: str = "", script=("Here it is.",)) -> str:
    """Send a message in a conversation of its own; return the instructions that the model got."""
    conversation = await prowess.agent.start(role=role)
    with ScriptedModel(list(script)) as model:
        await play(prowess.agent.send(conversation.id, message, model=model))
    return model.requests[0].messages[0].text


@pytest.mark.parametrize("part", ["tuning", "held_out"])
def test_messages_that_ask_for_the_same_are_told_from_others(part):
    wrong = [pair for pair in PAIRS[part]["same"] if resemblance(*pair) < SIMILARITY]
    wrong += [pair for pair in PAIRS[part]["different"] if resemblance(*pair) >= SIMILARITY]
    assert wrong == []


@given(st.text(max_size=80), st.text(max_size=80))
def test_resemblance_is_symmetric_and_between_0_and_1(first, second):
    assert 0 <= resemblance(first, second) == resemblance(second, first) <= 1


def test_a_long_text_without_a_space_is_no_ask_and_takes_no_time():
    with cpu_limit(5):
        assert find_repeats("a" * 200_000, []) == []


async def test_the_third_ask_is_noticed_once(each_place):
    async with each_place.open() as prowess:
        seen = [HINT in await say(prowess, message) for message in ASKS]
        told = await say(prowess, "Write a poem about the sea")
    assert seen == [False, False, True, False]
    assert HINT not in told


async def test_the_hint_names_the_way_that_the_agent_has(place):
    async with place.open() as prowess:
        for message in ASKS[:2]:
            await say(prowess, message)
        assert "delegate it to the builder" in await say(prowess, ASKS[2], role="coordinator")


async def test_an_agent_that_does_not_talk_to_the_person_is_not_told(place):
    async with place.open() as prowess:
        seen = [HINT in await say(prowess, message, role="scout") for message in ASKS]
    assert not any(seen)


async def test_asks_that_a_skill_answered_do_not_count(place):
    place.skill("greeter")
    async with place.open() as prowess:
        used = [calling(("load_skill", {"skill": "greeter"})), "Done."]
        seen = [HINT in await say(prowess, message, script=used) for message in ASKS]
    assert not any(seen)


async def test_repeating_oneself_within_one_conversation_is_one_occasion(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(["Here."] * len(ASKS)) as model:
            for message in ASKS:
                await play(prowess.agent.send(conversation.id, message, model=model))
    assert not any(HINT in request.messages[0].text for request in model.requests)


async def test_what_one_user_asks_is_not_told_about_another(place):
    async with place.open() as prowess:
        for user, message in zip(("ann", "bob", "eve"), ASKS, strict=False):
            own = prowess.as_actor(user=user)
            assert HINT not in await say(own, message)


def test_an_hour_apart_is_another_occasion():
    def at(hour: int, minute: int = 0, conversation: str = "c") -> EarlierMessage:
        when = f"2026-11-16T{hour:02}:{minute:02}:00Z"
        return EarlierMessage(conversation_id=conversation, turn=hour, text="", created_at=when, detail={})

    assert count_occasions([at(9), at(9, 20)]) == 1
    assert count_occasions([at(9), at(12)]) == 2
    assert count_occasions([at(9), at(9, 5, "d")]) == 2
