"""The strict host of the skills extension with real servers: our own, and FastMCP's."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from prowess.connectors import pool
from prowess.connectors.hosted.reader import ClientSkillServer, SkillReader
from prowess.connectors.hosted.skills import HostedSkills
from prowess.errors import ApprovalRequired, NotFound, Unavailable
from prowess.open import Prowess
from prowess.policy.actor import Actor, agent_of
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio
ANN = Actor(name="ann")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A workspace of the host, without skills."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


async def read_all(client: Client) -> dict[str, dict[str, bytes]]:
    """List the skills of a server, and read every file of each; all of them are verified."""
    reader = SkillReader(ClientSkillServer("peer", client))
    found = await reader.list()
    assert found.refused == ()
    contents: dict[str, dict[str, bytes]] = {}
    for listed in found.skills:
        skill = await reader.get(listed.uri)
        assert skill == listed
        contents[skill.slug] = {"SKILL.md": await reader.read_main(skill)}
        contents[skill.slug] |= {path: await reader.read_file(skill, path) for path in skill.by_path}
    with pytest.raises(NotFound):
        await reader.get("skill://unknown/SKILL.md")
    return contents


async def test_every_file_of_our_own_server_is_verified(connect, workspace):
    async with connect("auto") as client:
        contents = await read_all(client)
    assert {"peer.invoice-reader", "peer.release-notes"} <= contents.keys()
    folder = workspace / ".agents/skills/invoice-reader"
    for path, content in contents["peer.invoice-reader"].items():
        assert content == (folder / path).read_bytes()
    assert len(contents["peer.invoice-reader"]) == 4


async def test_every_file_of_fastmcp_is_verified(workspace, mine):
    fastmcp = pytest.importorskip("fastmcp")
    from fastmcp.server.providers.skills import SkillsDirectoryProvider
    from fastmcp.skills.extension import SkillsExtension

    server = fastmcp.FastMCP("peer")
    # FastMCP reads dates as dates, and leaves the skill with one out.
    provider = SkillsDirectoryProvider(roots=workspace / ".agents/skills", experimental_skills=True)
    server.add_provider(provider)
    server.add_extension(SkillsExtension(providers=[provider]))
    async with Client(server._mcp_server) as client, Prowess.open(mine, actor=ANN) as engine:
        assert (await read_all(client)).keys() == {"peer.release-notes"}

        @asynccontextmanager
        async def connect(name: str):
            yield ClientSkillServer(name, client)

        await engine.policy.set("skills_dynamic_search_enabled", value=True)
        await engine.sessions.open("chat")
        skills = HostedSkills(engine.as_actor(agent_of(ANN)).context, connect)
        with pytest.raises(ApprovalRequired) as asked:
            await skills.fetch("peer", "release-notes", session="chat")
        await engine.approvals.resolve(asked.value.approval_id, approved=True)
        await skills.fetch("peer", "release-notes", session="chat")
        assert "from connector:peer skill://release-notes/SKILL.md" in await engine.prompt("chat")


async def test_a_server_without_the_extension_has_no_skills():
    fastmcp = pytest.importorskip("fastmcp")
    async with Client(fastmcp.FastMCP("plain")._mcp_server) as client:
        with pytest.raises(Unavailable, match="serves no skills"):
            ClientSkillServer("plain", client)


async def test_an_older_protocol_has_no_skills(in_memory):
    async with in_memory("legacy") as client:
        with pytest.raises(Unavailable, match="serves no skills"):
            await SkillReader(ClientSkillServer("old", client)).list()


@pytest.mark.long
async def test_an_agent_uses_a_skill_of_our_server_through_its_tools(mine, workspace, monkeypatch):
    """Everything at once: a process over stdio, the tools, the approval, a file, and the change of a file."""
    command = {
        "command": sys.executable,
        "args": ["-m", "prowess", "mcp", "--wait", "0", "--workspace", str(workspace)],
    }
    # On a loaded machine, a server takes its time to start.
    monkeypatch.setattr(pool, "CONNECT_SECONDS", 240.0)
    # The server has a home of its own, as one at another machine has.
    monkeypatch.setenv("SERVER_HOME", str(mine / "server"))
    names = {"PROWESS_HOME": "${SERVER_HOME}", "PROWESS_TRUSTED_FOLDERS": "${PROWESS_TRUSTED_FOLDERS}"}
    async with Prowess.open(mine, actor=ANN) as engine:
        await engine.connectors.add("peer", {**command, "env": names, "seconds": 240})
        await engine.policy.set("skills_dynamic_search_enabled", value=True)
        box = Toolbox(engine, actor=agent_of(ANN), conversation="chat")
        found = (
            await box.call("search_skills_registry", {"query": "totals of invoices", "source": "connector:peer"})
        ).data
        assert found["skills"][0]["skill_id"] == "invoice-reader"
        chosen = {"source": "connector:peer", "skill_id": "invoice-reader"}
        assert f"{chosen}".replace("'", '"') in found["hint"]
        asked = (await box.call("fetch_registry_skill", chosen)).data
        await engine.approvals.resolve(asked["approval_id"], approved=True)
        used = (await box.call("fetch_registry_skill", chosen)).data
        assert used["skill"] == "peer.invoice-reader"
        assert used["files"] == ["assets/stamp.png", "references/vat rates.md", "scripts/total.py"]
        file = {"skill": "peer.invoice-reader", "path": "references/vat rates.md"}
        assert (await box.call("read_skill_resource", file)).data["text"] == "# VAT\n"

        (workspace / ".agents/skills/invoice-reader/references/vat rates.md").write_text("# none\n")
        changed = (await box.call("read_skill_resource", file)).data
        assert changed["error"]["code"] == "conflict"
        assert await engine.prompt("chat") == ""
        again = (await box.call("fetch_registry_skill", chosen)).data
        assert "changed since the last approval" in again["error"]["message"]
