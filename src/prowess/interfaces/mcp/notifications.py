"""Notify clients that their tools or the skills changed.

A notification never contains the text of a skill; it only means that the client should ask again, which goes through
the gate. One task serves all listeners. It wakes up on the engine's events and polls the catalog every two seconds, or
less often if polling would take more than half a percent of a CPU core. Without listeners it does nothing.

A change must not be missed between listing and watching. Therefore the catalog's state is recorded before the skills
are listed (`mark`), and a listener's tools are read before it is registered.
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
    PromptsListChanged,
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
"""The share of a CPU core that polling may take: while nothing happens, and while events arrive continuously."""

_MAX_WATCHED_FILES = 1000
_MAX_URI_CHARS = 8_192
"""No file of a skill has a longer address. What is watched is kept in memory as long as the client wants."""
_APPROVAL_RESOLVED = "approval_resolved"
_RELEVANT_EVENTS = ("skills_state_changed", _APPROVAL_RESOLVED)
"""The events that trigger a check at once."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class _Listener:
    """One connection or stream, the last known tools of its caller, and the files it watches with their digests.

    `is_due` is True if the last update failed and must be tried again.
    """

    toolbox: Toolbox
    notify: Callable[[ServerEvent], Awaitable[None]]
    seen: object
    is_due: bool = False
    watched: dict[str, str | None] = field(default_factory=dict[str, "str | None"])


