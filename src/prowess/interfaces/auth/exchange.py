"""One request and its response: measure the body, add headers, and end a stream when the server stops."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prowess.interfaces.auth.browser import Headers, has_body
from prowess.interfaces.auth.refusal import Refusal, Respond, retry_later

MAX_BODY_BYTES = 4 << 20
BODY_SECONDS = 60.0
"""How long a client may take to send a body."""
SEND_SECONDS = 60.0
"""How long a client may take to read a part of the response, beyond what fits into the buffers."""
STOPPING = retry_later(503, "stopping", "The server is stopping.", 1)
_STREAM_TYPE = b"text/event-stream"
_TOO_SLOW = Refusal(status=408, code="too-slow", detail="The body did not arrive in time.", hint="Try again.")
_INTERNAL = Refusal(status=500, code="error", detail="Internal error.", hint="See the server's log.")
_log = logging.getLogger(__name__)


class _ClientTooSlow(OSError):
    """The client does not read the response. Applications handle it as if the client had gone away."""


class Exchange:
    """Wraps `receive` and `send` of one request.

    A body over `max_bytes`, or one that takes too long, ends for the application as if the client had gone away, and the
    client gets the refusal instead of the application's response. `on_stream` is called when a stream of events starts; it
    returns a refusal if there are too many. The application answers `HEAD` as `GET`; the body is not sent.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        headers: Headers,
        respond: Respond,
        max_bytes: int,
        on_stream: Callable[[Exchange], Refusal | None],
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers = headers
        self._respond = respond
        self._max_bytes = max_bytes
        self._on_stream = on_stream
        self._refusal: Refusal | None = None
        self._task = asyncio.current_task()
        self._started_at = time.perf_counter()
        self._deadline = 0.0
        self.body_bytes = 0
        """How many bytes of the body have arrived."""
        self._sent_bytes = 0
        self._is_read = False
        self._is_ended = False
        self._is_finished = False
        self._is_head = scope["method"] == "HEAD"
        self.on_body: Callable[[int], Refusal | None] | None = None
        """Called with the size of each part of the body; returns a refusal if there is no room for it."""
        self.watch: Callable[[], Coroutine[Any, Any, None]] | None = None
        """Ends the stream when its caller may no longer have it."""
        self.is_stopping = False
        """True if the server stops, and may cancel the request."""
        self.status = 0
        """The status of the response; 0 before it has started."""

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Pass the request on, and finish the response if the application does not."""
        try:
            await app({**scope, "method": "GET"} if self._is_head else scope, self.receive, self.send)
        except asyncio.CancelledError:
            if self._task is None or not (self._is_ended or self.is_stopping) or self._task.uncancel():
                raise
            if not self._is_ended:
                self._refusal = STOPPING
        except _ClientTooSlow:
            return  # the server closes the connection of a response that is not finished
        except Exception as error:  # noqa: BLE001  (the last resort: every request gets an answer)
            # A response that was sent is an answer to the error, which its sender has logged.
            if self._refusal is None and not self._is_finished:
                _log.error("A request failed unexpectedly.", exc_info=error)
                self._refusal = _INTERNAL
        if self.status == 0 and self._refusal is not None:
            await self.refuse(self._refusal)
        elif self._is_ended and not self._is_finished:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def refuse(self, refusal: Refusal) -> None:
        """Send the response to a request that is refused."""
        self._refusal = None
        await self._respond(self._scope, refusal)(self._scope, self._receive, self.send)

    def end(self) -> None:
        """End a stream that has started, so that the client can connect again elsewhere."""
        if self._task is not None and not self._is_ended:
            self._is_ended = True
            self._task.cancel()

    async def receive(self) -> Message:
        """Return the next part of the body."""
        if self._is_read:
            return await self._receive()
        # A time limit costs as much as all other checks together, so only a body that is announced has one.
        if has_body(self._scope):
            self._deadline = self._deadline or asyncio.get_running_loop().time() + BODY_SECONDS
            try:
                async with asyncio.timeout_at(self._deadline):
                    message = await self._receive()
            except TimeoutError:
                return self._stop_reading(_TOO_SLOW)
        else:
            message = await self._receive()
        size = len(message.get("body", b""))
        self.body_bytes += size
        self._is_read = not message.get("more_body", False)
        refusal = self.on_body(size) if size and self.on_body is not None else None
        if self.body_bytes > self._max_bytes:
            refusal = too_large(self._max_bytes)
        return message if refusal is None else self._stop_reading(refusal)

    def _stop_reading(self, refusal: Refusal) -> Message:
        self._refusal = refusal
        self._is_read = True
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the response, with the headers that every response has."""
        if self._refusal is not None or (self._is_head and self._is_finished):
            return  # `run` sends the refusal instead, and a response to `HEAD` has no body
        is_first = True
        if message["type"] == "http.response.start":
            message = self._start(message)
            if self._refusal is not None:
                self.end()
                return
            if self._is_head:
                await self._send(message)
                await self._send({"type": "http.response.body", "body": b""})
                self._is_finished = True
                if _is_stream(message):
                    # The application would continue for as long as the client stays.
                    self.end()
                return
        elif message["type"] == "http.response.body":
            self._is_finished = not message.get("more_body", False)
            # The server takes the first part into its buffer; it waits for the client before it takes another one.
            is_first, self._sent_bytes = not self._sent_bytes, self._sent_bytes + len(message.get("body", b""))
        if is_first:
            await self._send(message)
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(message)
        except TimeoutError as error:
            raise _ClientTooSlow from error

    def _start(self, message: Message) -> Message:
        headers: Headers = list(message.get("headers", ()))
        present = {name.lower(): value for name, value in headers}
        if _is_stream(message) and not self._is_head:
            self._refusal = self._on_stream(self)
            if self._refusal is not None:
                return message
        self.status = message["status"]
        return {**message, "headers": [*headers, *(pair for pair in self._headers if pair[0] not in present)]}

    def log_line(self, caller: str, organization: str) -> dict[str, Any]:
        """Return what the access log says: no query, no header and no body, any of which may hold a secret."""
        client = self._scope.get("client")
        return {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": self._scope["method"],
            "path": self._scope["path"][:500],
            "status": self.status,
            "ms": round((time.perf_counter() - self._started_at) * 1000, 1),
            "received": self.body_bytes,
            "sent": self._sent_bytes,
            "address": client[0] if client else "",
            "caller": caller,
            "organization": organization,
        }


def _is_stream(start: Message) -> bool:
    headers: Headers = start.get("headers", [])
    return any(name.lower() == b"content-type" and value.startswith(_STREAM_TYPE) for name, value in headers)


def too_large(limit: int) -> Refusal:
    """Return the refusal of a body that is too large."""
    return Refusal(
        status=413,
        code="too-large",
        detail=f"The body is larger than {limit:,} bytes.",
        hint="Send less at once.",
    )
