"""Devai: every skill is a tool, called like any other; which agent gets which, and what a broken one does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prowess.policy.actor import Actor, agent_of
from prowess.tools.toolbox import Toolbox, builtin_tools

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
ROLES = {"CHAPO": "coordinator", "DEVO": "builder", "SCOUT": "scout", "CAIO": "communicator"}
CODE = (
    "def execute(args, ctx):\n    ctx.log('painting')\n    return {'success': True, 'result': {'size': args['size']}}\n"
)


@pytest.fixture
def manifest(printed: Any) -> dict[str, Any]:
    return json.loads(printed("devai", "what inputs it needs:\n\n```json\n", "\n```"))


@pytest.fixture
def arguments(manifest: dict[str, Any]) -> dict[str, Any]:
    """What DEVO gives to skill_create."""
    return {**{key: manifest[key] for key in ("id", "name", "description", "parameters", "tags")}, "code": CODE}


def box_of(engine: Any, agent: str) -> Toolbox:
    return Toolbox(engine, actor=agent_of(ANN, name=agent.lower(), role=ROLES[agent]), conversation="chat")


async def skills_of(engine: Any, agent: str) -> list[str]:
    return [tool.name for tool in await box_of(engine, agent).offered() if tool.name not in builtin_tools()]


async def test_the_printed_folder_is_a_tool_under_the_printed_name(printed: Any, place: Any, manifest: dict[str, Any]):
    code = printed("devai", "```typescript\n", "```", after="exports a single function with a strict contract")
    called = printed("devai", "Agents call them like any other tool:\n\n```\n", "(")
    place.write("generate-image", {"skill.json": json.dumps(manifest), "execute.ts": code})
    async with place.open(ANN) as engine:
        assert await skills_of(engine, "CHAPO") == [called]
        tool = (await box_of(engine, "CHAPO").offered())[-1]
        assert tool.description == manifest["description"]
        assert tool.parameters["required"] == ["prompt"]
        assert tool.parameters["properties"]["prompt"]["description"] == "Bildbeschreibung"
        assert tool.parameters["properties"]["size"]["default"] == "1024x1024"


async def test_skill_tools_go_to_the_agents_that_the_page_gives_them(
    printed: Any, place: Any, manifest: dict[str, Any]
):
    access = printed("devai", "**Tool access:** ", "\n")
    assert access.startswith("Skill tools granted to CHAPO and DEVO by default. SCOUT stays read-only.")
    assert "CAIO gets skills tagged `communication` only." in access
    for slug, tags in (("generate-image", ["image"]), ("send-letter", ["communication"])):
        place.write(slug, {"skill.json": json.dumps({**manifest, "id": slug, "tags": tags}), "execute.py": CODE})
    async with place.open(ANN) as engine:
        both = ["skill_generate_image", "skill_send_letter"]
        assert {agent: await skills_of(engine, agent) for agent in ROLES} == {
            "CHAPO": both,
            "DEVO": both,
            "SCOUT": [],
            "CAIO": ["skill_send_letter"],
        }
        for agent, name in (("SCOUT", "skill_generate_image"), ("CAIO", "skill_generate_image")):
            refused = await box_of(engine, agent).call(name, {"prompt": "A cat in space"})
            assert (refused.data["success"], refused.data["code"]) == (False, "refused")


async def test_devo_makes_tests_changes_and_removes_a_skill_as_the_page_says(sandboxed: Any, arguments: dict[str, Any]):
    async with sandboxed.open(ANN) as engine:
        devo = box_of(engine, "DEVO")
        made = await devo.call("skill_create", arguments)
        assert (made.data["status"], made.data["tool"]) == ("active", "skill_generate_image")
        assert await skills_of(engine, "DEVO") == ["skill_generate_image"]
        painted = await devo.call("skill_generate_image", {"prompt": "A cat in space"})
        assert (painted.data["success"], painted.data["result"]) == (True, {"size": "1024x1024"})
        wrong = await devo.call("skill_generate_image", {"size": "1x1"})
        assert wrong.data["success"] is False
        assert "prompt" in wrong.data["error"]
        throws = "def execute(args, ctx):\n    raise RuntimeError('out of paint')\n"
        await devo.call("skill_update", {"id": "generate-image", "code": throws, "description": "Malt Bilder."})
        failed = await devo.call("skill_generate_image", {"prompt": "A cat in space"})
        assert failed.data["success"] is False
        assert "out of paint" in failed.data["error"]
        assert [trace.status for trace in await engine.traces.list()].count("ok") == 1
        asks = await devo.call("skill_delete", {"id": "generate-image"})
        await engine.approvals.resolve(asks.data["approval_id"], approved=True)
        assert (await devo.call("skill_delete", {"id": "generate-image"})).ok
        assert await skills_of(engine, "DEVO") == []


async def test_the_list_has_every_skill_with_its_tool_and_the_broken_ones_with_the_reason(
    place: Any, manifest: dict[str, Any]
):
    place.write("generate-image", {"skill.json": json.dumps(manifest), "execute.py": CODE})
    place.write("broken", {"skill.json": "{ not json", "execute.py": CODE})
    async with place.open(ANN) as engine:
        chapo = box_of(engine, "CHAPO")
        assert (await chapo.call("skill_reload", {})).data["errors"] == 1
        told = {
            skill["skill"].rpartition("/")[2]: skill for skill in (await chapo.call("skill_list", {})).data["skills"]
        }
        assert (told["generate-image"]["status"], told["generate-image"]["tool"]) == ("active", "skill_generate_image")
        assert (told["broken"]["status"], bool(told["broken"]["error"])) == ("error", True)
        assert await skills_of(engine, "CHAPO") == ["skill_generate_image"]
