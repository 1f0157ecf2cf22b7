"""MCP over HTTP, as an ASGI app."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from pathlib import Path

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from prowess.engine.engine import Engine
from prowess.feed.metrics import CONTENT_TYPE
from prowess.interfaces.auth.browser import LOOPBACK_HOSTS, make_rules
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.auth.guard import FindCaller, RequestGuard
from prowess.interfaces.mcp.protocol import find_broken_request
from prowess.interfaces.mcp.server import APPROVAL_SECONDS, ProwessServer, make_security, make_server
from prowess.policy.actor import Actor
from prowess.shares import Shares

METRICS_PATH = "/metrics"
MAX_SESSIONS = 1000
SESSION_IDLE_SECONDS = 1800.0
"""How many sessions of the older protocol may be open, and how long an unused one is kept."""

MAX_OPENING_BYTES = 64 << 10
"""How long a request that opens a session or a stream of events may be: its content is kept as long as that is open."""

_RETRY_SECONDS = 60
_LISTEN_METHOD = b"subscriptions/listen"
_STREAMED_TOOLS = frozenset({b"run_skill", b"run_skill_script", b"enable_skill"})
"""Tools that report progress while they run or wait, which takes a stream. A stream also shows that a client went away."""
_json_only: ContextVar[bool] = ContextVar("prowess_mcp_plain", default=False)


class _SessionManager(StreamableHTTPSessionManager):
    """Decides for each request if the response is plain JSON, which costs less than a stream."""

    @property
    def json_response(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _json_only.get()

    @json_response.setter
    def json_response(self, value: bool) -> None:
        """Ignore the value that the SDK sets: each request decides."""

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Register a new session, or return None if there are too many."""
        shares = Shares(self.max_sessions or 0, (owner["client_id"] for owner in self._session_owners.values()))
        has_room = requestor is not None and shares.has_room(requestor["client_id"])
        return super()._admit_session(requestor) if has_room else None


class Endpoint:
    """An ASGI app that serves a server at one path, and the metrics of its engine at `/metrics`.

    In the newer protocol the response is plain JSON, except for subscriptions and for tools that report progress; with
    `streams`, every response is a stream. In the older protocol, at most `sessions` sessions are open at once, half of
    them by one caller; further clients get 503 and `Retry-After`.
    """

    def __init__(
        self, server: ProwessServer, path: str, *, streams: bool = False, sessions: int = MAX_SESSIONS
    ) -> None:
        self._manager = _SessionManager(server, max_sessions=sessions, session_idle_timeout=SESSION_IDLE_SECONDS)
        self._calls = server.calls
        self._engine = server.backend.engine
        self._path = path
        self._streams = streams
        self._life = Starlette(lifespan=lambda _: self.running())

    def running(self) -> AbstractAsyncContextManager[None]:
        """Return the lifespan of the endpoint, for an app that serves more than this one. It can be entered once."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the lifespan of the app."""
        if scope["type"] == "lifespan":
            await self._life(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path == self._path:
            await self._serve(scope, receive, send)
        elif path == METRICS_PATH and scope["method"] == "GET" and _may_read_metrics(scope):
            organization = scope[SCOPE_KEY].actor.organization
            exposition = await self._engine.as_actor(organization=organization).events.metrics()
            await Response(exposition, headers={"content-type": CONTENT_TYPE})(scope, receive, send)
        else:
            await PlainTextResponse("Not found.", 404)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        receive, body = await _read_ahead(scope, receive)
        if body is None:
            return
        broken = find_broken_request(body)
        if broken is not None:
            await JSONResponse(broken, 400)(scope, receive, send)
            return
        if len(body) > MAX_OPENING_BYTES and _opens_connection(scope):
            error = {"code": INVALID_REQUEST, "message": f"The request has more than {MAX_OPENING_BYTES:,} bytes."}
            await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 413)(scope, receive, send)
            return
        is_single = not self._streams and _is_single_response(scope)
        answer = await self._calls.answer(Request(scope, receive), body) if is_single and body else None
        if answer is not None:
            await answer(scope, receive, send)
            return
        # The SDK lets nobody use a session but the user who opened it.
        user = AuthenticatedUser(AccessToken(token="", client_id=scope[SCOPE_KEY].key, scopes=[]))
        token = _json_only.set(is_single)
        try:
            await self._manager.handle_request({**scope, "user": user}, receive, _add_retry_after(send))
        finally:
            _json_only.reset(token)


