"""Changes that other programs make in skill folders, and changes of settings, are published."""

from __future__ import annotations

import time
from typing import Any

import pytest

from prowess.engine.folder_watch import FolderWatch
from prowess.policy.actor import Actor
from prowess.storage.files import freshness

pytestmark = pytest.mark.anyio
ANN = Actor(name="ann", organization="acme", user="ann")
BOB = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all files be older than the tick of the file system's clock, in which a change would keep their times."""
    now = time.time_ns
    monkeypatch.setattr(freshness.time, "time_ns", lambda: now() + 3_000_000_000)


@pytest.mark.usefixtures("settled")
async def test_files_that_another_program_changes_are_announced_once(place: Any):
    skill = place.skill("triage", "Check the locks first.")
    async with place.open() as prowess:
        watch = FolderWatch(prowess.context)
        assert not watch.look()  # as it was at the first look
        assert not watch.look()
        (skill / "SKILL.md").write_text((skill / "SKILL.md").read_text() + "\nMore.\n")
        assert watch.look()
        assert not watch.look()
        (event,) = await prowess.events.list(names=["catalog_changed"])
    assert event.data == {"action": "folder", "skill": None, "count": 1}


async def test_everybody_in_the_organization_hears_of_changed_settings_and_skills_that_are_switched_off(
    each_place: Any,
):
    async with each_place.open(ANN) as prowess:
        await prowess.policy.set("skill_enablement_policy", "prompt-user")
        await prowess.policy.set("skill_enablement_policy", "prompt-user")  # changes nothing
        await prowess.policy.set("disabled_skills", ["triage"])
        names = ["settings_changed", "catalog_changed"]
        heard = await prowess.as_actor(BOB).events.list(names=names)
        elsewhere = Actor(name="eve", organization="globex", user="eve")
        assert await prowess.as_actor(elsewhere).events.list(names=names) == []
    assert [(one.name, one.data) for one in heard] == [
        ("settings_changed", {"settings": ["skill_enablement_policy"]}),
        ("settings_changed", {"settings": ["disabled_skills"]}),
        ("catalog_changed", {"action": "switch", "skill": "triage", "count": 1}),
    ]
