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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_session_has_the_defaults_of_its_organization(each_place: Any):
    async with each_place.open() as engine:
        session = await engine.session("chat")
        assert (session.budget.limit, session.budget.used, session.enabled, session.role) == (16_000, 0, (), "")
        assert session.conversation == "chat"
        assert (await engine.session("chat")).id == session.id
        assert (await engine.session()).id != (await engine.session()).id


async def test_an_organizations_budget_holds_for_its_new_sessions_and_a_session_can_have_its_own(place: Any):
    async with place.open() as engine:
        await engine.set_policy("skills_max_prompt_chars", 500)
        assert (await engine.session("a")).budget.limit == 500
        assert (await engine.session("b", budget=70)).budget.limit == 70
        assert (await engine.change_session("b", budget=90)).budget.limit == 90


async def test_what_is_enabled_survives_a_restart(each_place: Any):
    each_place.skill("triage")
    async with each_place.open() as engine:
        before = await engine.enable(await engine.session("chat", model="m", window=1_000, role="scout"), "triage")
        prompt = await engine.prompt("chat")
    async with each_place.open() as engine:
        assert await engine.get_session("chat") == before
        assert await engine.prompt("chat") == prompt
        assert [session.id for session in await engine.sessions()] == [before.id]
        assert (await engine.disable("chat", "triage")).budget.used == 0


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
                    await engine.enable("chat", slug)
                except BudgetExceeded:
                    pass
                else:
                    await engine.disable("chat", slug)
        await engine.enable("chat", "shared")

