"""Server-sent events: frames, and responses that end cleanly when the client or the server disconnects."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from time import monotonic
from typing import Any, TypeVar, cast

import anyio
from fastapi import Request
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from prowess.events import Event
from prowess.feed.event_feed import Subscription
from prowess.interfaces.rest.request import to_bytes

T = TypeVar("T")

EVENT_STREAM = "text/event-stream"
STREAM_RESPONSE: dict[str, Any] = {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}
"""The OpenAPI description of a stream."""

HEARTBEAT_SECONDS = 15.0
"""How often an idle stream has a comment."""
SEND_SECONDS = 30.0
"""How long a client may take to receive one chunk before the connection is closed."""
MAX_BEHIND_EVENTS = 1_000
"""How many events may happen while a client receives what came before; one that is slower is dropped."""
CHUNK_BYTES = 64 * 1024
"""About the most that is waiting to be sent to one client, besides what its connection buffers (as much again)."""
RETRY_MS = 2_000
"""How long a client should wait before it connects again."""

_CLOSE_SECONDS = 2.0
_FRAMES_KEPT = 2_000
_HEARTBEAT = b": heartbeat\n\n"
_log = logging.getLogger(__name__)


def frame(name: str, data: object, *, id: int | None = None) -> bytes:
    """Return one named event with its data as JSON on a single line."""
    head = f"event: {name}\ndata: " if id is None else f"id: {id}\nevent: {name}\ndata: "
    return b"".join((head.encode(), to_bytes(data), b"\n\n"))


class FrameCache:
    """The frames of recent events, so that each event is encoded once, however many clients receive it."""

    def __init__(self) -> None:
        self._frames: OrderedDict[str, bytes] = OrderedDict()

    def get(self, event: Event) -> bytes:
        """Return the frame of an event."""
        found = self._frames.get(event.id)
        if found is None:
            found = frame(event.name, event.data, id=event.number)
            # One without an id is made for a single reader, such as the notice that older events were pruned.
            if event.id:
                self._frames[event.id] = found
            if len(self._frames) > _FRAMES_KEPT:
                self._frames.popitem(last=False)
        return found


def wants_stream(request: Request) -> bool:
    """Return True if the client accepts a stream of events."""
    return EVENT_STREAM in request.headers.get("accept", "").lower()


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return the result of some work; cancel it if the client disconnects."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_until_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            # Nobody receives this answer.
            raise HTTPException(400, "The client closed the connection.")
        return task.result()
    finally:
        await end_tasks(task, gone)


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they have ended, even if the caller is being cancelled itself."""
    for task in tasks:
        task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class StreamResponse(EventSourceResponse):
    """A response of frames. `stop` is called when the stream ends for any reason, also before its first frame.

    `on_shutdown` is called when the server is about to stop; the frames should then end within two seconds.
    """

    def __init__(
        self,
        frames: AsyncGenerator[bytes],
        *,
        stop: Callable[[], Awaitable[None]],
        on_shutdown: Callable[[], None] | None = None,
        ping: float = 0,
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            frames,
            ping=ping,
            ping_message_factory=cast("Any", lambda: _HEARTBEAT),
            send_timeout=SEND_SECONDS,
            # The library only calls `set`.
            shutdown_event=cast("anyio.Event", _ShutdownCall(on_shutdown)) if on_shutdown else None,
            shutdown_grace_period=_CLOSE_SECONDS if on_shutdown else 0,
        )
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames until they end, the client disconnects or takes too long, or the server stops."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            _log.info("Closed a stream whose client received nothing for %.0f seconds.", SEND_SECONDS)
        finally:
            await self._stop()


class _ShutdownCall:
    def __init__(self, call: Callable[[], None]) -> None:
        self.set = call


class EventStream:
    """The frames of one client's subscription, from its first to its last.

    The first frame has the position and no data: a client that is cut off before the first event resumes there. A stream
    that the server ends says where to resume, in a comment; the client has the same number as its last event id.
    """

    def __init__(self, entered: AbstractContextManager[Subscription], frames: FrameCache) -> None:
        self._entered = entered
        self._frames = frames
        self._subscription = entered.__enter__()

    async def respond(self) -> StreamResponse:
        """Return the response. Raise `Unavailable` if the log cannot be read."""
        try:
            await self._subscription.start()
        except BaseException:
            await self._stop()
            raise
        return StreamResponse(self._send(), stop=self._stop, on_shutdown=self._subscription.end)

    async def _send(self) -> AsyncGenerator[bytes]:
        subscription = self._subscription
        sent = subscription.position or 0
        yield f"retry: {RETRY_MS}\nid: {sent}\n\n".encode()
        due, caught_up = monotonic() + HEARTBEAT_SECONDS, False
        while not subscription.ended:
            events = await subscription.next(max(0.0, due - monotonic()))
            caught_up = caught_up or subscription.behind == 0
            for chunk, last in self._chunks(events):
                yield chunk
                sent = last
                if caught_up and subscription.behind > MAX_BEHIND_EVENTS:
                    yield _farewell("too slow", sent)
                    return
            if monotonic() >= due:
                due = monotonic() + HEARTBEAT_SECONDS
                if not events:
                    yield _HEARTBEAT
        yield _farewell("the server is closing", sent)

    def _chunks(self, events: Sequence[Event]) -> Iterator[tuple[bytes, int]]:
        """Yield the frames of events, several in one chunk, each with the number of its last event."""
        chunk, size = list[bytes](), 0
        for event in events:
            encoded = self._frames.get(event)
            chunk.append(encoded)
            size += len(encoded)
            if size >= CHUNK_BYTES:
                yield b"".join(chunk), event.number
                chunk, size = [], 0
        if chunk:
            yield b"".join(chunk), events[-1].number

    async def _stop(self) -> None:
        with suppress(RuntimeError):
            self._entered.__exit__(None, None, None)


def _farewell(why: str, position: int) -> bytes:
    return f": closed: {why}; resume after {position}\n\n".encode()
