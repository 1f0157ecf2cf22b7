"""Sessions as a caller of the engine meets them: they last, are shared by processes, and belong to one owner."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from prowess.errors import BudgetExceeded, Invalid, NotFound, Refused
from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann")
HOSTILE = ["nobody", "", "../x", "a\0b", "\ud800", "x" * 5_000, "%", "' OR 1=1 --"]

WRONG: list[dict[str, Any]] = [
    {"conversation": "a\0b"},
    {"conversation": "x" * 201},
    {"conversation": "two\nlines"},
    {"model": "a\0b"},
    {"model": "x" * 201},
    {"window": -1},
    {"budget": -1},
    {"budget": 10**10},
]


async def test_a_session_has_the_defaults_of_its_organization(each_place: Any):
    async with each_place.open() as engine:
        session = await engine.sessions.open("chat")
        assert (session.budget.limit, session.budget.used, session.enabled, session.role) == (16_000, 0, (), "")
        assert session.conversation == "chat"
        assert (await engine.sessions.open("chat")).id == session.id
        assert (await engine.sessions.open()).id != (await engine.sessions.open()).id


async def test_an_organizations_budget_holds_for_its_new_sessions_and_a_session_can_have_its_own(place: Any):
    async with place.open() as engine:
        await engine.policy.set("skills_max_prompt_chars", 500)
        assert (await engine.sessions.open("a")).budget.limit == 500
        assert (await engine.sessions.open("b", budget=70)).budget.limit == 70
        assert (await engine.sessions.change("b", budget=90)).budget.limit == 90


async def test_what_is_enabled_survives_a_restart(each_place: Any):
    each_place.skill("triage")
    async with each_place.open() as engine:
        before = await engine.enable(
            "triage", session=await engine.sessions.open("chat", model="m", window=1_000, role="scout")
        )
        prompt = await engine.prompt("chat")
    async with each_place.open() as engine:
        assert await engine.sessions.get("chat") == before
        assert await engine.prompt("chat") == prompt
        assert [session.id for session in await engine.sessions.list()] == [before.id]
        assert (await engine.disable("triage", session="chat")).budget.used == 0


_OTHER_PROCESS = """
import asyncio, sys
from prowess import Prowess
from prowess.errors import BudgetExceeded

async def main():
    async with Prowess.open() as engine:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(6):
            for slug in sys.argv[1:]:
                try:
                    await engine.enable(slug, session="chat")
                except BudgetExceeded:
                    pass
                else:
                    await engine.disable(slug, session="chat")
        await engine.enable("shared", session="chat")

