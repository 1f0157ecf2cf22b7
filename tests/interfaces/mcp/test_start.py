"""What a start of the server need not do again: importing clients, opening a database, reading every skill."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types

import pytest

from prowess.interfaces.mcp.entry_index import EntryCache, EntryIndex
from prowess.interfaces.mcp.sdk_import import _late_modules

SERVE_TOOLS = """
import asyncio, sys
from prowess.interfaces.mcp.sdk_import import import_sdk

import_sdk()
import prowess.interfaces.mcp.server, prowess.interfaces.mcp.stdio
from prowess.open import Prowess
from prowess.tools.toolbox import Toolbox

print(*sorted({"prowess.redaction", "prowess.run.call", "sqlite3", "yaml"} & sys.modules.keys()))


async def offered():
    async with Prowess.open(sys.argv[1]) as engine:
        return [tool.name for tool in await Toolbox(engine, conversation="talk").offered()]


assert "load_skill" in asyncio.run(offered())
UNUSED = {"mcp.client.session", "mcp.server.mcpserver", "sqlalchemy", "starlette.routing", "uvicorn"}
WIRE_TYPES = {"mcp_types._v2025_11_25", "mcp_types._v2026_07_28"}
print(*sorted((UNUSED | WIRE_TYPES) & sys.modules.keys()))
import mcp, mcp.server
from mcp import Client, types
print(Client.__name__, types.Tool.__name__, mcp.server.MCPServer.__name__, mcp.StdioServerParameters.__name__)
from mcp.server.lowlevel.server import Server
from starlette.applications import Starlette
print(isinstance(Server("served").streamable_http_app(), Starlette))
print(types.client_request_adapter.validate_python({"method": "ping"}))
from mcp_types.methods import parse_client_request, serialize_server_result
print(type(parse_client_request("ping", "2025-11-25", None)).__name__, *sorted(WIRE_TYPES & sys.modules.keys()))
print(sys.modules["mcp_types._v2025_11_25"].CallToolRequest.__pydantic_complete__)
print(serialize_server_result("tools/call", "2026-07-28", {"content": [], "resultType": "complete", "x": 1}))
"""


def test_offering_tools_imports_neither_clients_nor_http_nor_a_database_and_the_sdk_stays_whole(workspace, environment):
    command = [sys.executable, "-c", SERVE_TOOLS, str(workspace)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "",  # what runs skills and what reads them
        "",
        "Client Tool MCPServer StdioServerParameters",
        "True",
        "method='ping' params=None",
        "PingRequest mcp_types._v2025_11_25",
        "False",
        "{'content': [], 'resultType': 'complete'}",
    ]


def test_a_name_of_a_late_module_works_as_the_real_one(tmp_path, monkeypatch):
    (tmp_path / "late_shapes.py").write_text("class Shape:\n    sides = 4\n\n\ndef draw(size):\n    return size * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    with _late_modules(["late_shapes"]):
        late = importlib.import_module("late_shapes")
        shape, draw = late.Shape, late.draw
    assert "late_shapes" not in sys.modules
    square = type("Square", types.resolve_bases((shape,)), {})
    assert (shape.sides, draw(3), square.sides) == (4, 6, 4)
    assert isinstance(square(), shape)
    assert not isinstance(draw, shape)
    monkeypatch.delitem(sys.modules, "late_shapes")


@pytest.mark.long
@pytest.mark.anyio
async def test_a_server_with_no_home_yet_makes_one_for_the_next_start(over_stdio, home):
    async with over_stdio("auto") as client:
        first = [resource.uri for resource in (await client.list_resources()).resources]
    assert (home / ".prowess").stat().st_mode & 0o077 == 0
    assert (home / ".prowess/cache/mcp/entries.json").is_file()
    async with over_stdio("auto") as client:
        assert [resource.uri for resource in (await client.list_resources()).resources] == first


async def descriptions(engine, path) -> dict[str, str]:
    """Return the description of each skill, as a server that was just started lists it."""
    return {entry.slug: entry.description async for entry in EntryIndex(engine, EntryCache(path)).entries()}


@pytest.mark.anyio
async def test_listings_are_taken_from_the_cache_until_a_skill_changes(engine, write_skill, tmp_path):
    path = tmp_path / "entries.json"
    assert (await descriptions(engine, path))["release-notes"] == "Writes release notes from merged changes."
    path.write_text(path.read_text().replace("Writes release notes", "REMEMBERED"))
    assert (await descriptions(engine, path))["release-notes"] == "REMEMBERED from merged changes."
    write_skill("release-notes", "---\nname: release-notes\ndescription: New.\n---\n\nNew.\n")
    assert (await descriptions(engine, path))["release-notes"] == "New."


@pytest.mark.anyio
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: json.dumps([["other"], json.loads(text)[1]]),
        lambda text: json.dumps([json.loads(text)[0], []]),
        lambda text: json.dumps([json.loads(text)[0], {key: [[["SKILL.md"]], None] for key in json.loads(text)[1]}]),
        lambda text: json.dumps([json.loads(text)[0], {key: [[], "text"] for key in json.loads(text)[1]}]),
    ],
    ids=["cut", "another version", "no rows", "short rows", "no frontmatter"],
)
async def test_a_damaged_cache_is_ignored_and_written_anew(engine, tmp_path, damage):
    path = tmp_path / "entries.json"
    before = await descriptions(engine, path)
    good = path.read_text()
    path.write_text(damage(good))
    assert await descriptions(engine, path) == before
    assert path.read_text() == good


@pytest.mark.anyio
async def test_a_cache_that_cannot_be_written_changes_nothing(engine, tmp_path):
    (tmp_path / "file").write_text("")
    assert "release-notes" in await descriptions(engine, tmp_path / "file" / "entries.json")


@pytest.mark.anyio
async def test_the_first_listing_reads_each_file_of_a_skill_once(engine, write_skill, tmp_path, monkeypatch):
    # As if every file had been written long before it is read.
    for module in ("prowess.storage.files.safe_read", "prowess.catalog.folder_tree"):
        monkeypatch.setattr(f"{module}.is_settled", lambda *_: True)
    write_skill("guided", **{"references/guide.md": "Read on.", "scripts/run.py": "print(1)"})
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *rest, **named: (opened.append(str(path)), real(path, *rest, **named))[1]
    )
    assert (await descriptions(engine, tmp_path / "entries.json"))["guided"] == "What guided does."
    assert [opened.count(name) for name in ("guide.md", "run.py")] == [1, 1]
