"""Telling clients that their tools or the skills changed.

Nobody is told anything about what changed, only that it is worth asking again: the text of a skill travels no other way
than through the gate. Who listens is looked after by one task, which looks at the catalog now and then and wakes up with
every event of the engine; while nobody listens, it does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

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

from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.mcp.caller import Context

POLL_SECONDS = 1.0
_MOST_WATCHED = 1000
_EVENTS = ("skills_state_changed", "approval_resolved")
"""Those after which other tools or skills may be there."""

Key = tuple[str, str]
"""A caller, and one of its conversations."""

Fingerprint = Callable[[], Awaitable[object]]
"""What tells whether the tools of a listener are still the same."""

DigestAt = Callable[[str], Awaitable[str | None]]
"""What tells whether the file at an address is still the same."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Listener:
    """One caller in one conversation, with the streams and connections that it listens on."""

    tools: Fingerprint
    seen: object = None
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    connections: set[Connection] = field(default_factory=set[Connection])
    watched: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    streams: int = 0

    async def tell(self, event: ServerEvent) -> None:
        await self.bus.publish(event)
        for connection in list(self.connections):
            with suppress(Exception):  # a client that went away is no concern of the others
                if isinstance(event, ToolsListChanged):
                    await connection.send_tool_list_changed()
                elif isinstance(event, ResourcesListChanged):
                    await connection.send_resource_list_changed()
                elif isinstance(event, ResourceUpdated):
                    await connection.send_resource_updated(event.uri)


class Notices:
    """Keeps the listeners, and tells each of them what concerns it."""

    def __init__(self, engine: Engine, digest_at: DigestAt, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._engine = engine
        self._digest_at = digest_at
        self._poll_seconds = poll_seconds
        self._listeners: dict[Key, _Listener] = {}
        self._handlers: set[ListenHandler] = set()
        self._woken = asyncio.Event()
        self._positions: Mapping[str, str] | None = None

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
        for handler in list(self._handlers):
            handler.close()

    async def mark(self) -> None:
        """Be sure to notice what changes from now on; called before the skills are listed to anybody."""
        if self._positions is None:
            self._positions = await self._look({})

    async def announce(self, event: ServerEvent) -> None:
        """Tell every listener that asked to be told of such a thing."""
        for listener in list(self._listeners.values()):
            await listener.tell(event)

    async def listen(
        self, key: Key, tools: Fingerprint, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream of the newer protocol until the client ends it."""
        listener = await self._joined(key, tools)
        handler = ListenHandler(listener.bus)
        self._handlers.add(handler)
        listener.streams += 1
        for uri in params.notifications.resource_subscriptions or ():
            await self._watch_file(listener, uri)
        try:
            return await handler(context, params)
        finally:
            self._handlers.discard(handler)
            listener.streams -= 1
            self._leave(key, listener)

    async def subscribe(self, key: Key, tools: Fingerprint, uri: str) -> None:
        """Tell a connection of the older protocol when a file changes."""
        await self._watch_file(await self._joined(key, tools), uri)

    def unsubscribe(self, key: Key, uri: str) -> None:
        """Tell it no more."""
        listener = self._listeners.get(key)
        if listener is not None:
            listener.watched.pop(uri, None)

    async def _watch_file(self, listener: _Listener, uri: str) -> None:
        if len(listener.watched) < _MOST_WATCHED:
            listener.watched.setdefault(uri, await self._digest_at(uri))

    async def connect(self, key: Key, tools: Fingerprint, context: Context) -> None:
        """Tell a connection of the older protocol about changes, until it closes."""
        connection = connection_of(context)
        listener = await self._joined(key, tools)
        listener.connections.add(connection)

        def gone() -> None:
            listener.connections.discard(connection)
            self._leave(key, listener)

        connection.exit_stack.callback(gone)

    async def _joined(self, key: Key, tools: Fingerprint) -> _Listener:
        listener = self._listeners.get(key)
        if listener is None:
            listener = self._listeners[key] = _Listener(tools=tools)
            listener.seen = await tools()
        await self.mark()
        self._woken.set()
        return listener

    def _leave(self, key: Key, listener: _Listener) -> None:
        if not listener.streams and not listener.connections and self._listeners.get(key) is listener:
            del self._listeners[key]

    async def _follow(self) -> None:
        """Look at once when something happens, here or in another process."""
        try:
            async for _ in self._engine.follow(names=_EVENTS):
                self._woken.set()
        except ProwessError:
            _log.warning("Events do not arrive; changes are noticed by looking.")

    async def _watch(self) -> None:
        while True:
            await self._woken.wait()
            following = asyncio.create_task(self._follow())
            try:
                while self._listeners:
                    await self._check_when_woken()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            self._woken.clear()

    async def _check_when_woken(self) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._woken.wait(), self._poll_seconds)
        self._woken.clear()
        try:
            await self._check()
        except ProwessError as error:
            _log.warning("The skills cannot be looked at: %s", error.message)

    async def _check(self) -> None:
        positions = self._positions or {}
        self._positions = await self._look(positions)
        changed = self._positions != positions
        for listener in list(self._listeners.values()):
            if changed:
                await listener.tell(ResourcesListChanged())
                await self._tell_of_files(listener)
            tools, before = await listener.tools(), listener.seen
            listener.seen = tools
            if before not in (None, tools):
                await listener.tell(ToolsListChanged())

    async def _tell_of_files(self, listener: _Listener) -> None:
        for uri, seen in list(listener.watched.items()):
            digest = await self._digest_at(uri)
            if digest != seen:
                listener.watched[uri] = digest
                await listener.tell(ResourceUpdated(uri=uri))

    async def _look(self, since: Mapping[str, str]) -> Mapping[str, str]:
        changes = await asyncio.to_thread(self._engine.catalog.changes, since)
        return changes.positions


def connection_of(context: Context) -> Connection:
    """The connection that a message came by; the session that the SDK hands out is only good for one message."""
    held: Any = vars(context.session)["_connection"]
    return held