asyncio.run(main())
"""


async def test_two_processes_use_one_session_at_once(each_place: Any):
    for slug in ("one", "two", "three", "four", "shared"):
        each_place.skill(slug)
    async with each_place.open() as engine:
        size = (await engine.enable("three", session=await engine.sessions.open("probe"))).budget.used
        session = await engine.sessions.open("chat", budget=2 * size + 10)
        with subprocess.Popen(  # noqa: ASYNC220  (the other process is written to and read from in turns)
            [sys.executable, "-c", _OTHER_PROCESS, "one", "two"],
            env={**os.environ, **each_place.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other:
            assert await asyncio.to_thread(other.stdout.readline) == "ready\n"
            other.stdin.write("go\n")
            other.stdin.flush()
            for _ in range(6):
                for slug in ("three", "four"):
                    try:
                        state = await engine.enable(slug, session=session)
                    except BudgetExceeded:
                        continue
                    assert state.budget.used <= state.budget.limit
                    await engine.disable(slug, session=session)
        assert other.returncode == 0
        now = await engine.sessions.get(session)
        assert [skill.slug for skill in now.enabled] == ["shared"]
        assert now.budget.used == len(await engine.prompt(session))
        events = await engine.events.list(limit=1_000)
        assert [event.number for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize(
    "other",
    [
        Actor(name="bob", organization="acme", user="bob"),
        Actor(name="ann", organization="rival", user="ann"),
        agent_of(Actor(name="bob", organization="acme", user="bob")),
    ],
    ids=["another-user", "another-organization", "another-users-agent"],
)
async def test_somebody_elses_session_is_answered_exactly_as_an_unknown_one(each_place: Any, other: Actor):
    each_place.skill("triage")
    async with each_place.open(ANN) as engine:
        session = await engine.enable("triage", session=await engine.sessions.open("chat"))
        calls = [
            engine.as_actor(other).sessions.get,
            lambda which: engine.as_actor(other).enable("triage", session=which),
            lambda which: engine.as_actor(other).disable("triage", session=which),
            engine.as_actor(other).prompt,
            lambda which: engine.as_actor(other).sessions.change(which, budget=1),
            engine.as_actor(other).sessions.close,
            lambda which: engine.as_actor(other).why("triage", session=which),
            lambda which: engine.as_actor(other).index(session=which),
        ]
        unknown = session.id[::-1]
        for call in calls:
            told = []
            for which in (session.id, unknown):
                with pytest.raises(NotFound) as caught:
                    await call(which)
                told.append((type(caught.value), caught.value.message.replace(which, "ID"), caught.value.hint))
            assert told[0] == told[1]
        assert await engine.as_actor(other).sessions.list() == []
        assert await engine.sessions.get(session) == session
        own = await engine.as_actor(other).sessions.open("chat")
        assert (own.id != session.id, own.enabled) == (True, ())


async def test_a_load_that_names_somebody_elses_session_is_not_told_in_it(place: Any):
    place.skill("triage")
    bob = Actor(name="bob", organization="acme", user="bob")
    async with place.open(ANN) as engine:
        session = await engine.sessions.open("chat")
        assert (await engine.as_actor(bob).load("triage", session=session))["error"] is None
        assert (await engine.load("triage", session="chat"))["error"] is None
    async with place.open(ANN) as engine:
        told = [(event.user, event.session) for event in await engine.events.list(names=["skill_loaded"])]
        assert told == [("bob", ""), ("ann", session.id)]
        assert len(await engine.events.list(session=session.id)) == 1


async def test_a_load_is_told_in_the_organization_of_who_loads(each_place: Any):
    each_place.skill("triage")
    rival = Actor(name="eve", organization="rival", user="eve")
    async with each_place.open(ANN) as engine:
        await engine.as_actor(rival).load("triage")
        await engine.load("triage")
    async with each_place.open(ANN) as engine:
        assert [event.user for event in await engine.events.list()] == ["ann"]
    async with each_place.open(rival) as engine:
        assert [event.user for event in await engine.events.list()] == ["eve"]


async def test_the_agent_of_a_person_works_in_that_persons_sessions(place: Any):
    place.skill("triage")
    async with place.open(ANN) as engine:
        session = await engine.sessions.open("chat")
        await engine.as_actor(agent_of(ANN)).enable("triage", session="chat")
        assert (await engine.sessions.get(session)).has("triage")


async def test_a_closed_session_refuses_and_can_be_opened_again(each_place: Any):
    each_place.skill("triage")
    async with each_place.open() as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        session = await engine.sessions.open("chat", budget=5_000)
        await engine.sessions.close(session)
        await engine.sessions.close(session)
        for call in (
            engine.enable("triage", session=session),
            engine.disable("triage", session=session),
            engine.prompt(session),
            engine.sessions.change(session, budget=1),
        ):
            with pytest.raises(Invalid, match="is closed"):
                await call
        assert await engine.approvals.list() == []
        assert [event.name for event in await engine.events.list()] == ["settings_changed"]
        assert await engine.sessions.list() == []
        again = await engine.sessions.open("chat")
        assert (again.id, again.budget.limit, again.enabled) == (session.id, 16_000, ())
        assert await engine.prompt(again) == ""


async def test_a_session_by_no_proper_name_is_not_there(each_place: Any):
    async with each_place.open() as engine:
        await engine.sessions.open("chat")
        for name in HOSTILE:
            with pytest.raises(NotFound) as caught:
                await engine.sessions.get(name)
            assert len(caught.value.message) < 400


async def test_a_session_is_not_opened_with_what_no_session_can_have(each_place: Any):
    async with each_place.open() as engine:
        for wrong in WRONG:
            with pytest.raises(Invalid) as caught:
                await engine.sessions.open(**{"conversation": "chat", **wrong})
            assert caught.value.hint
        assert await engine.sessions.list() == []


async def test_a_session_is_not_opened_with_a_name_that_is_no_text(place: Any):
    async with place.open() as engine:
        with pytest.raises(Invalid, match="The conversation must be a string, not int"):
            await engine.sessions.open(7)
        with pytest.raises(Invalid, match="The model must be a string, not int"):
            await engine.sessions.open("chat", model=3)


async def test_a_session_of_an_unknown_role_is_not_opened(place: Any):
    async with place.open() as engine:
        with pytest.raises(NotFound, match="role"):
            await engine.sessions.open("chat", role="emperor")


async def test_a_session_is_for_who_may_read_skills(place: Any):
    nobody = Actor(name="bob", permissions=frozenset())
    async with place.open(ANN) as engine:
        await engine.sessions.open("chat")
        for call in (
            engine.as_actor(nobody).sessions.open("other"),
            engine.as_actor(nobody).sessions.change("chat", model="m"),
        ):
            with pytest.raises(Refused, match=r"skills\.read"):
                await call


async def test_only_an_administrator_gives_a_session_more_room_than_the_organization_does(each_place: Any):
    member = Actor(name="bob", organization="acme", user="ann", permissions=frozenset({"skills.read", "skills.write"}))
    async with each_place.open(ANN) as engine:
        for who in (member, agent_of(ANN)):
            with pytest.raises(Refused, match="16,000") as caught:
                await engine.as_actor(who).sessions.open("chat", budget=16_001)
            assert caught.value.hint
            session = await engine.as_actor(who).sessions.open("chat", budget=100)
            with pytest.raises(Refused):
                await engine.as_actor(who).sessions.change(session, budget=16_001)
            assert (await engine.as_actor(who).sessions.change(session, budget=16_000)).budget.limit == 16_000
            await engine.sessions.close(session)
        await engine.sessions.open("chat")
        assert (await engine.sessions.change("chat", budget=20_000)).budget.limit == 20_000
        assert (await engine.as_actor(member).sessions.change("chat", budget=18_000)).budget.limit == 18_000
