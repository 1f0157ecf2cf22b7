"""The skills extension: entries, addresses, pages and folders."""

from __future__ import annotations

import hashlib
import tracemalloc
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams, Request, Result

pytestmark = pytest.mark.anyio

EXTENSION = "io.modelcontextprotocol/skills"


class Anything(Result):
    """A result with any fields."""

    model_config = {"extra": "allow"}


class Params(PaginatedRequestParams):
    """The parameters of requests of the extension."""

    uri: str | None = None


async def ask(client, method: str, **params: Any) -> dict[str, Any]:
    """Send a request of the extension as a client would, and return the result."""
    request = Request[Any, Any](method=method, params=Params(**params))
    answer = await client.session.send_request(request, Anything)
    return answer.model_dump(by_alias=True)


async def listed(client) -> list[dict[str, Any]]:
    found, cursor = [], None
    while True:
        page = await ask(client, "skills/list", cursor=cursor)
        found += page["skills"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found


async def test_the_extension_is_declared_with_its_setting(in_memory):
    async with in_memory("auto") as client:
        assert client.server_capabilities.extensions == {EXTENSION: {"directoryRead": True}}
        assert client.server_capabilities.resources is not None


async def test_an_entry_has_the_frontmatter_as_json_and_every_file_with_its_digest(connect, workspace):
    async with connect("auto") as client:
        entries = {entry["uri"]: entry for entry in await listed(client)}
        got = await ask(client, "skills/get", uri="skill://invoice-reader/SKILL.md")
    entry = entries["skill://invoice-reader/SKILL.md"]
    assert entry["frontmatter"] == {
        "name": "invoice-reader",
        "description": "Reads invoices in PDF and extracts totals and due dates.",
        "license": "MIT",
        "metadata": {"tags": "finance", "since": "2024-05-01"},
    }
    folder = workspace / ".agents/skills/invoice-reader"
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {resource["digest"] for resource in entry["resources"]} == {
        f"sha256:{hashlib.sha256(content).hexdigest()}" for content in contents.values()
    }
    assert sum(resource["size"] for resource in entry["resources"]) == sum(map(len, contents.values()))
    assert got["skill"] == entry
    assert (got["cacheScope"], got["ttlMs"] > 0) == ("private", True)


async def test_namespaces_are_segments_of_the_address(in_memory, write_skill):
    write_skill("refunds", "---\nname: acme.refunds\ndescription: Pays back.\n---\n\nPay.\n")
    async with in_memory("auto") as client:
        resources = (await client.list_resources()).resources
    assert [r.uri for r in resources if "refunds" in r.uri] == ["skill://acme/refunds/SKILL.md"]


async def test_a_skill_is_addressed_by_the_name_in_its_frontmatter_and_never_inside_another(in_memory, write_skill):
    write_skill("tools")
    write_skill("tools.sharp", "---\nname: sharp\nslug: tools.sharp\ndescription: Cuts.\n---\n\nCut.\n")
    async with in_memory("auto") as client:
        roots = [entry["uri"].removesuffix("/SKILL.md") for entry in await listed(client)]
    for outer in roots:
        assert not any(inner.startswith(f"{outer}/") for inner in roots)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("no frontmatter", "# Plain\n\nText.\n"),
        ("a list of tools", "---\nname: odd\ndescription: Odd.\nallowed-tools: [Read, Grep]\n---\n\nText.\n"),
        ("numbers in metadata", "---\nname: odd\ndescription: Odd.\nmetadata:\n  version: 1.0\n---\n\nText.\n"),
        ("not valid JSON", "---\nname: odd\ndescription: Odd.\nweight: .inf\n---\n\nText.\n"),
    ],
)
async def test_what_some_host_would_turn_down_is_not_listed_but_can_be_read(in_memory, write_skill, case, text):
    write_skill("odd", text)
    async with in_memory("auto") as client:
        names = {entry["frontmatter"]["name"] for entry in await listed(client)}
        contents = (await client.read_resource("skill://odd/SKILL.md")).contents
    assert "odd" not in names
    assert contents[0].text == text


