"""MCP over HTTP: an ASGI app to embed, and a server of our own."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import signal
import socket
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from prowess.engine.engine import Engine
from prowess.errors import Unavailable
from prowess.interfaces.mcp.caller import Caller
from prowess.interfaces.mcp.endpoint import MOST_SESSIONS, Endpoint
from prowess.interfaces.mcp.guard import LOOPBACK, Callers, Guard
from prowess.interfaces.mcp.server import ProwessServer, make_server, security_of
from prowess.policy.actor import Actor

PATH = "/mcp"
_PARTING_SECONDS = 1
NOBODY = Caller(actor=Actor(name="nobody", kind="agent", permissions=frozenset()))
"""Who calls where the guard did not say: the app is never reached without it."""


def asgi_app(
    engine: Engine,
    *,
    callers: Callers,
    keys: Sequence[bytes],
    hosts: Collection[str] = LOOPBACK,
    origins: Collection[str] = (),
    path: str = PATH,
) -> ASGIApp:
    """The MCP server of an engine as an ASGI app, for both eras of the protocol.

    `callers` says who has a token. `hosts` are the names it is served under, without ports, and `origins` the pages
    beside its own that may use it. `keys`, of 32 bytes or more, seal questions to people: processes that share the first
    of them take each other's answers. Run its lifespan, as servers do. The metrics are at `/metrics`, for the same tokens.

    One engine serves the catalog and the metrics of one organization: whoever `callers` lets in with `skills.read` sees
    all of its skills, whichever organization their actor is of. Other organizations need engines and apps of their own.
    """
    server = make_server(engine, NOBODY, security=security_of(list(keys), NOBODY))
    return app_of(server, callers=callers, hosts=hosts, origins=origins, path=path)


def app_of(
    server: ProwessServer,
    *,
    callers: Callers,
    hosts: Collection[str] = LOOPBACK,
    origins: Collection[str] = (),
    path: str = PATH,
    streams: bool = False,
    sessions: int = MOST_SESSIONS,
) -> ASGIApp:
    """The same of a server that was made before; `streams` where its tools send notices while they work.

    Of the older protocol it keeps so many `sessions` at once.
    """
    return Guard(
        Endpoint(server, path, streams=streams, sessions=sessions), callers=callers, hosts=hosts, origins=origins
    )


def holder_of(token: str, caller: Caller) -> Callers:
    """The one caller who holds the token."""
    expected = token.encode()
    return lambda given: caller if hmac.compare_digest(given.encode(), expected) else None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; `Unavailable` where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its protocol asyncio knows a socket whose answers must not wait until they fill a packet.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host.strip("[]"), port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise Unavailable(
            f"{host}:{port} cannot be listened on: {error.strerror or error}.", hint="Choose another --port."
        ) from error
    return opened


async def serve_http(app: ASGIApp, listener: socket.socket, *, ready: Callable[[], None] = lambda: None) -> int:
    """Serve until a signal comes, and give the exit code; requests under way have a second to finish."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_PARTING_SECONDS,
    )
    server = _Server(config)
    ready()
    await server.serve(sockets=[listener])
    return 130 if signal.SIGINT in server.received else 0


class _Server(uvicorn.Server):
    """Ends on a signal without raising it again, so that what was opened around it is closed in order."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.received: list[int] = []

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Note the signals of the time in between, and end at the first one."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self.received.append(number)
            self.handle_exit(number, None)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
