"""Devai: the five management tools, which agent gets which, and that a broken skill harms nobody."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prowess.policy.actor import Actor, agent_of
from prowess.tools.toolbox import TOOL_ALIASES, Toolbox, builtin_tools

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
MANAGEMENT = {"skill_create", "skill_update", "skill_delete", "skill_reload", "skill_list"}
ROLES = {"CHAPO": "coordinator", "DEVO": "builder", "SCOUT": "scout", "CAIO": "communicator"}


@pytest.fixture
def page(printed: Any) -> str:
    return printed("devai", "## 6. Management Tools for DEVO\n", "## 7.")


def box_of(engine: Any, agent: str) -> Toolbox:
    return Toolbox(engine, actor=agent_of(ANN, name=agent.lower(), role=ROLES[agent]), conversation="chat")


async def management(engine: Any, agent: str) -> set[str]:
    """Return the tools of the page that the agent has. `skill_list` is offered under the name `list_skills`."""
    offered = {tool.name for tool in await box_of(engine, agent).offered()}
    return {name for name in MANAGEMENT if TOOL_ALIASES.get(name, name) in offered}


async def test_the_five_tools_of_the_page_are_there_with_their_arguments(page: str):
    assert set(re.findall(r"^\*\*`(\w+)`\*\*", page, re.MULTILINE)) == MANAGEMENT
    for name in ("skill_create", "skill_update", "skill_delete"):
        line = page[page.index(f"**`{name}`**") :].split("- Args: ")[1].splitlines()[0]
        tool = builtin_tools()[name]
        assert set(re.findall(r"`(\w+)\??`", line)) <= {*tool.parameters["properties"], *tool.aliases}
    assert [name for name, tool in builtin_tools().items() if tool.effect == "destroys"] == ["skill_delete"]


async def test_each_agent_gets_the_tools_that_the_page_gives_it(page: str, place: Any):
    place.skill("letters", fields="metadata:\n  tags: communication\n")
    place.skill("triage", files={"scripts/top.sh": "ps\n"})
    assert "Access: DEVO gets all five. CHAPO gets `skill_list` and `skill_reload` only." in page
    async with place.open(ANN) as engine:
        assert await management(engine, "DEVO") == MANAGEMENT
        assert await management(engine, "CHAPO") == {"skill_list", "skill_reload"}
        assert not await management(engine, "SCOUT") & {"skill_create", "skill_update", "skill_delete"}
        assert not await management(engine, "CAIO") & {"skill_create", "skill_update", "skill_delete"}
        for agent in ("CHAPO", "SCOUT", "CAIO"):
            for name in ("skill_create", "skill_update", "skill_delete"):
                arguments = {"id": "new", "name": "New", "description": "What it is for.", "instructions": "Do."}
                given = {key: value for key, value in arguments.items() if key in builtin_tools()[name].aliases}
                refused = await box_of(engine, agent).call(name, given)
                assert refused.data["error"]["code"] == "refused"
                assert refused.data["hint"]
        enabled = {
            (agent, slug): (await box_of(engine, agent).call("enable_skill", {"skill_slug": slug})).ok
            for agent in ROLES
            for slug in ("letters", "triage")
        }
        assert [pair for pair, ok in enabled.items() if not ok] == [("CAIO", "triage")]
        seen = (await box_of(engine, "SCOUT").call("load_skill", {"name": "triage", "script": "top.sh"})).data
        assert seen["script_content"] is None
        assert "scout" in seen["error"]


async def test_the_printed_skill_is_created_called_by_its_id_and_not_twice(printed: Any, place: Any):
    import json

    manifest = json.loads(printed("devai", "what inputs it needs:\n\n```json\n", "\n```"))
    arguments = {key: manifest[key] for key in ("id", "name", "description", "parameters", "tags")}
    async with place.open(ANN) as engine:
        box = box_of(engine, "DEVO")
        made = await box.call("skill_create", {**arguments, "code": "def execute(args, ctx):\n    return {}\n"})
        assert made.data["status"] == "active"
        skill = await engine.skills.get("generate-image")
        assert (skill.title, skill.tags, skill.author) == ("Bildgenerierung", ("image", "openai"), "agent:devo")
        assert skill.parameters["required"] == ["prompt"]
        assert skill.parameters["properties"]["size"]["default"] == "1024x1024"
        assert (await box.call("skill_reload", {})).data == {"active": 1, "errors": 0}
        again = await box.call("skill_create", {**arguments, "code": "x = 1\n"})
        assert again.data["error"]["code"] == "duplicate-skill"
        changed = await box.call("skill_update", {"id": "generate-image", "description": "Malt Bilder."})
        assert changed.ok
        deleted = await box.call("skill_delete", {"id": "generate-image"})
        assert deleted.data["error"]["code"] == "approval-required"
        assert (await engine.skills.get("generate-image")).description == "Malt Bilder."


async def test_a_broken_skill_is_listed_as_an_error_and_harms_nobody(place: Any):
    place.skill("sound")
    place.write("broken", {"skill.json": "{ not json", "execute.ts": "x"})
    place.write("empty", {"SKILL.md": "---\nname: empty\n---\n"})
    async with place.open(ANN) as engine:
        box = box_of(engine, "CHAPO")
        listed = (await box.call("skill_list", {})).data["skills"]
        [sound] = [skill for skill in listed if skill["skill"] == "sound"]
        assert (sound["title"], sound["status"], sound["trust"]) == ("sound", "active", "local")
        broken = [skill for skill in listed if skill["status"] == "error"]
        assert len(broken) == 2
        assert all(skill["error"] for skill in broken)
        reloaded = (await box.call("skill_reload", {})).data
        assert (reloaded["active"], reloaded["errors"]) == (1, 2)
        assert "list_skills" in reloaded["hint"]
        assert (await box.call("enable_skill", {"skill_slug": "sound"})).ok
        assert (await box.call("search_skills", {"query": "what sound is for"})).data["skills"][0]["skill"] == "sound"
        refused = await box.call("enable_skill", {"skill_slug": "empty"})
        assert "cannot be used" in refused.data["error"]["message"]
