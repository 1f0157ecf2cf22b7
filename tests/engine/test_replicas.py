"""Several servers work on one database: what one of them acknowledges, the others know at the next request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prowess.engine.tenants import Matchers
from prowess.errors import ApprovalRequired, Invalid
from prowess.open import Prowess
from prowess.policy.actor import Actor, agent_of
from prowess.settings import read_settings
from prowess.skill.kinds import Instructions
from prowess.skill.model import Skill
from prowess.storage import skills as skill_rows

pytestmark = pytest.mark.anyio

KEY = "correct horse battery staple correct horse"
ANN = Actor(name="ann", organization="acme", user="ann")
BEN = Actor(name="ben", organization="acme", user="ben")


def skill(slug: str, about: str, text: str = "Do it.") -> Skill:
    return Skill(
        slug=slug, title=slug.title(), description=about, artifacts=(Instructions(name="instructions", content=text),)
    )


def replica(tmp_path: Path, database_url: str, name: str, *, key: str = KEY) -> Prowess:
    """An engine on a machine of its own, which shares nothing with the others but a database and a key."""
    home = tmp_path / name
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PROWESS_DATABASE_URL": database_url, "PROWESS_SECRET_KEY": key}
    switches = dict.fromkeys(("PROWESS_SKILL_FOLDERS", "PROWESS_SYSTEM_SKILLS", "PROWESS_BACKGROUND"), "off")
    return Prowess.open(settings=read_settings({**environment, **switches}, workspace=home), actor=ANN)


@pytest.fixture
async def pair(tmp_path: Path, database_url: str):
    async with replica(tmp_path, database_url, "one") as one, replica(tmp_path, database_url, "two") as two:
        yield one, two


async def test_skills_that_one_server_writes_are_listed_read_and_matched_by_the_other_at_once(pair: Any):
    one, two = pair
    message = "assay this metal ore in the crucible"
    assert await two.match(message) == []
    assert (await two.skills.inventory()).skills is False
    await one.skills.create(skill("assay", "Assays metal ore in a crucible."), scope="org")
    assert [found.slug for found in await two.match(message)] == ["assay"]
    assert [card.slug for card in await two.skills.cards()] == ["assay"]
    assert (await two.skills.inventory()).skills is True
    assert "assay" in (await two.index("anything")).text
    await two.skills.delete("assay")
    assert await one.match(message) == []
    assert await one.skills.cards() == []


async def test_a_first_private_skill_written_on_one_server_is_matched_by_the_other_at_once(pair: Any):
    one, two = pair
    ben = two.as_actor(BEN)
    message = "write sonnets about the sea"
    assert await ben.match(message) == []
    await one.as_actor(BEN).skills.create(skill("diary", "Writes sonnets about the sea."), scope="user")
    assert [found.slug for found in await ben.match(message)] == ["diary"]
    assert await two.match(message) == []
    await ben.skills.delete("diary")
    assert await one.as_actor(BEN).match(message) == []


async def test_a_skill_enabled_on_one_server_is_in_the_prompt_of_the_other(pair: Any):
    one, two = pair
    await one.skills.create(skill("assay", "Assays metal ore.", "Heat the crucible."), scope="org")
    session = await one.sessions.open("talk")
    await one.enable("assay", session=session)
    assert "Heat the crucible." in await two.prompt("talk")
    await two.disable("assay", session="talk")
    assert "Heat the crucible." not in await one.prompt("talk")


async def test_settings_changed_on_one_server_hold_on_the_other_at_once(pair: Any):
    one, two = pair
    agents = [engine.as_actor(agent_of(ANN)) for engine in pair]
    await one.skills.create(skill("assay", "Assays metal ore in a crucible.", "Heat the crucible."), scope="org")
    for agent in agents:
        assert "Heat" in (await agent.load("assay"))["body"]
    await one.policy.switch("assay", on=False)
    assert (await agents[1].load("assay"))["error"]
    assert await two.match("assay this metal ore in the crucible") == []
    await two.policy.switch("assay", on=True)
    assert "Heat" in (await agents[0].load("assay"))["body"]
    await two.policy.set("skill_enablement_policy", "prompt-user")
    session = await agents[0].sessions.open("talk")
    with pytest.raises(ApprovalRequired):
        await agents[0].enable("assay", session=session)


async def test_a_session_opened_on_one_server_gives_the_agent_its_role_on_the_other(tmp_path: Path, postgres_url: str):
    agent = agent_of(ANN)
    async with replica(tmp_path, postgres_url, "one") as one, replica(tmp_path, postgres_url, "two") as two:
        await two.sessions.acting("talk")
        await one.sessions.open("talk", role="coordinator")
        assert (await two.as_actor(agent).sessions.acting("talk")).role == "coordinator"


async def test_rows_that_another_server_sealed_are_listed_without_reading_their_files(
    pair: Any, monkeypatch: pytest.MonkeyPatch
):
    one, two = pair
    for number in range(3):
        await one.skills.create(skill(f"assay-{number}", "Assays metal ore."), scope="org")
    read: list[object] = []
    monkeypatch.setattr(skill_rows, "get_stored", lambda *given: read.append(given) or {})
    assert len(await two.skills.cards()) == 3
    assert read == []


async def test_what_was_sealed_before_there_was_a_key_is_sealed_again_once(tmp_path: Path, database_url: str):
    async with replica(tmp_path, database_url, "one", key="") as before:
        await before.skills.create(skill("assay", "Assays metal ore.", "Heat the crucible."), scope="org")
        await before.enable("assay", session=await before.sessions.open("talk"))
    async with replica(tmp_path, database_url, "two") as other:
        assert [card.slug for card in await other.skills.cards()] == ["assay"]
        with other._context.resources.records().read() as connection:
            [(_, seal, _)] = skill_rows.get_marks(connection, tenant()).values()
    async with replica(tmp_path, database_url, "one") as same:
        assert "Heat the crucible." in await same.prompt("talk")
        await same.skills.cards()
        with same._context.resources.records().read() as connection:
            assert [mark[1] for mark in skill_rows.get_marks(connection, tenant()).values()] == [seal]


def tenant() -> Any:
    from prowess.storage.owner import Tenant

    return Tenant(organization_id="acme", scope="org")


async def test_a_match_while_nothing_changes_does_not_look_at_the_catalog(pair: Any, monkeypatch: pytest.MonkeyPatch):
    one, _ = pair
    await one.skills.create(skill("assay", "Assays metal ore in a crucible."), scope="org")
    matcher = Matchers.find
    looks: list[int] = []
    monkeypatch.setattr(
        Matchers, "find", lambda self, own: looks.append(matcher(self, own)._news) or matcher(self, own)
    )
    for _ in range(5):
        await one.match("assay this metal ore in the crucible")
    assert len(set(looks)) == 1


@pytest.mark.parametrize("key", ["sesame", "x" * 31])
def test_a_key_that_is_too_short_is_refused_without_being_shown(tmp_path: Path, key: str):
    with pytest.raises(Invalid) as refused:
        read_settings({"HOME": str(tmp_path), "PROWESS_SECRET_KEY": key}, workspace=tmp_path)
    assert key not in f"{refused.value} {refused.value.hint}"
    assert "PROWESS_SECRET_KEY" in refused.value.message


def test_the_settings_never_show_the_key(tmp_path: Path):
    assert KEY not in repr(read_settings({"HOME": str(tmp_path), "PROWESS_SECRET_KEY": KEY}, workspace=tmp_path))
