"""Skills as tools over MCP: list, announce, call and approve them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from mcp.server.subscriptions import ToolsListChanged
from mcp_types import ElicitResult

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.mcp.protocol import TOOLS_PER_PAGE
from prowess.policy.actor import agent_of, local_person
from prowess.skill.kinds import Function
from prowess.skill.model import Skill

pytestmark = pytest.mark.anyio

PATIENCE = 60
MODES = ["legacy", "auto"]
CODE = "def execute(args, ctx):\n    return {'success': True, 'result': args['a'] + args['b']}\n"
NEW = {
    "id": "add-up",
    "name": "Add up",
    "description": "Adds two numbers.",
    "parameters": {"a": {"type": "number", "required": True}, "b": {"type": "number", "default": 1}},
    "code": CODE,
}


@pytest.fixture
def write_function(workspace: Path, write_files):
    """Return a function that writes a skill with code into the workspace."""

    def write(slug: str, code: str = CODE, **fields):
        manifest = {**{key: NEW[key] for key in ("description", "parameters")}, "id": slug, "name": slug, **fields}
        files = {"skill.json": json.dumps(manifest), "execute.py": code}
        write_files(workspace / ".agents/skills" / slug, files)

    return write


async def every_tool(client):
    """Return the tools of all pages, and the number of pages."""
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = await client.list_tools(cursor=cursor)
        found, cursor, pages = [*found, *page.tools], page.next_cursor, pages + 1
    return found, pages


async def skill_tools(client):
    return [tool.name for tool in (await every_tool(client))[0] if tool.name in ("skill_add_up", "skill_other")]


@pytest.mark.parametrize("mode", MODES)
async def test_a_skill_with_a_function_is_a_tool_with_schema_and_hints(in_memory, write_function, mode):
    write_function("add-up", name="Add up")
    write_function("other", hosts=["api.example.com"])
    async with in_memory(mode) as client:
        tools = {tool.name: tool for tool in (await every_tool(client))[0]}
    tool, other = tools["skill_add_up"], tools["skill_other"]
    assert (tool.title, tool.description) == ("Add up", "Adds two numbers.")
    assert tool.input_schema["required"] == ["a"]
    assert tool.output_schema["required"] == ["success"]
    hints = tool.annotations
    assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (None, False, False)
    assert (other.annotations.destructive_hint, other.annotations.open_world_hint) == (True, True)


async def test_many_tools_come_in_pages_and_none_twice(in_memory, write_function):
    for number in range(TOOLS_PER_PAGE + 5):
        write_function(f"fn-{number:04}")
    async with in_memory("auto") as client:
        found, pages = await every_tool(client)
    names = [tool.name for tool in found]
    assert pages == 2
    assert len(set(names)) == len(names)
    assert [name for name in names if name.startswith("skill_fn")] == [
        f"skill_fn_{number:04}" for number in range(TOOLS_PER_PAGE + 5)
    ]


async def test_a_tool_that_an_agent_made_is_announced_and_there(in_memory):
    async with in_memory("auto") as client, client.listen(tools_list_changed=True) as events:
        assert await skill_tools(client) == []
        made = await client.call_tool("skill_create", NEW)
        assert made.structured_content["tool"] == "skill_add_up"
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ToolsListChanged()
        assert await skill_tools(client) == ["skill_add_up"]
        await client.call_tool("skill_update", {"id": "add-up", "description": "Adds."})
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ToolsListChanged()


async def test_a_tool_that_is_disabled_is_announced_and_gone(engine, in_memory, write_function):
    write_function("add-up")
    async with in_memory("auto") as client, client.listen(tools_list_changed=True) as events:
        assert await skill_tools(client) == ["skill_add_up"]
        await engine.as_actor(local_person("ann")).policy.set("disabled_skills", ["add-up"])
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ToolsListChanged()
        assert await skill_tools(client) == []


async def test_a_tool_that_a_person_has_agreed_to_is_announced(engine, in_memory):
    ann = local_person("ann")
    await engine.as_actor(agent_of(ann, name="maker")).skills.create(written())
    caller = Caller(actor=agent_of(ann, name="other"))
    async with in_memory("auto", caller=caller) as client, client.listen(tools_list_changed=True) as events:
        assert await skill_tools(client) == []
        asked = await client.call_tool("skill_add_up", {"a": 1})
        assert asked.is_error
        assert asked.structured_content["success"] is False
        await engine.as_actor(ann).approvals.resolve(asked.structured_content["approval_id"], approved=True)
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ToolsListChanged()
        assert await skill_tools(client) == ["skill_add_up"]


def written() -> Skill:
    """Return a skill as an agent would write it."""
    function = Function(name="execute", ordinal=1, path="execute.py", content=CODE)
    return Skill(slug="add-up", title="Add up", description="Adds.", artifacts=(function,))


@pytest.mark.parametrize("mode", MODES)
async def test_a_person_who_says_no_is_told_as_a_failure_of_the_tool(engine, in_memory, mode):
    ann = local_person("ann")
    await engine.as_actor(agent_of(ann, name="maker")).skills.create(written())

    async def refuse(context, params):
        return ElicitResult(action="accept", content={"approve": False})

    caller = Caller(actor=agent_of(ann, name="other"), person=ann, approvals_by=("mcp",))
    async with in_memory(mode, caller=caller, elicitation_callback=refuse) as client:
        answer = await client.call_tool("skill_add_up", {"a": 1})
    assert answer.is_error
    assert (answer.structured_content["success"], answer.structured_content["code"]) == (False, "approval-denied")


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_gives_the_result_as_structured_content(in_memory, sandbox_home, home, mode):
    (home / ".prowess").mkdir(mode=0o700, exist_ok=True)
    (home / ".prowess/sandbox").symlink_to(sandbox_home / "sandbox")
    async with in_memory(mode) as client:
        await client.call_tool("skill_create", NEW)
        await client.list_tools()
        answer = await client.call_tool("skill_add_up", {"a": 2})
        wrong = await client.call_tool("skill_add_up", {"a": "two"})
    assert not answer.is_error
    assert (answer.structured_content["success"], answer.structured_content["result"]) == (True, 3)
    assert wrong.is_error
    assert (wrong.structured_content["success"], wrong.structured_content["code"]) == (False, "invalid")
