"""The addresses of the HTTP door, without the layers of a framework in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from prowess.delivery.metrics import CONTENT_TYPE
from prowess.interfaces.mcp.caller import SCOPE_KEY
from prowess.interfaces.mcp.server import ProwessServer

METRICS = "/metrics"
MOST_SESSIONS = 1000
IDLE_SECONDS = 1800.0
"""How many sessions of the older protocol are open at once, and how long one is kept that nobody uses."""

_RETRY_SECONDS = 60
_LISTENING = b"subscriptions/listen"
_RUNNING = (b"tools/call", b"run_skill")
"""It tells of its progress, and ends when whoever called goes away: that takes a stream."""
_plain: ContextVar[bool] = ContextVar("prowess_mcp_plain", default=False)


class _Manager(StreamableHTTPSessionManager):
    """Asks at each request whether its answer is one piece of JSON, which costs less than a stream."""

    @property
    def json_response(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _plain.get()

    @json_response.setter
    def json_response(self, value: bool) -> None:
        """The request says it, not whoever makes the manager."""


class Endpoint:
    """An ASGI app that serves a server at one path, and the metrics of its engine at `/metrics`.

    In the newer protocol a call is answered with one piece of JSON, unless `streams` says that tools of the server send
    notices while they work; only who listens for changes, or runs a skill, gets a stream. In the older one there are so many
    `sessions` at once and no more: who comes after them gets 503, and when to try again.
    """

    def __init__(
        self, server: ProwessServer, path: str, *, streams: bool = False, sessions: int = MOST_SESSIONS
    ) -> None:
        self._manager = _Manager(server, max_sessions=sessions, session_idle_timeout=IDLE_SECONDS)
        self._engine = server.door.engine
        self._path = path
        self._streams = streams
        self._life = Starlette(lifespan=lambda _: self._manager.run())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the app's own life."""
        if scope["type"] == "lifespan":
            await self._life(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path == self._path:
            await self._serve(scope, receive, send)
        elif path == METRICS and scope["method"] == "GET" and _may_read(scope):
            exposition = await self._engine.metrics()
            await Response(exposition, headers={"content-type": CONTENT_TYPE})(scope, receive, send)
        else:
            await PlainTextResponse("There is nothing here.", 404)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = _plain.set(not self._streams and _is_one_call(scope))
        try:
            await self._manager.handle_request(scope, receive, _with_retry(send))
        finally:
            _plain.reset(token)


def _with_retry(send: Send) -> Callable[[Message], Awaitable[None]]:
    """The same, and whoever finds no room is told when to try again."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 503:
            headers = [*message.get("headers", ()), (b"retry-after", str(_RETRY_SECONDS).encode())]
            message = {**message, "headers": headers}
        await send(message)

    return told


def _may_read(scope: Scope) -> bool:
    """Whether whoever the guard let in may know of the skills, whose names are in the metrics."""
    return "skills.read" in scope[SCOPE_KEY].actor.permissions


def _is_one_call(scope: Scope) -> bool:
    """Whether a request is of the newer protocol, and nothing that takes a stream: no listening, and no running."""
    version, method, tool = "", b"", b""
    for name, value in scope["headers"]:
        if name == b"mcp-protocol-version":
            version = value.decode("latin-1")
        elif name == b"mcp-method":
            method = value
        elif name == b"mcp-name":
            tool = value
    if not version or version in HANDSHAKE_PROTOCOL_VERSIONS:
        return False
    return method != _LISTENING and (method, tool) != _RUNNING
