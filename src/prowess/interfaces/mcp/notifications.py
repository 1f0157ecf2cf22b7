"""Notify clients that their tools or the skills changed.

A notification only says that it is worth asking again: a skill's text is sent through the gate and no other way. One
task serves all listeners. It wakes up on the engine's events and polls the catalog every two seconds, or less often
where polling would cost more than half a percent of a processor. Without listeners it does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

from prowess.engine.callables import Inventory
from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.mcp.entry_index import EntryIndex
from prowess.interfaces.mcp.request import Context
from prowess.policy.actor import Actor
from prowess.policy.organization import OrgPolicy
from prowess.tools.toolbox import Toolbox

POLL_SECONDS = 2.0
MAX_POLL_SECONDS = 60.0
_IDLE_CPU_SHARE, _BUSY_CPU_SHARE = 0.005, 0.1
"""What part of a processor looking may take: while nothing happens, and while one event follows the other."""

_MAX_WATCHED_FILES = 1000
_APPROVAL_RESOLVED = "approval_resolved"
_RELEVANT_EVENTS = ("skills_state_changed", _APPROVAL_RESOLVED)
"""Those after which a look is worth its time."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class _Listener:
    """One connection or stream, the tools that its caller was last seen to have, and the files that it watches.

    It `is_due` where looking after it went wrong, and has to be tried again.
    """

    toolbox: Toolbox
    tell: Callable[[ServerEvent], Awaitable[None]]
    seen: object
    is_due: bool = False
    watched: dict[str, str | None] = field(default_factory=dict[str, "str | None"])


