"""Opening an engine: nothing is written before something is kept, and who follows hears of everything."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from prowess.errors import Refused
from prowess.policy.actor import Actor, agent_of
from prowess.policy.organization import OrgPolicy

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann")


def files(*folders: Path) -> set[str]:
    return {str(path) for folder in folders for path in folder.rglob("*") if path.is_file()}


async def test_reading_makes_no_database(place: Any, home: Path):
    place.skill("triage")
    async with place.open() as engine:
        before = files(place.workspace)
        await engine.skills.cards()
        await engine.skills.get("triage")
        assert await engine.policy.get() == OrgPolicy()
        await engine.index()
        await engine.skills.look()
        assert files(place.workspace) == before
        assert not [path for path in files(home) if path.endswith(".db")]


async def test_an_engine_hears_what_another_one_does(each_place: Any):
    for slug in ("a", "b", "c"):
        each_place.skill(slug)
    async with each_place.open() as one, each_place.open() as other:
        session = await one.sessions.open("chat")
        async with aclosing(one.events.follow(after=0)) as following:
            for slug in ("a", "b", "c"):
                await other.enable(slug, session=session.id)
            heard = [await asyncio.wait_for(anext(following), 30) for _ in range(3)]
        assert [event.number for event in heard] == [1, 2, 3]
        assert [event.data["enabled_skills"][-1]["slug"] for event in heard] == ["a", "b", "c"]
        assert heard == await one.events.list()
        assert await one.events.list(after=2) == heard[2:]
        assert await one.events.list(session="nothing") == []


async def test_a_skill_of_another_scope_is_seen_without_opening_anew(place: Any):
    async with place.open() as engine:
        assert await engine.skills.cards() == []
        place.skill("late")
        assert [card.slug for card in await engine.skills.cards()] == ["late"]
        assert (await engine.enable("late", session=await engine.sessions.open("chat"))).has("late")


async def test_each_organization_hears_of_its_own_whoever_opened_the_engine(each_place: Any):
    each_place.skill("triage")
    rival = Actor(name="eve", organization="rival", user="eve")
    async with each_place.open(ANN) as engine:
        await engine.as_actor(rival).sessions.open("chat")
        async with aclosing(engine.as_actor(rival).events.follow(after=0)) as following:
            waits = asyncio.create_task(anext(following))
            await engine.as_actor(rival).enable("triage", session="chat")
            heard = await asyncio.wait_for(waits, 30)
        assert (heard.name, heard.user) == ("skills_state_changed", "eve")
        assert await engine.events.list() == []
        assert await engine.as_actor(rival).events.list() == [heard]
        assert (await engine.events.last(), await engine.as_actor(rival).events.last()) == (0, 1)
        await engine.as_actor(rival).load("triage")
        assert [card.slug for card, _ in await engine.skills.unused(days=1)] == ["triage"]
        assert await engine.as_actor(rival).skills.unused(days=1) == []
        assert b"skill_sessions_open 0.0" in await engine.events.metrics()
        assert b"skill_sessions_open 1.0" in await engine.as_actor(rival).events.metrics()


async def test_who_is_no_administrator_sees_the_events_of_its_own_user(each_place: Any):
    each_place.skill("triage")
    bob = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}))
    async with each_place.open(ANN) as engine:
        for who in (ANN, bob):
            await engine.as_actor(who).sessions.open("chat")
            await engine.as_actor(who).enable("triage", session="chat")
        assert [event.user for event in await engine.events.list()] == ["ann", "bob"]
        for who in (bob, agent_of(bob)):
            assert [event.user for event in await engine.as_actor(who).events.list()] == ["bob"]
            async with aclosing(engine.as_actor(who).events.follow(after=0)) as following:
                assert (await asyncio.wait_for(anext(following), 30)).user == "bob"
        nobody = Actor(name="bob", organization="acme", user="bob", permissions=frozenset())
        with pytest.raises(Refused):
            await engine.as_actor(nobody).events.list()
        with pytest.raises(Refused):
            await anext(engine.as_actor(nobody).events.follow(after=0))


async def test_the_outline_of_an_unknown_skill_is_none(place: Any):
    place.skill("triage")
    async with place.open() as engine:
        outline = await engine.skills.outline("workspace:triage")
        assert outline is not None
        assert (outline.slug, outline.digest) == ("triage", (await engine.skills.get("triage")).digest)
        assert await engine.skills.outline("nothing") is None
        assert await engine.skills.outline("account:triage") is None


async def test_a_closed_engine_refuses_what_it_could_not_record(place: Any):
    place.skill("triage")
    async with place.open() as engine:
        await engine.match("triage")
    with pytest.raises(RuntimeError, match="was closed"):
        await engine.run("triage")
    with pytest.raises(RuntimeError, match="was closed"):
        engine.as_actor(ANN)
    await engine.close()
