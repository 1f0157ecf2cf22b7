"""Listeners receive notifications until they disconnect, whatever other listeners do."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest
from mcp import Client
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp_types import EmptyResult, Request, SubscribeRequestParams

from prowess.interfaces.mcp.entry_index import EntryIndex
from prowess.interfaces.mcp.notifications import ChangeNotifier, connection_of
from prowess.interfaces.mcp.server import make_security, make_server
from prowess.policy.actor import Actor, agent_of, local_person
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

PATIENCE = 60
RESOURCES = "notifications/resources/list_changed"
TOOLS = "notifications/tools/list_changed"


class Peer:
    """A client of the older protocol as the server sees it. `arrived` has the notifications it received."""

    def __init__(self, engine, actor: Actor, toolbox: type[Toolbox] = Toolbox) -> None:
        self.arrived: asyncio.Queue[str] = asyncio.Queue()
        self.connection = Connection.for_loop(self)
        self.context = SimpleNamespace(session=ServerSession(self, self.connection))
        self.toolbox = toolbox(engine, actor=actor, conversation="one")

    async def send_raw_request(self, method, *_):
        raise AssertionError(method)

    async def notify(self, method, *_):
        self.arrived.put_nowait(method)

    async def told(self) -> str:
        return await asyncio.wait_for(self.arrived.get(), PATIENCE)

    async def told_of(self, method: str) -> None:
        while await self.told() != method:
            pass

    async def leave(self) -> None:
        await self.connection.exit_stack.aclose()


class Breaking(Toolbox):
    """A toolbox that fails from the second listing on."""

    asked = 0

    async def offered(self, holdings=None):
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("out of order")
        return await super().offered(holdings)


@pytest.fixture
def ann() -> Actor:
    return agent_of(local_person("ann"))


@pytest.fixture
async def notices(engine):
    kept = ChangeNotifier(engine, EntryIndex(engine), poll_seconds=0.01)
    async with kept.running():
        yield kept


async def test_a_caller_whose_role_is_gone_keeps_nothing_from_the_others(engine, notices, ann, write_skill):
    gone, there = Peer(engine, agent_of(local_person("eve"), role="nowhere")), Peer(engine, ann)
    await notices.connect(gone.toolbox, gone.context)
    await notices.connect(there.toolbox, there.context)
    write_skill("brand-new")
    assert await there.told() == RESOURCES
    assert await gone.told() == RESOURCES


async def test_a_role_that_comes_back_is_announced(engine, notices):
    scout = Peer(engine, agent_of(local_person("eve"), role="rare"))
    await notices.connect(scout.toolbox, scout.context)
    role = {"tools": ["search_skills"], "actions": ["load"], "skill_tags": [], "description": "Looks."}
    await engine.as_actor(local_person("ann")).policy.set("roles", {"rare": role})
    await scout.told_of(TOOLS)


async def test_whatever_breaks_for_one_listener_the_watch_goes_on_for_the_others(engine, notices, ann, write_skill):
    broken, there = Peer(engine, ann, Breaking), Peer(engine, agent_of(local_person("eve"), name="other"))
    await notices.connect(broken.toolbox, broken.context)
    await notices.connect(there.toolbox, there.context)
    for name in ("first", "second"):
        write_skill(name)
        await there.told_of(RESOURCES)
    assert broken.toolbox.asked > 1


async def test_who_comes_when_the_last_one_leaves_is_looked_after(engine, notices, ann, write_skill):
    for number in range(5):
        peer = Peer(engine, ann)
        await notices.connect(peer.toolbox, peer.context)
        write_skill(f"skill-{number}")
        await peer.told_of(RESOURCES)
        await peer.leave()
        assert notices.listeners == 0


async def test_who_may_not_read_skills_is_told_nothing_of_them(engine, notices, ann, write_skill):
    stranger = Peer(engine, Actor(name="eve", kind="agent", permissions=frozenset()))
    there = Peer(engine, ann)
    watched = "skill://release-notes/SKILL.md"
    await notices.subscribe(stranger.toolbox, stranger.context, watched)
    await notices.connect(there.toolbox, there.context)
    write_skill("release-notes", "---\nname: release-notes\ndescription: New.\n---\n\nNew.\n")
    await there.told_of(RESOURCES)
    write_skill("another")
    await there.told_of(RESOURCES)
    assert stranger.arrived.empty()


async def test_an_address_that_is_longer_than_that_of_any_file_is_not_kept(engine, ann, notices):
    peer = Peer(engine, ann)
    address = "skill://" + "x" * 10_000
    before = sys.getrefcount(address)
    await notices.subscribe(peer.toolbox, peer.context, address)
    assert sys.getrefcount(address) == before


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_a_connection_is_one_listener_whatever_conversations_it_names(engine, caller, write_skill, method):
    server = make_server(engine, caller, security=make_security([b"k" * 32], caller))
    notices = server.backend.notices
    updated: asyncio.Queue[str] = asyncio.Queue()
    uri = "skill://release-notes/SKILL.md"

    async def note(message):
        if getattr(message, "method", "").endswith("/updated"):
            updated.put_nowait(message.params.uri)

    async def send(client, what: str, number: int) -> None:
        params = SubscribeRequestParams(uri=uri, _meta={"prowess/conversation": f"talk-{number}"})
        await client.session.send_request(Request(method=what, params=params), EmptyResult)

    async with Client(server, mode="legacy", message_handler=note) as client:
        for number in range(50):
            await send(client, "resources/subscribe", number)
        assert notices.listeners == 1
        await send(client, method, 50)
        other = "skill://invoice-reader/SKILL.md"
        params = SubscribeRequestParams(uri=other)
        await client.session.send_request(Request(method="resources/subscribe", params=params), EmptyResult)
        for name in ("release-notes", "invoice-reader"):
            write_skill(name, f"---\nname: {name}\ndescription: New.\n---\n\nNew.\n")
        told = {await asyncio.wait_for(updated.get(), PATIENCE)}
        while other not in told:
            told.add(await asyncio.wait_for(updated.get(), PATIENCE))
    assert (uri in told) == (method == "resources/subscribe")
    assert notices.listeners == 0


async def test_the_sdk_keeps_the_connection_of_a_session_where_it_is_looked_for(engine, ann):
    peer = Peer(engine, ann)
    assert connection_of(peer.context) is peer.connection, (
        "mcp's ServerSession has its connection no longer in `_connection`: notices of the older protocol need another way"
    )


async def test_entries_are_made_again_only_of_what_changed(engine, write_skill):
    write_skill("tools.sharp", "---\nname: sharp\nslug: tools.sharp\ndescription: Cuts.\n---\n\nCut.\n")
    index = EntryIndex(engine)
    before = {entry.slug: entry async for entry in index.entries()}
    again = {entry.slug: entry async for entry in index.entries()}
    assert all(again[slug] is entry for slug, entry in before.items())
    write_skill("release-notes", "---\nname: release-notes\ndescription: New.\n---\n\nNew.\n")
    write_skill("tools")
    after = {entry.slug: entry async for entry in index.entries()}
    assert {slug for slug in after if after[slug] is not before.get(slug)} == {"release-notes", "tools", "tools.sharp"}
    assert after["tools.sharp"].root == "skill://~/tools.sharp/sharp"


async def test_a_skill_is_found_by_its_address_as_soon_as_it_is_there_and_no_longer(engine, write_skill):
    index, uri = EntryIndex(engine), "skill://acme/refunds/SKILL.md"
    assert await index.find(uri) is None
    folder = write_skill("refunds", "---\nname: acme.refunds\ndescription: Pays back.\n---\n\nPay.\n")
    found = await index.find(uri)
    assert found is not None
    assert found[1] == "SKILL.md"
    (folder / "SKILL.md").unlink()
    assert await index.find(uri) is None
    assert await index.find("skill://a/b/c/d/e/SKILL.md") is None
