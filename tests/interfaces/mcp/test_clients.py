"""Use the server with the SDK's own client, in both versions of the protocol."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, BlobResourceContents, TextResourceContents

from prowess.tools.toolbox import builtin_tools

OWN = ("skill://invoice-reader/", "skill://release-notes/")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.long)]),
]


async def test_tools_are_listed_with_schemas_and_hints(connect, mode):
    async with connect(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"search_skills", "load_skill"} <= tools.keys()
    for tool in tools.values():
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is not None
    assert tools["search_skills"].annotations.read_only_hint
    assert tools["skill_delete"].annotations.destructive_hint
    assert not tools["enable_skill"].annotations.destructive_hint
    assert tools["enable_skill"].annotations.idempotent_hint


async def test_all_tools_together_take_at_most_9_kb_of_a_models_context(in_memory, mode):
    async with in_memory(mode) as client:
        tools = (await client.list_tools()).tools
    # The workspace has skills with files and scripts, so everything is offered but the tools of registries, which are off,
    # and those of connectors, because none is configured.
    off = {"registry", "live", "connectors"}
    assert [tool.name for tool in tools] == [name for name, tool in builtin_tools().items() if tool.needs not in off]
    sent = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    assert len(json.dumps({"tools": sent}, ensure_ascii=False, separators=(",", ":")).encode()) <= 9 * 1024


async def test_a_tool_answers_with_structured_content(connect, mode):
    async with connect(mode) as client:
        await client.list_tools()
        answer = await client.call_tool("load_skill", {"name": "invoice-reader"})
    assert not answer.is_error
    assert "Read them – all of them." in json.dumps(answer.structured_content, ensure_ascii=False)
    assert json.loads(answer.content[0].text) == answer.structured_content


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("load_skill", {}), ("no_such_tool", {}), ("load_skill", {"name": 3})],
)
async def test_a_refusal_is_a_result_that_a_model_can_read(connect, mode, name, arguments):
    async with connect(mode) as client:
        answer = await client.call_tool(name, arguments)
    assert answer.is_error
    assert answer.structured_content["error"]["code"]
    assert answer.structured_content["error"]["message"]


async def test_every_file_is_listed_and_read_back_byte_for_byte(connect, mode, workspace):
    files = {path for path in (workspace / ".agents/skills").rglob("*") if path.is_file()}
    async with connect(mode) as client:
        listed = [resource for resource in (await client.list_resources()).resources if resource.uri.startswith(OWN)]
        contents = [await client.read_resource(resource.uri) for resource in listed]
    assert [resource.uri for resource in listed] == [
        "skill://invoice-reader/SKILL.md",
        "skill://invoice-reader/assets/stamp.png",
        "skill://invoice-reader/references/vat%20rates.md",
        "skill://invoice-reader/scripts/total.py",
        "skill://release-notes/SKILL.md",
    ]
    assert {content_bytes(result) for result in contents} == {path.read_bytes() for path in files}
    assert [resource.size for resource in listed] == [len(content_bytes(result)) for result in contents]
    assert listed[0].name == "invoice-reader"
    assert listed[0].mime_type == "text/markdown"


def content_bytes(result) -> bytes:
    (content,) = result.contents
    if isinstance(content, BlobResourceContents):
        return base64.b64decode(content.blob)
    return content.text.encode()


async def test_the_index_and_the_manifest_of_older_clients_have_the_digests(connect, mode, workspace):
    async with connect(mode) as client:
        index = await read_json(client, "skill://index.json")
        manifest = await read_json(client, "skill://invoice-reader/_manifest")
    assert index["$schema"] == "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    own = [entry for entry in index["skills"] if entry["url"].startswith(OWN)]
    assert [entry["url"] for entry in own] == [f"{root}SKILL.md" for root in OWN]
    folder = workspace / ".agents/skills/invoice-reader"
    assert own[0]["digest"] == digest((folder / "SKILL.md").read_bytes())
    assert manifest["skill"] == "invoice-reader"
    for file in manifest["files"]:
        content = (folder / file["path"]).read_bytes()
        assert (file["size"], file["hash"]) == (len(content), digest(content))


async def read_json(client, uri):
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return json.loads(content.text)


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize(
    "uri",
    [
        "skill://invoice-reader/../release-notes/SKILL.md",
        "skill://invoice-reader/%2e%2e/release-notes/SKILL.md",
        "skill://invoice-reader/scripts%2Ftotal.py",
        "skill://invoice-reader/%53KILL.md",
        "skill://invoice-reader//SKILL.md",
        "skill://invoice-reader/SKILL.md?x",
        "skill://invoice-reader/scripts",
        "skill://~/invoice-reader/invoice-reader/SKILL.md",
        "skill://nothing/SKILL.md",
        "file:///etc/passwd",
        "skill:///etc/passwd",
    ],
)
async def test_nothing_is_read_by_any_address_but_the_exact_one(in_memory, mode, uri):
    async with in_memory(mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
    assert refused.value.error.code == INVALID_PARAMS


async def test_templates_say_how_addresses_are_made(connect, mode):
    async with connect(mode) as client:
        templates = (await client.list_resource_templates()).resource_templates
    assert {template.uri_template for template in templates} == {
        "skill://{+skill}/{+path}",
        "skill://{+skill}/_manifest",
    }