class ChangeNotifier:
    """Sends each listener the notifications that concern it. A failing listener does not affect the others."""

    def __init__(self, engine: Engine, index: EntryIndex, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._engine = engine
        self._index = index
        self._poll_seconds = poll_seconds
        self._listeners: dict[Connection | ListenHandler, _Listener] = {}
        self._has_listeners = asyncio.Event()
        self._woken = asyncio.Event()
        self._announced: int | None = None
        self._inventory: Inventory | None = None
        self._policies: dict[str, OrgPolicy] = {}
        self._is_decided = False

    @property
    def listeners(self) -> int:
        """The number of connections and streams that receive notifications."""
        return len(self._listeners)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Watch for changes within the block. At its end, stop watching and close every open stream."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Close every open stream of the newer protocol. Connections of the older one are closed by their transport."""
        for handler in list(self._listeners):
            if isinstance(handler, ListenHandler):
                handler.close()

    def wake(self) -> None:
        """Check for changes soon, because something was written."""
        self._woken.set()

    async def mark(self) -> None:
        """Record the state of the catalog, so that later changes are noticed. Call it before listing skills."""
        if self._announced is None:
            self._announced = await self._index.listing.look()

    async def announce(self, event: ServerEvent) -> None:
        """Send an event to every listener. The SDK drops it for streams that did not subscribe to that kind."""
        for listener in list(self._listeners.values()):
            await listener.notify(event)

    async def listen(
        self, toolbox: Toolbox, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one subscription stream of the newer protocol until the client or `close` ends it."""
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
        """Notify a connection of the older protocol about changes until it closes."""
        await self._connected(toolbox, context)

    async def subscribe(self, toolbox: Toolbox, context: Context, uri: str) -> None:
        """Notify a connection of the older protocol when the file at `uri` changes."""
        await self._watch_file(await self._connected(toolbox, context), uri)

    def unsubscribe(self, context: Context, uri: str) -> None:
        """Stop notifying a connection about the file at `uri`."""
        listener = self._listeners.get(connection_of(context))
        if listener is not None:
            listener.watched.pop(uri, None)

    async def _connected(self, toolbox: Toolbox, context: Context) -> _Listener:
        connection = connection_of(context)
        known = self._listeners.get(connection)
        if known is not None:
            return known

        async def notify(event: ServerEvent) -> None:
            await _send_notification(connection, event)

        listener = await self._join(connection, toolbox, notify)
        connection.exit_stack.callback(self._listeners.pop, connection, None)
        return listener

    async def _join(
        self, key: Connection | ListenHandler, toolbox: Toolbox, notify: Callable[[ServerEvent], Awaitable[None]]
    ) -> _Listener:
        """Register and return the listener of a key. Its current tools are read first, as the base for comparison."""
        await self.mark()
        await self._policy_before(toolbox.context.actor)
        seen = await self._tools(toolbox)
        # A second request of the same connection may have registered it during the awaits above; the first one stays.
        listener = self._listeners.setdefault(key, _Listener(toolbox=toolbox, notify=notify, seen=seen))
        self._has_listeners.set()
        return listener

    async def _watch_file(self, listener: _Listener, uri: str) -> None:
        if (
            _may_read(listener.toolbox.context.actor)
            and len(uri) <= _MAX_URI_CHARS
            and uri not in listener.watched
            and len(listener.watched) < _MAX_WATCHED_FILES
        ):
            listener.watched[uri] = await self._index.digest_at(uri)

    async def _tools(self, toolbox: Toolbox) -> object:
        """Return a value that changes if the tools of a listener change: names and digests, or an error code."""
        if self._inventory is None:
            self._inventory = await self._engine.skills.inventory()
        try:
            return tuple((tool.name, tool.digest) for tool in await toolbox.offered(self._inventory))
        except ProwessError as error:
            return error.code

    async def _follow(self) -> None:
        """Wake the watcher on each relevant event of this or another process. If events fail, polling remains."""
        try:
            async for event in self._engine.events.follow(names=_RELEVANT_EVENTS):
                self._is_decided = self._is_decided or event.name == _APPROVAL_RESOLVED
                self._woken.set()
        except Exception:  # noqa: BLE001  polling still notices changes
            _log.warning("Cannot follow events; changes are noticed by polling only.", exc_info=True)

    async def _watch(self) -> None:
        while True:
            await self._has_listeners.wait()
            following = asyncio.create_task(self._follow())
            try:
                while self._listeners:
                    await self._rest()
                    await self._check()
                # There is no await since the loop's condition, so no listener can have joined before this clear.
                self._has_listeners.clear()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def _rest(self) -> None:
        """Wait until the next check is due. An event ends the wait early, but not before a minimum pause."""
        cost = self._index.listing.cost
        pause = min(cost / _BUSY_CPU_SHARE, self._poll_seconds)
        await asyncio.sleep(pause)
        longest = min(max(self._poll_seconds, cost / _IDLE_CPU_SHARE), MAX_POLL_SECONDS)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._woken.wait(), longest - pause)
        # Cleared before the check, not after it: an event that arrives during the check causes another one.
        self._woken.clear()

    async def _check(self) -> None:
        listeners = list(self._listeners.values())
        try:
            moves = await self._index.listing.look()
            decided = await self._decided({listener.toolbox.context.actor for listener in listeners})
        except Exception:  # noqa: BLE001  a failing store must not end the watch
            _log.exception("Cannot check the skills for changes.")
            return
        moved, self._announced = moves != self._announced, moves
        if moved:
            self._inventory = None
        tools: dict[Actor, object] = {}
        for listener in listeners:
            try:
                await self._notify(listener, tools, moved=moved, decided=decided)
            except Exception:  # noqa: BLE001  one failing listener must not affect the others
                listener.is_due = True
                _log.exception("Cannot notify a client of changes.")

    async def _decided(self, actors: Collection[Actor]) -> bool:
        """Return True if a policy changed or an approval was answered since the last call.

        The policy is read once per organization, not once per actor.
        """
        changed = False
        for actor in {actor.organization: actor for actor in actors if _may_read(actor)}.values():
            before = await self._policy_before(actor)
            self._policies[actor.organization] = await self._engine.as_actor(actor).policy.get()
            changed = changed or before != self._policies[actor.organization]
        # Read and reset without an await in between, so that an approval answered in the meantime is not lost.
        decided, self._is_decided = self._is_decided or changed, False
        return decided

    async def _policy_before(self, actor: Actor) -> OrgPolicy | None:
        """Return the last known policy of an actor's organization, reading it now if it is not known yet.

        Return None for an actor who may not read skills.
        """
        known = self._policies.get(actor.organization)
        if known is None and _may_read(actor):
            known = self._policies[actor.organization] = await self._engine.as_actor(actor).policy.get()
        return known

    async def _notify(self, listener: _Listener, tools: dict[Actor, object], *, moved: bool, decided: bool) -> None:
        """Send one listener the notifications that concern it. `tools` caches the tools by actor within one check."""
        actor = listener.toolbox.context.actor
        if moved and _may_read(actor):
            await listener.notify(ResourcesListChanged())
            await self._notify_files(listener)
        if (moved or decided) and _may_read(actor):
            # An answer or another policy may show the text of a skill or hide it, and with it the prompt.
            await listener.notify(PromptsListChanged())
        if not (moved or decided or listener.is_due):
            return  # the tools depend only on the skills, the policy and the approvals
        if actor not in tools:
            tools[actor] = await self._tools(listener.toolbox)
        before, listener.seen, listener.is_due = listener.seen, tools[actor], False
        if before != listener.seen:
            await listener.notify(ToolsListChanged())

    async def _notify_files(self, listener: _Listener) -> None:
        for uri, seen in list(listener.watched.items()):
            digest = await self._index.digest_at(uri)
            # The client may have unsubscribed while the digest was computed.
            if digest != seen and uri in listener.watched:
                listener.watched[uri] = digest
                await listener.notify(ResourceUpdated(uri=uri))


def _may_read(actor: Actor) -> bool:
    return "skills.read" in actor.permissions


async def _send_notification(connection: Connection, event: ServerEvent) -> None:
    if isinstance(event, ToolsListChanged):
        await connection.send_tool_list_changed()
    elif isinstance(event, PromptsListChanged):
        await connection.send_prompt_list_changed()
    elif isinstance(event, ResourcesListChanged):
        await connection.send_resource_list_changed()
    elif isinstance(event, ResourceUpdated):
        await connection.send_resource_updated(event.uri)


def connection_of(context: Context) -> Connection:
    """Return the connection that a message came by. Raise `TypeError` if this version of the SDK hides it."""
    # The SDK makes a session per message and has no public way to its connection, which lives longer.
    connection = vars(context.session).get("_connection")
    if not isinstance(connection, Connection):
        raise TypeError("This version of mcp keeps the connection of a session elsewhere than in `_connection`.")
    return connection
