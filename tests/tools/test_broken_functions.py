"""A skill that could never be called is no tool, and its author is told why."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from prowess.catalog.catalog import Catalog
from prowess.catalog.memory_store import MemoryStore
from prowess.engine.callable_reader import read_callable
from prowess.policy.actor import Actor
from prowess.skill.forms import read_package
from prowess.skill.package import File, Package
from prowess.tools.toolbox import Toolbox, builtin_tools

pytestmark = pytest.mark.anyio

GOOD = "def execute(args, ctx):\n    return 1\n"
BAD = "import re\n\ndef execute(args, ctx)\n    return 1\n"
NEW: dict[str, Any] = {"id": "counter", "name": "Counter", "description": "Counts.", "code": GOOD}


async def names(toolbox: Toolbox) -> list[str]:
    return [tool.name for tool in await toolbox.offered() if tool.name not in builtin_tools()]


async def standing(toolbox: Toolbox) -> dict[str, Any]:
    [skill] = (await toolbox.call("skill_list", {})).data["skills"]
    return skill


def devai(code: str) -> dict[str, str]:
    return {
        "skill.json": json.dumps({"id": "counter", "name": "Counter", "description": "Counts."}),
        "execute.py": code,
    }


def devai_ts(code: str) -> dict[str, str]:
    return {"skill.json": devai("")["skill.json"], "execute.ts": code}


def descriptor(kind: str, handler: str) -> dict[str, str]:
    implementation = json.dumps({"type": kind, "handler": handler})
    return {"counter.yaml": f"skill_id: counter\ndescription: Counts.\nimplementation: {implementation}\n"}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (devai(BAD), "execute.py cannot run: expected ':' (line 3)"),
        (devai("def count(args, ctx): ...\n"), "it does not define a function named execute"),
        (
            devai_ts("export async function count() {}\n"),
            "execute.ts cannot run: it does not export a function named execute",
        ),
        (devai_ts("async function execute() {}\n"), "it does not export a function named execute"),
        (descriptor("http_call", "GET https://{{ host }}/x"), "literal host"),
        (descriptor("cli_command", "{{ program }} x"), "program name"),
    ],
)
async def test_a_skill_that_could_never_be_called_is_no_tool_and_says_why(
    place: Any, box: Callable[..., Toolbox], ann: Actor, files: dict[str, str], reason: str
):
    place.write("counter", files)
    async with place.open(ann) as engine:
        toolbox = box(engine)
        assert await names(toolbox) == []
        told = await standing(toolbox)
        assert reason in told.get("error", "") + told.get("no_tool", "")


@pytest.mark.parametrize(
    "code",
    [
        "export async function execute(args, ctx) { return 1 }\n",
        "const execute = async () => 1;\nexport { execute };\n",
        "export default async (args) => args;\n",
        "export const $count = (args) => args;\n",
    ],
)
async def test_a_typescript_function_is_a_tool_however_it_is_exported(
    place: Any, box: Callable[..., Toolbox], ann: Actor, code: str
):
    named = {"src/lib.ts": code, **descriptor("ts_function", "src/lib.ts#$count")}
    place.write("counter", named if "$count" in code else devai_ts(code))
    async with place.open(ann) as engine:
        assert await names(box(engine)) == ["skill_counter"]


async def test_a_broken_function_that_a_store_holds_all_the_same_is_known_to_be_broken():
    files = [File(path=path, content=text.encode()) for path, text in devai(BAD).items()]
    skill = read_package(Package.written("counter", files)).skill
    assert skill is not None
    store = MemoryStore("workspace")
    found = read_callable(Catalog([store]), store, skill)
    assert found is not None
    assert found.fault == "execute.py, line 3: expected ':'"


async def test_a_function_that_is_mended_is_a_tool_again(place: Any, box: Callable[..., Toolbox], ann: Actor):
    place.write("counter", devai(BAD))
    async with place.open(ann) as engine:
        toolbox = box(engine)
        assert await names(toolbox) == []
        place.write("counter", devai(GOOD))
        await engine.skills.reload()
        assert await names(toolbox) == ["skill_counter"]


async def test_code_that_cannot_be_run_is_refused_with_its_line_and_nothing_changes(
    each_place: Any, box: Callable[..., Toolbox], ann: Actor
):
    async with each_place.open(ann) as engine:
        toolbox = box(engine)
        refused = await toolbox.call("skill_create", {**NEW, "code": BAD})
        assert refused.data["error"]["code"] == "invalid"
        assert "line 3" in refused.data["error"]["message"]
        assert await engine.skills.cards() == []
        assert (await toolbox.call("skill_create", NEW)).ok
        refused = await toolbox.call("skill_update", {"id": "counter", "code": "def count(args, ctx): ...\n"})
        assert "does not define a function named execute" in refused.data["error"]["message"]
        assert (await engine.skills.get("counter")).artifact("execute").content == GOOD