asyncio.run(main())
"""


async def test_two_processes_use_one_session_at_once(each_place: Any):
    for slug in ("one", "two", "three", "four", "shared"):
        each_place.skill(slug)
    async with each_place.open() as engine:
        size = (await engine.enable(await engine.session("probe"), "three")).budget.used
        session = await engine.session("chat", budget=2 * size + 10)
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
                        state = await engine.enable(session, slug)
                    except BudgetExceeded:
                        continue
                    assert state.budget.used <= state.budget.limit
                    await engine.disable(session, slug)
        assert other.returncode == 0
        now = await engine.get_session(session)
        assert [skill.slug for skill in now.enabled] == ["shared"]
        assert now.budget.used == len(await engine.prompt(session))
        events = await engine.events(limit=1_000)
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
        session = await engine.enable(await engine.session("chat"), "triage")
        calls = [
            lambda which: engine.get_session(which, actor=other),
            lambda which: engine.enable(which, "triage", actor=other),
            lambda which: engine.disable(which, "triage", actor=other),
            lambda which: engine.prompt(which, actor=other),
            lambda which: engine.change_session(which, budget=1, actor=other),
            lambda which: engine.close_session(which, actor=other),
            lambda which: engine.why("triage", session=which, actor=other),
            lambda which: engine.index(session=which, actor=other),
        ]
        unknown = session.id[::-1]
        for call in calls:
            told = []
            for which in (session.id, unknown):
                with pytest.raises(NotFound) as caught:
                    await call(which)
                told.append((type(caught.value), caught.value.message.replace(which, "ID"), caught.value.hint))
            assert told[0] == told[1]
        assert await engine.sessions(actor=other) == []
        assert await engine.get_session(session) == session
        own = await engine.session("chat", actor=other)
        assert (own.id != session.id, own.enabled) == (True, ())


async def test_a_load_that_names_somebody_elses_session_is_not_told_in_it(place: Any):
    place.skill("triage")
    bob = Actor(name="bob", organization="acme", user="bob")
    async with place.open(ANN) as engine:
        session = await engine.session("chat")
        assert (await engine.load("triage", session=session, actor=bob))["error"] is None
        assert (await engine.load("triage", session="chat"))["error"] is None
    async with place.open(ANN) as engine:
        told = [(event.user, event.session) for event in await engine.events(names=["skill_loaded"])]
        assert told == [("bob", ""), ("ann", session.id)]
        assert len(await engine.events(session=session.id)) == 1


async def test_a_load_is_told_in_the_organization_of_who_loads(each_place: Any):
    each_place.skill("triage")
    rival = Actor(name="eve", organization="rival", user="eve")
    async with each_place.open(ANN) as engine:
        await engine.load("triage", actor=rival)
        await engine.load("triage")
    async with each_place.open(ANN) as engine:
        assert [event.user for event in await engine.events()] == ["ann"]
    async with each_place.open(rival) as engine:
        assert [event.user for event in await engine.events()] == ["eve"]


async def test_the_agent_of_a_person_works_in_that_persons_sessions(place: Any):
    place.skill("triage")
    async with place.open(ANN) as engine:
        session = await engine.session("chat")
        await engine.enable("chat", "triage", actor=agent_of(ANN))
        assert (await engine.get_session(session)).has("triage")


async def test_a_closed_session_refuses_and_can_be_opened_again(each_place: Any):
    each_place.skill("triage")
    async with each_place.open() as engine:
        await engine.set_policy("skill_enablement_policy", "prompt-user")
        session = await engine.session("chat", budget=5_000)
        await engine.close_session(session)
        await engine.close_session(session)
        for call in (
            engine.enable(session, "triage"),
            engine.disable(session, "triage"),
            engine.prompt(session),
            engine.change_session(session, budget=1),
        ):
            with pytest.raises(Invalid, match="is closed"):
                await call
        assert await engine.approvals() == []
        assert await engine.events() == []
        assert await engine.sessions() == []
        again = await engine.session("chat")
        assert (again.id, again.budget.limit, again.enabled) == (session.id, 16_000, ())
        assert await engine.prompt(again) == ""


async def test_a_session_by_no_proper_name_is_not_there(each_place: Any):
    async with each_place.open() as engine:
        await engine.session("chat")
        for name in HOSTILE:
            with pytest.raises(NotFound) as caught:
                await engine.get_session(name)
            assert len(caught.value.message) < 400


async def test_a_session_is_not_opened_with_what_no_session_can_have(each_place: Any):
    async with each_place.open() as engine:
        for wrong in WRONG:
            with pytest.raises(Invalid) as caught:
                await engine.session(**{"conversation": "chat", **wrong})
            assert caught.value.hint
        assert await engine.sessions() == []


async def test_a_session_of_an_unknown_role_is_not_opened(place: Any):
    async with place.open() as engine:
        with pytest.raises(NotFound, match="role"):
            await engine.session("chat", role="emperor")


async def test_a_session_is_for_who_may_read_skills(place: Any):
    nobody = Actor(name="bob", permissions=frozenset())
    async with place.open(ANN) as engine:
        await engine.session("chat")
        for call in (engine.session("other", actor=nobody), engine.change_session("chat", model="m", actor=nobody)):
            with pytest.raises(Refused, match=r"skills\.read"):
                await call


async def test_only_an_administrator_gives_a_session_more_room_than_the_organization_does(each_place: Any):
    member = Actor(name="bob", organization="acme", user="ann", permissions=frozenset({"skills.read", "skills.write"}))
    async with each_place.open(ANN) as engine:
        for who in (member, agent_of(ANN)):
            with pytest.raises(Refused, match="16,000") as caught:
                await engine.session("chat", budget=16_001, actor=who)
            assert caught.value.hint
            session = await engine.session("chat", budget=100, actor=who)
            with pytest.raises(Refused):
                await engine.change_session(session, budget=16_001, actor=who)
            assert (await engine.change_session(session, budget=16_000, actor=who)).budget.limit == 16_000
            await engine.close_session(session)
        await engine.session("chat")
        assert (await engine.change_session("chat", budget=20_000)).budget.limit == 20_000
        assert (await engine.change_session("chat", budget=18_000, actor=member)).budget.limit == 18_000