_READ_AHEAD_BYTES = 4 << 20


async def _read_ahead(scope: Scope, receive: Receive) -> tuple[Receive, bytes | None]:
    """Return a `receive` that replays the body of a request, and the body; b"" if it is too large, None if it never arrives."""
    if scope["method"] != "POST":
        return receive, b""
    messages: list[Message] = []
    size, is_whole = 0, False
    # Larger bodies are left to the SDK, which has its own limit.
    while not is_whole and size < _READ_AHEAD_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return receive, None
        messages.append(message)
        size += len(message.get("body", b""))
        is_whole = not message.get("more_body")
    replay = deque(messages)

    async def receive_again() -> Message:
        return replay.popleft() if replay else await receive()

    return receive_again, b"".join(message.get("body", b"") for message in messages) if is_whole else b""


def _add_retry_after(send: Send) -> Callable[[Message], Awaitable[None]]:
    """Return a `send` that adds `Retry-After` to a 503 response."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 503:
            headers = [*message.get("headers", ()), (b"retry-after", str(_RETRY_SECONDS).encode())]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_header


def _may_read_metrics(scope: Scope) -> bool:
    """Return True if the caller may read skills, whose names are in the metrics."""
    return "skills.read" in scope[SCOPE_KEY].actor.permissions


def _opens_connection(scope: Scope) -> bool:
    """Return True for a request that opens a session of the older protocol, or a stream of the newer one."""
    headers = dict[bytes, bytes](scope["headers"])
    version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
    if version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return headers.get(b"mcp-method") == _LISTEN_METHOD
    return b"mcp-session-id" not in headers


def _is_single_response(scope: Scope) -> bool:
    """Return True for a request of the newer protocol that needs no stream."""
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
    return method != _LISTEN_METHOD and not (method == b"tools/call" and tool in _STREAMED_TOOLS)


DEFAULT_PATH = "/mcp"
NOBODY = Caller(actor=Actor(name="nobody", kind="agent", permissions=frozenset()))
"""The caller of a request that did not pass the guard. No request reaches the app without it."""


def asgi_app(
    engine: Engine,
    *,
    callers: FindCaller,
    keys: Sequence[bytes],
    hosts: Collection[str] = LOOPBACK_HOSTS,
    origins: Collection[str] = (),
    path: str = DEFAULT_PATH,
    cache: Path | None = None,
    approval_seconds: float = APPROVAL_SECONDS,
) -> RequestGuard:
    """Return the MCP server of an engine as an ASGI app, for both versions of the protocol. Run its lifespan.

    `callers` returns the caller of a token. `hosts` are the names it is served under, without ports, and `origins` the other
    web pages that may use it. `keys`, of 32 bytes or more, seal questions to people: processes that share the first key
    accept each other's answers. With `cache`, a folder that only the user can write to, listings are remembered there for
    the next process. `approval_seconds` is how long a tool call waits for a person to approve it.

    Every caller with `skills.read` is served the skills of its actor's organization, and its metrics at `/metrics`.
    """
    security = make_security(list(keys), NOBODY)
    server = make_server(engine, NOBODY, security=security, cache=cache, approval_seconds=approval_seconds)
    return wrap_server(server, callers=callers, hosts=hosts, origins=origins, path=path)


def wrap_server(
    server: ProwessServer,
    *,
    callers: FindCaller,
    hosts: Collection[str] = LOOPBACK_HOSTS,
    origins: Collection[str] = (),
    path: str = DEFAULT_PATH,
    streams: bool = False,
    sessions: int = MAX_SESSIONS,
) -> RequestGuard:
    """Return a server as an ASGI app. Pass `streams` if its tools send notifications while they work.

    At most `sessions` sessions of the older protocol are open at once, half of them by one caller.
    """
    return RequestGuard(
        Endpoint(server, path, streams=streams, sessions=sessions),
        callers=callers,
        rules=make_rules(hosts, origins),
    )
