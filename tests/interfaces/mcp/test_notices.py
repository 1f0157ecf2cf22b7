"""Clients are notified that something changed, without any content."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification, ToolListChangedNotification

from prowess.interfaces.auth.caller import Caller
from prowess.policy.actor import agent_of, local_person

pytestmark = pytest.mark.anyio

PATIENCE = 60


@asynccontextmanager
async def legacy(connect, **options):
    """Connect a client of the older protocol and yield it with the notifications it receives."""
    arrived: asyncio.Queue[type] = asyncio.Queue()

    async def note(message):
        if isinstance(message, ResourceListChangedNotification | ToolListChangedNotification):
            arrived.put_nowait(type(message))

    async with connect("legacy", message_handler=note, **options) as client:
        await client.list_resources()
        yield client, arrived


async def test_a_new_skill_is_announced_to_a_client_of_the_older_protocol(in_memory, write_skill):
    async with legacy(in_memory) as (client, arrived):
        assert client.server_capabilities.resources.list_changed
        write_skill("brand-new")
        assert await asyncio.wait_for(arrived.get(), PATIENCE) is ResourceListChangedNotification
        assert "skill://brand-new/SKILL.md" in {r.uri for r in (await client.list_resources()).resources}


async def test_a_new_skill_is_announced_to_who_listens(in_memory, write_skill):
    async with in_memory("auto") as client, client.listen(resources_list_changed=True) as events:
        write_skill("brand-new")
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ResourcesListChanged()


async def test_a_change_is_announced_over_http(over_http, write_skill):
    async with over_http("auto") as client, client.listen(resources_list_changed=True) as events:
        write_skill("from-outside")
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ResourcesListChanged()


async def test_other_tools_are_announced_to_those_whose_tools_they_are(engine, in_memory):
    """If a tool is removed from a role, only the agents of that role are notified."""
    ann = local_person("ann")
    caller = Caller(actor=agent_of(ann, role="scout"))
    async with in_memory("auto", caller=caller) as client, client.listen(tools_list_changed=True) as events:
        before = {tool.name for tool in (await client.list_tools()).tools}
        roles = {"scout": {"tools": ["search_skills"], "actions": ["load"], "skill_tags": [], "description": "Looks."}}
        await engine.as_actor(ann).policy.set("roles", roles)
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ToolsListChanged()
        after = {tool.name for tool in (await client.list_tools()).tools}
    assert after == {"search_skills"} < before


async def test_a_file_that_changed_is_announced_to_who_watches_it(in_memory, write_skill):
    watched = "skill://release-notes/SKILL.md"
    async with in_memory("auto") as client, client.listen(resource_subscriptions=[watched]) as events:
        write_skill("release-notes", "---\nname: release-notes\ndescription: New.\n---\n\nNew.\n")
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == ResourceUpdated(uri=watched)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_client_of_the_older_protocol_watches_files_until_it_says_otherwise(in_memory, write_skill):
    first, second = "skill://release-notes/SKILL.md", "skill://invoice-reader/SKILL.md"
    arrived: asyncio.Queue[str] = asyncio.Queue()

    async def note(message):
        if isinstance(message, ResourceUpdatedNotification):
            arrived.put_nowait(message.params.uri)

    async with in_memory("legacy", message_handler=note) as client:
        await client.subscribe_resource(first)
        await client.subscribe_resource(second)
        await client.unsubscribe_resource(first)
        for name in ("release-notes", "invoice-reader"):
            write_skill(name, f"---\nname: {name}\ndescription: New.\n---\n\nNew.\n")
        assert await asyncio.wait_for(arrived.get(), PATIENCE) == second
        assert arrived.empty()