class ChangeNotifier:
    """Keeps the listeners, and tells each of them what concerns it, whatever becomes of the others."""

    def __init__(self, engine: Engine, shelf: EntryIndex, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._engine = engine
        self._shelf = shelf
        self._poll_seconds = poll_seconds
        self._listeners: dict[Connection | ListenHandler, _Listener] = {}
        self._anyone = asyncio.Event()
        self._woken = asyncio.Event()
        self._told: int | None = None
        self._holdings: Inventory | None = None
        self._policies: dict[str, OrgPolicy] = {}
        self._is_decided = False

    @property
    def listeners(self) -> int:
        """How many connections and streams are looked after."""
        return len(self._listeners)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Look after the listeners for as long as this lasts."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """End every open stream."""
        for handler in list(self._listeners):
            if isinstance(handler, ListenHandler):
                handler.close()

    def wake(self) -> None:
        """Look at once: something was written."""
        self._woken.set()

    async def mark(self) -> None:
        """Be sure to notice what changes from now on; called before the skills are listed to anybody."""
        if self._told is None:
            self._told = await self._shelf.listing.look()

    async def announce(self, event: ServerEvent) -> None:
        """Tell every listener that asked to be told of such a thing."""
        for listener in list(self._listeners.values()):
            await listener.tell(event)

    async def listen(
        self, toolbox: Toolbox, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream of the newer protocol until the client ends it."""
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)
        listener = await self._join(handler, toolbox, bus.publish)
        try:
            for uri in params.notifications.resource_subscriptions or ():
                await self._watch_file(listener, uri)
            return await handler(context, params)
        finally:
            self._listeners.pop(handler, None)

    async def connect(self, toolbox: Toolbox, context: Context) -> None:
        """Tell a connection of the older protocol about changes, until it closes."""
        await self._connected(toolbox, context)

    async def subscribe(self, toolbox: Toolbox, context: Context, uri: str) -> None:
        """Tell a connection of the older protocol when a file changes."""
        await self._watch_file(await self._connected(toolbox, context), uri)

    def unsubscribe(self, context: Context, uri: str) -> None:
        """Tell it no more."""
        listener = self._listeners.get(connection_of(context))
        if listener is not None:
            listener.watched.pop(uri, None)

    async def _connected(self, toolbox: Toolbox, context: Context) -> _Listener:
        connection = connection_of(context)
        known = self._listeners.get(connection)
        if known is not None:
            return known

        async def tell(event: ServerEvent) -> None:
            await _send_notification(connection, event)

        listener = await self._join(connection, toolbox, tell)
        connection.exit_stack.callback(self._listeners.pop, connection, None)
        return listener

    async def _join(
        self, key: Connection | ListenHandler, toolbox: Toolbox, tell: Callable[[ServerEvent], Awaitable[None]]
    ) -> _Listener:
        """The listener of a key, which is there only once it is known what tools it has."""
        await self.mark()
        await self._policy_before(toolbox.context.actor)
        seen = await self._tools(toolbox)
        listener = self._listeners.setdefault(key, _Listener(toolbox=toolbox, tell=tell, seen=seen))
        self._anyone.set()
        return listener

    async def _watch_file(self, listener: _Listener, uri: str) -> None:
        if (
            _may_read(listener.toolbox.context.actor)
            and uri not in listener.watched
            and len(listener.watched) < _MAX_WATCHED_FILES
        ):
            listener.watched[uri] = await self._shelf.digest_at(uri)

    async def _tools(self, toolbox: Toolbox) -> object:
        """What tells whether the tools of a listener are still the same; a refusal is an answer too."""
        if self._holdings is None:
            self._holdings = await self._engine.skills.inventory()
        try:
            return tuple((tool.name, tool.digest) for tool in await toolbox.offered(self._holdings))
        except ProwessError as error:
            return error.code

    async def _follow(self) -> None:
        """Look at once when something happens, here or in another process."""
        try:
            async for event in self._engine.events.follow(names=_RELEVANT_EVENTS):
                self._is_decided = self._is_decided or event.name == _APPROVAL_RESOLVED
                self._woken.set()
        except Exception:  # noqa: BLE001  whatever it is, there is another way
            _log.warning("Events do not arrive; changes are noticed by looking.", exc_info=True)

    async def _watch(self) -> None:
        while True:
            await self._anyone.wait()
            following = asyncio.create_task(self._follow())
            try:
                while self._listeners:
                    await self._rest()
                    await self._check()
                self._anyone.clear()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def _rest(self) -> None:
        """Wait until the next look is due: sooner where something woke it, though never at once after the last."""
        cost = self._shelf.listing.cost
        breath = min(cost / _BUSY_CPU_SHARE, self._poll_seconds)
        await asyncio.sleep(breath)
        longest = min(max(self._poll_seconds, cost / _IDLE_CPU_SHARE), MAX_POLL_SECONDS)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._woken.wait(), longest - breath)
        self._woken.clear()

    async def _check(self) -> None:
        listeners = list(self._listeners.values())
        try:
            moves = await self._shelf.listing.look()
            decided = await self._decided({listener.toolbox.context.actor for listener in listeners})
        except Exception:  # noqa: BLE001  the watch goes on, whatever a store does
            _log.exception("The skills cannot be looked at.")
            return
        moved, self._told = moves != self._told, moves
        if moved:
            self._holdings = None
        tools: dict[Actor, object] = {}
        for listener in listeners:
            try:
                await self._look_after(listener, tools, moved=moved, decided=decided)
            except Exception:  # noqa: BLE001  what is wrong with one listener is no concern of the others
                listener.is_due = True
                _log.exception("A client cannot be told of changes.")

    async def _decided(self, actors: Collection[Actor]) -> bool:
        """Whether somebody has decided anew who may use what, since this was last asked; one policy is read for all."""
        changed = False
        for actor in {actor.organization: actor for actor in actors if _may_read(actor)}.values():
            before = await self._policy_before(actor)
            self._policies[actor.organization] = await self._engine.as_actor(actor).policy.get()
            changed = changed or before != self._policies[actor.organization]
        decided, self._is_decided = self._is_decided or changed, False
        return decided

    async def _policy_before(self, actor: Actor) -> OrgPolicy | None:
        """What an actor's organization had decided when that was last looked at; what it has by now where it never was."""
        known = self._policies.get(actor.organization)
        if known is None and _may_read(actor):
            known = self._policies[actor.organization] = await self._engine.as_actor(actor).policy.get()
        return known

    async def _look_after(self, listener: _Listener, tools: dict[Actor, object], *, moved: bool, decided: bool) -> None:
        """Tell one listener what concerns it; `tools` are those of the actors that were looked after before it."""
        actor = listener.toolbox.context.actor
        if moved and _may_read(actor):
            await listener.tell(ResourcesListChanged())
            await self._tell_of_files(listener)
        if not (moved or decided or listener.is_due):
            return  # nothing else makes other tools of the same skills
        if actor not in tools:
            tools[actor] = await self._tools(listener.toolbox)
        before, listener.seen, listener.is_due = listener.seen, tools[actor], False
        if before != listener.seen:
            await listener.tell(ToolsListChanged())

    async def _tell_of_files(self, listener: _Listener) -> None:
        for uri, seen in list(listener.watched.items()):
            digest = await self._shelf.digest_at(uri)
            if digest != seen and uri in listener.watched:
                listener.watched[uri] = digest
                await listener.tell(ResourceUpdated(uri=uri))


def _may_read(actor: Actor) -> bool:
    return "skills.read" in actor.permissions


async def _send_notification(connection: Connection, event: ServerEvent) -> None:
    if isinstance(event, ToolsListChanged):
        await connection.send_tool_list_changed()
    elif isinstance(event, ResourcesListChanged):
        await connection.send_resource_list_changed()
    elif isinstance(event, ResourceUpdated):
        await connection.send_resource_updated(event.uri)


def connection_of(context: Context) -> Connection:
    """The connection that a message came by; the session that the SDK hands out is only good for one message."""
    held = vars(context.session).get("_connection")
    if not isinstance(held, Connection):
        raise TypeError("This version of mcp keeps the connection of a session elsewhere than in `_connection`.")
    return held
