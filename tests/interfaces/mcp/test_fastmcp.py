"""Use the server with FastMCP's client: the skills extension, and plain resources."""

from __future__ import annotations

import hashlib

import pytest

pytestmark = [pytest.mark.anyio, pytest.mark.long]

URI = "skill://invoice-reader/SKILL.md"


@pytest.fixture
def client(http_server):
    """A client of FastMCP, which takes half a second to import."""
    pytest.importorskip("fastmcp")
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport
    from fastmcp.skills import SkillsClientExtension

    transport = StreamableHttpTransport(http_server.url, headers=http_server.headers)
    return Client(transport, extensions=[SkillsClientExtension()])


async def test_it_lists_skills_and_reads_what_their_digests_say(client):
    async with client:
        skills = {skill.uri: skill for skill in await client.list_skills()}
        got = await client.get_skill(URI)
        contents = {entry.uri: await client.read_resource(entry.uri) for entry in got.resources}
    assert {URI, "skill://release-notes/SKILL.md"} <= skills.keys()
    assert skills[URI] == got
    assert got.frontmatter.name == "invoice-reader"
    texts = {uri: content[0].text for uri, content in contents.items() if hasattr(content[0], "text")}
    for entry in got.resources:
        if entry.uri in texts:
            assert entry.digest == f"sha256:{hashlib.sha256(texts[entry.uri].encode()).hexdigest()}"
    assert len(texts) == 3


async def test_it_downloads_a_skill_the_older_way_byte_for_byte(client, http_server, tmp_path):
    from fastmcp.utilities.skills import download_skill, get_skill_manifest, list_skills

    async with client:
        names = {skill.name for skill in await list_skills(client)}
        manifest = await get_skill_manifest(client, "invoice-reader")
        folder = await download_skill(client, "invoice-reader", tmp_path)
    assert {"invoice-reader", "release-notes"} <= names
    original = http_server.workspace / ".agents/skills/invoice-reader"
    for file in manifest.files:
        assert (folder / file.path).read_bytes() == (original / file.path).read_bytes()


async def test_it_calls_tools(client):
    async with client:
        found = await client.call_tool("search_skills", {"query": "invoices"})
    assert "invoice-reader" in str(found.structured_content)
