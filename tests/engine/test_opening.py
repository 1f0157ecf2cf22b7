"""Opening an engine: nothing is written before something is kept, and who follows hears of everything."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from prowess.policy.organization import OrgPolicy

pytestmark = pytest.mark.anyio


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