async def test_no_list_has_a_skill_for_people_only(in_memory, write_skill):
    write_skill("by-hand", "---\nname: by-hand\ndescription: Deploys.\ndisable-model-invocation: true\n---\n\nDo it.\n")
    async with in_memory("auto") as client:
        lists = [await client.list_resources(), await client.read_resource("skill://index.json"), await listed(client)]
        assert [("release-notes" in str(one), "by-hand" in str(one)) for one in lists] == [(True, False)] * 3


async def test_values_are_typed_as_yaml_1_2_types_them(in_memory, write_skill):
    fields = "version: 1.10\nyes: yes\nwhen: 2024-05-01\nhex: 0x1F\nnone: ~\nflag: true\nlist: [1, two]\noctal: 010\n"
    write_skill("typed", f"---\nname: typed\ndescription: Typed.\n{fields}---\n\nText.\n")
    async with in_memory("auto") as client:
        entry = (await ask(client, "skills/get", uri="skill://typed/SKILL.md"))["skill"]
    assert entry["frontmatter"] == {
        "name": "typed",
        "description": "Typed.",
        "version": 1.1,
        "yes": "yes",
        "when": "2024-05-01",
        "hex": 31,
        "none": None,
        "flag": True,
        "list": [1, "two"],
        "octal": 10,
    }


async def test_a_long_listing_comes_in_pages_without_a_gap_or_a_double(in_memory, write_skill):
    for number in range(120):
        write_skill(f"many-{number:03}")
    async with in_memory("auto") as client:
        entries = [entry["uri"] for entry in await listed(client)]
        resources, cursor = [], None
        while cursor is not None or not resources:
            page = await client.list_resources(cursor=cursor)
            resources += [resource.uri for resource in page.resources]
            cursor = page.next_cursor
    many = [f"skill://many-{number:03}/SKILL.md" for number in range(120)]
    assert [uri for uri in entries if "many-" in uri] == many
    assert [uri for uri in resources if "many-" in uri] == many
    assert len(set(entries)) == len(entries)


async def test_folders_list_what_lies_directly_in_them(in_memory):
    async with in_memory("auto") as client:
        top = (await ask(client, "resources/directory/read", uri="skill://invoice-reader"))["resources"]
        below = (await ask(client, "resources/directory/read", uri="skill://invoice-reader/scripts"))["resources"]
    assert [(child["uri"], child.get("mimeType")) for child in top] == [
        ("skill://invoice-reader/SKILL.md", "text/markdown"),
        ("skill://invoice-reader/assets", "inode/directory"),
        ("skill://invoice-reader/references", "inode/directory"),
        ("skill://invoice-reader/scripts", "inode/directory"),
    ]
    assert [child["uri"] for child in below] == ["skill://invoice-reader/scripts/total.py"]


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://nothing/SKILL.md"),
        ("skills/get", "skill://invoice-reader"),
        ("skills/get", "skill://invoice-reader/scripts/total.py"),
        ("resources/directory/read", "skill://invoice-reader/SKILL.md"),
        ("resources/directory/read", "skill://invoice-reader/scripts/"),
        ("resources/directory/read", "skill://nothing"),
        ("resources/directory/read", "skill://"),
    ],
)
async def test_an_address_of_nothing_is_an_invalid_parameter(in_memory, method, uri):
    async with in_memory("auto") as client:
        with pytest.raises(MCPError) as refused:
            await ask(client, method, uri=uri)
    assert refused.value.error.code == -32602


async def test_an_address_with_very_many_segments_takes_little_memory(in_memory):
    async with in_memory("auto") as client:
        tracemalloc.start()
        try:
            with pytest.raises(MCPError):
                await ask(client, "skills/get", uri="skill://" + "a/" * 10_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 20e6


async def test_a_cursor_that_was_never_given_is_an_invalid_parameter(in_memory):
    async with in_memory("auto") as client:
        with pytest.raises(MCPError) as refused:
            await ask(client, "skills/list", cursor="not a cursor")
    assert refused.value.error.code == -32602
