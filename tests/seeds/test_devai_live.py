"""Devai: skills are live immediately, in TypeScript or Python, and an undeclared host or variable says which line to add."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prowess.policy.actor import Actor, agent_of
from prowess.sandbox.deno.sandbox import find_deno
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
PYTHON = "def execute(args, ctx):\n    return {'success': True, 'result': args['text'].upper()}\n"
TYPESCRIPT = """import type { SkillContext, SkillResult } from "@devai/skill-runtime";

export async function execute(args: Record<string, unknown>, ctx: SkillContext): Promise<SkillResult> {
  return { success: true, result: String(args.text).toUpperCase() };
}
"""
READS_ENV = {
    "execute.py": "def execute(args, ctx):\n    return {'success': True, 'result': ctx.env.get('API_KEY', 'none')}\n",
    "execute.ts": (
        "export async function execute(args, ctx) {\n"
        "  return { success: true, result: ctx.env.API_KEY ?? 'none' };\n}\n"
    ),
}


def box_of(engine: Any, name: str, role: str = "builder") -> Toolbox:
    return Toolbox(engine, actor=agent_of(ANN, name=name, role=role), conversation="chat")


async def create(engine: Any, code: str) -> dict[str, Any]:
    arguments = {
        "id": "shout",
        "name": "Shout",
        "description": "Turns a text into capital letters.",
        "parameters": {"text": {"type": "string", "required": True}},
        "code": code,
    }
    answer = await box_of(engine, "devo").call("skill_create", arguments)
    assert answer.ok, answer.data
    return answer.data


@pytest.mark.parametrize(("code", "path"), [(PYTHON, "execute.py"), (TYPESCRIPT, "execute.ts")])
async def test_the_language_of_a_new_skill_is_recognised_from_its_code(place, code, path) -> None:
    async with place.open(ANN) as engine:
        await create(engine, code)
        skill = await engine.skills.get("shout")
    assert [artifact.path for artifact in skill.artifacts] == [path]


async def test_a_new_skill_is_live_for_all_agents_where_the_organization_says_so(sandboxed) -> None:
    async with sandboxed.open(ANN) as engine:
        await create(engine, PYTHON)
        other = box_of(engine, "chapo", "coordinator")
        asked = await other.call("skill_shout", {"text": "hello"})
        await engine.policy.set("agent_skills_live_for_all", True)
        answer = await box_of(engine, "chapo", "coordinator").call("skill_shout", {"text": "hello"})
        await engine.policy.set("agent_skills_live_for_all", False)
        again = await other.call("skill_shout", {"text": "hello"})
    assert (asked.ok, again.ok) == (False, False)
    assert answer.data["result"] == "HELLO"


@pytest.mark.parametrize("file", READS_ENV)
async def test_an_undeclared_variable_fails_with_the_line_to_add(sandboxed, file) -> None:
    if file.endswith(".ts") and find_deno() is None:
        pytest.skip("deno is not installed")
    manifest = {"id": "shout", "name": "Shout", "description": "Reads a key.", "version": "1.0.0", "parameters": {}}
    sandboxed.write("shout", {"skill.json": json.dumps(manifest), file: READS_ENV[file]})
    async with sandboxed.open(ANN) as engine:
        undeclared = await box_of(engine, "devo").call("skill_shout", {})
    assert undeclared.data["success"] is False
    assert "API_KEY is not declared" in undeclared.data["error"]
    assert undeclared.data["hint"] == 'Add this line to skill.json: "env": ["API_KEY"]'


@pytest.mark.parametrize("file", READS_ENV)
async def test_a_declared_variable_that_was_not_granted_is_absent(sandboxed, file, accept) -> None:
    if file.endswith(".ts") and find_deno() is None:
        pytest.skip("deno is not installed")
    manifest = {"id": "shout", "name": "Shout", "description": "Reads a key.", "version": "1.0.0", "parameters": {}}
    manifest["env"] = ["API_KEY"]
    sandboxed.write("shout", {"skill.json": json.dumps(manifest), file: READS_ENV[file]})
    async with sandboxed.open(ANN) as engine:
        await accept(engine, "shout")
        declared = await box_of(engine, "devo").call("skill_shout", {})
    assert declared.data.get("result") == "none", declared.data


async def test_an_undeclared_host_is_refused_with_the_line_to_add(sandboxed) -> None:
    manifest = {"id": "shout", "name": "Shout", "description": "Fetches a page.", "version": "1.0.0", "parameters": {}}
    code = "def execute(args, ctx):\n    return ctx.fetch('https://api.example.com/x').text()\n"
    sandboxed.write("shout", {"skill.json": json.dumps(manifest), "execute.py": code})
    async with sandboxed.open(ANN) as engine:
        answer = await box_of(engine, "devo").call("skill_shout", {})
    assert answer.data["hint"] == 'Add this line to skill.json: "hosts": ["api.example.com"]'


@pytest.mark.parametrize(("code", "path"), [(PYTHON, "execute.py"), (TYPESCRIPT, "execute.ts")])
async def test_a_new_skill_can_be_written_as_a_folder_with_its_manifest_and_code(sandboxed, code, path) -> None:
    if path.endswith(".ts"):
        find_deno()
    sandboxed.environment.update({"PROWESS_NEW_SKILLS": "folder", "PROWESS_TRUSTED_FOLDERS": ""})
    async with sandboxed.open(ANN) as engine:
        await create(engine, code)
        answer = await box_of(engine, "devo").call("skill_shout", {"text": "hello"})
        other = await box_of(engine, "chapo", "coordinator").call("skill_shout", {"text": "hello"})
        changed = await box_of(engine, "devo").call("skill_update", {"id": "shout", "description": "Shouts a text."})
        folder = sandboxed.workspace / "skills/shout"
        manifest = json.loads((folder / "skill.json").read_text())
        files = sorted(file.name for file in folder.iterdir())
        history = await engine.skills.history("shout")
    assert answer.data["result"] == "HELLO"
    assert (other.ok, changed.ok) == (False, True)
    assert files == [path, "skill.json"]
    assert (manifest["id"], manifest["description"]) == ("shout", "Shouts a text.")
    assert manifest["parameters"]["text"]["required"] is True
    assert len(history) == 2


async def test_new_skills_are_not_written_through_a_link(place, tmp_path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (place.workspace / "skills").symlink_to(tmp_path / "elsewhere")
    place.environment["PROWESS_NEW_SKILLS"] = "folder"
    async with place.open(ANN) as engine:
        answer = await box_of(engine, "devo").call(
            "skill_create", {"id": "x", "name": "X", "description": "X.", "code": PYTHON}
        )
    assert answer.ok is False
    assert list((tmp_path / "elsewhere").iterdir()) == []
