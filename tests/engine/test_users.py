"""Users of one organization share its skills; what a user keeps for themselves is found by nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prowess.errors import Conflict, NotFound
from prowess.policy.actor import AGENT_PERMISSIONS, Actor
from prowess.skill.kinds import Instructions
from prowess.skill.model import Skill
from prowess.storage.trust import read_accepted

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann")
BEN = Actor(name="ben", organization="acme", user="ben", permissions=AGENT_PERMISSIONS)
BOB = Actor(name="bob", organization="borg", user="ann")
"""A person of another organization, whose user happens to have the same id."""


def skill(slug: str, about: str, text: str) -> Skill:
    return Skill(
        slug=slug, title=slug.title(), description=about, artifacts=(Instructions(name="instructions", content=text),)
    )


@pytest.fixture
async def three(each_place: Any):
    """Ann and Ben of one organization, and Bob of another. Each has a private skill, Ann's organization has one too."""
    async with each_place.open(ANN) as ann:
        ben, bob = ann.as_actor(BEN), ann.as_actor(BOB)
        await ann.skills.create(skill("assay", "Assays metal ore in a crucible.", "Acme assays."), scope="org")
        await ann.skills.create(skill("diary", "Brews coffee in the morning.", "Ann's diary."), scope="user")
        await ben.skills.create(skill("diary", "Writes sonnets about the sea.", "Ben's diary."), scope="user")
        await bob.skills.create(skill("secret", "Trims hedges in the garden.", "Bob's secret."), scope="user")
        yield ann, ben, bob


async def test_everybody_lists_their_own_skills_and_those_of_their_organization(three: Any):
    ann, ben, bob = three
    listed = [[(card.slug, card.scope) for card in await engine.skills.cards()] for engine in three]
    assert listed == [
        [("assay", "org"), ("diary", "user")],
        [("assay", "org"), ("diary", "user")],
        [("secret", "user")],
    ]
    assert (await ann.skills.get("diary")).body == "Ann's diary."
    assert (await ben.skills.get("diary")).body == "Ben's diary."
    assert (await ben.skills.get("assay")).body == "Acme assays."
    with pytest.raises(NotFound):
        await bob.skills.get("assay")


async def test_messages_and_searches_find_only_what_one_may_see(three: Any):
    messages = ["assay this metal ore in the crucible", "brew coffee this morning", "write sonnets about the sea"]
    found = [[[one.slug for one in await engine.match(message)] for message in messages] for engine in three]
    assert found == [[["assay"], ["diary"], []], [["assay"], [], ["diary"]], [[], [], []]]
    assert [[one.slug for one in await engine.skills.search("")] for engine in three] == [
        ["assay", "diary"],
        ["assay", "diary"],
        ["secret"],
    ]
    texts = [(await engine.index("anything")).text for engine in three]
    assert ["coffee" in text for text in texts] == [True, False, False]
    assert ["sonnets" in text for text in texts] == [False, True, False]


async def test_a_user_without_skills_of_their_own_uses_the_index_of_the_organization(three: Any):
    ann, *_ = three
    eve, dan = (ann.as_actor(Actor(name=name, organization="acme", user=name)) for name in ("eve", "dan"))
    assert [one.slug for one in await eve.match("assay this metal ore in the crucible")] == ["assay"]
    assert eve._context.resources.matcher is dan._context.resources.matcher
    await eve.skills.create(skill("plan", "Plans a trip to the mountains.", "Eve's plan."), scope="user")
    assert [one.slug for one in await eve.match("plan a trip to the mountains")] == ["plan"]
    assert await dan.match("plan a trip to the mountains") == []
    assert eve._context.resources.matcher is not dan._context.resources.matcher
    await eve.skills.delete("plan")
    assert await eve.match("plan a trip to the mountains") == []


async def test_a_change_of_a_shared_skill_is_matched_by_everybody_at_once(three: Any):
    ann, ben, _ = three
    for engine in three:
        assert await engine.match("tune a piano by ear") == []
    await ben.skills.create(skill("tune", "Tunes a piano by ear.", "Tune it."), scope="org")
    assert [[one.slug for one in await engine.match("tune a piano by ear")] for engine in three] == [
        ["tune"],
        ["tune"],
        [],
    ]
    await ann.skills.delete("tune")
    assert [await engine.match("tune a piano by ear") for engine in three] == [[], [], []]


async def test_a_private_skill_hides_the_shared_one_for_its_user_only(three: Any):
    ann, ben, _ = three
    await ben.skills.fork("assay", scope="user")
    assert [card.scope for card in await ben.skills.cards() if card.slug == "assay"] == ["user"]
    assert [card.scope for card in await ann.skills.cards() if card.slug == "assay"] == ["org"]
    assert (await ben.skills.get("org:assay")).scope == "org"


async def test_a_slug_exists_once_in_each_scope(three: Any):
    ann, ben, _ = three
    with pytest.raises(Conflict, match="already used in the org scope"):
        await ben.skills.create(skill("assay", "Another one.", "Other."), scope="org")
    with pytest.raises(Conflict, match="already used in the user scope"):
        await ann.skills.create(skill("diary", "Another one.", "Other."), scope="user")


async def test_what_a_user_writes_for_themselves_is_accepted_for_nobody_else(three: Any):
    def accepted(engine: Any) -> set[str]:
        with engine._context.resources.records().read() as connection:
            return {slug for slug, _ in read_accepted(connection, engine.actor.owner, ["assay", "diary", "secret"])}

    assert [[card.trust for card in await engine.skills.cards()] for engine in three] == [["local"] * 2] * 2 + [
        ["local"]
    ]
    eve = three[0].as_actor(Actor(name="eve", organization="acme", user="eve"))
    assert [accepted(engine) for engine in (*three, eve)] == [
        {"assay", "diary"},
        {"assay", "diary"},
        {"secret"},
        {"assay"},
    ]


async def test_many_users_at_work_at_once_keep_to_their_own(each_place: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("prowess.open.MAX_RESOURCES", 3)
    monkeypatch.setattr("prowess.engine.tenants.MAX_MATCHERS", 2)
    people = [Actor(name=f"u{n}", organization=f"org-{n % 2}", user=f"u{n}") for n in range(8)]

    async def work(engine: Any, who: Actor) -> None:
        await engine.as_actor(who).skills.create(
            skill("note", f"Note of {who.name}.", f"{who.name} notes."), scope="user"
        )
        for _ in range(4):
            own = engine.as_actor(who)
            assert (await own.skills.get("note")).body == f"{who.name} notes."
            assert [one.description for one in await own.match(f"note of {who.name}")] == [f"Note of {who.name}."]
            assert [card.slug for card in await own.skills.cards()] == ["note"]

    async with each_place.open() as engine:
        await asyncio.gather(*(work(engine, who) for who in people))
        assert await engine.skills.cards() == []


async def test_metrics_of_an_organization_name_no_private_skill(three: Any):
    ann, *_ = three
    await ann.load("assay")
    await ann.load("diary")
    shown = b""
    # Loads are written in the background.
    async for _ in ann.events.follow(after=0, names=("skill_loaded",)):
        shown = (await ann.events.metrics()).replace(b'"', b"")
        if b"name=other" in shown and b"name=assay" in shown:
            break
    assert b"diary" not in shown
