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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def files(*folders: Path) -> set[str]:
    return {str(path) for folder in folders for path in folder.rglob("*") if path.is_file()}


async def test_reading_makes_no_database(place: Any, home: Path):
    place.skill("triage")
    async with place.open() as engine:
        before = files(place.workspace)
        await engine.cards()
        await engine.skill("triage")
        assert await engine.policy() == OrgPolicy()
        await engine.index()
        await engine.look()
        assert files(place.workspace) == before
        assert not [path for path in files(home) if path.endswith(".db")]


async def test_an_engine_hears_what_another_one_does(each_place: Any):
    for slug in ("a", "b", "c"):
        each_place.skill(slug)
    async with each_place.open() as one, each_place.open() as other:
        session = await one.session("chat")
        async with aclosing(one.follow(after=0)) as following:
            for slug in ("a", "b", "c"):
                await other.enable(session.id, slug)
            heard = [await asyncio.wait_for(anext(following), 30) for _ in range(3)]
        assert [event.number for event in heard] == [1, 2, 3]
        assert [event.data["enabled_skills"][-1]["slug"] for event in heard] == ["a", "b", "c"]
        assert heard == await one.events()
        assert await one.events(after=2) == heard[2:]
        assert await one.events(session="nothing") == []


async def test_a_skill_of_another_scope_is_seen_without_opening_anew(place: Any):
    async with place.open() as engine:
        assert await engine.cards() == []
        place.skill("late")
        assert [card.slug for card in await engine.cards()] == ["late"]
        assert (await engine.enable(await engine.session("chat"), "late")).has("late")


async def test_each_organization_hears_of_its_own_whoever_opened_the_engine(each_place: Any):
    each_place.skill("triage")
    rival = Actor(name="eve", organization="rival", user="eve")
    async with each_place.open(ANN) as engine:
        await engine.session("chat", actor=rival)
        async with aclosing(engine.follow(after=0, actor=rival)) as following:
            waits = asyncio.create_task(anext(following))
            await engine.enable("chat", "triage", actor=rival)
            heard = await asyncio.wait_for(waits, 30)
        assert (heard.name, heard.user) == ("skills_state_changed", "eve")
        assert await engine.events() == []
        assert await engine.events(actor=rival) == [heard]
        assert (await engine.last_event(), await engine.last_event(actor=rival)) == (0, 1)
        await engine.load("triage", actor=rival)
        assert [card.slug for card, _ in await engine.unused(days=1)] == ["triage"]
        assert await engine.unused(days=1, actor=rival) == []
        assert b"skill_sessions_open 0.0" in await engine.metrics()
        assert b"skill_sessions_open 1.0" in await engine.metrics(actor=rival)


async def test_who_is_no_administrator_sees_the_events_of_its_own_user(each_place: Any):
    each_place.skill("triage")
    bob = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}))
    async with each_place.open(ANN) as engine:
        for who in (ANN, bob):
            await engine.session("chat", actor=who)
            await engine.enable("chat", "triage", actor=who)
        assert [event.user for event in await engine.events()] == ["ann", "bob"]
        for who in (bob, agent_of(bob)):
            assert [event.user for event in await engine.events(actor=who)] == ["bob"]
            async with aclosing(engine.follow(after=0, actor=who)) as following:
                assert (await asyncio.wait_for(anext(following), 30)).user == "bob"
        nobody = Actor(name="bob", organization="acme", user="bob", permissions=frozenset())
        with pytest.raises(Refused):
            await engine.events(actor=nobody)
        with pytest.raises(Refused):
            await anext(engine.follow(after=0, actor=nobody))


async def test_the_outline_of_an_unknown_skill_is_none(place: Any):
    place.skill("triage")
    async with place.open() as engine:
        outline = await engine.outline("workspace:triage")
        assert outline is not None
        assert (outline.slug, outline.digest) == ("triage", (await engine.skill("triage")).digest)
        assert await engine.outline("nothing") is None
        assert await engine.outline("account:triage") is None
