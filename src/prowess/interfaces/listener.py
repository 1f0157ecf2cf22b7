"""Listen on a socket and serve an ASGI app until a signal arrives, in one process or several.

Python runs one thread at a time, so that one process serves as much as one core can. Several share a listening socket and
the database, and no memory.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prowess.errors import Unavailable
from prowess.interfaces.auth.guard import RequestGuard
from prowess.interfaces.stop_signals import stop_on_signals

_SHUTDOWN_SECONDS = 5
_SWITCH_SECONDS = 0.001
_KEEP_ALIVE_SECONDS = 75
HEADER_SECONDS = 20.0
"""How long a client may take to send the headers of a request, once the connection or the request has started."""
UNREAD_SECONDS = 60.0
"""How long a client may read nothing of a response, on Linux."""
_MAX_HEADER_BYTES = 64 << 10
_BACKLOG = 128
"""How many connections are accepted at a time. Those that are too many are closed after that."""
_OTHER_FILES = 256
"""How many open files are left to everything else, or a quarter if that is more."""


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raise `Unavailable` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol given, asyncio sets TCP_NODELAY, so that small responses are sent at once.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host.strip("[]"), port))
        opened.listen(_BACKLOG)
        # Connections inherit it. A client that reads nothing would otherwise keep a response in memory for as long as it likes,
        # also after we have closed the connection.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(UNREAD_SECONDS * 1000))
    except OSError as error:
        opened.close()
        # The name cannot be resolved, or the address belongs to another machine: then no port helps.
        is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        hint = "Pass an address of this machine with --host." if is_host else "Choose another port with --port."
        raise Unavailable(f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint=hint) from error
    return opened


async def serve_http(
    app: RequestGuard,
    listener: socket.socket,
    *,
    ready: Callable[[], None] = lambda: None,
    trusted_proxies: Sequence[str] = (),
) -> int:
    """Serve until a signal arrives, and return the exit code.

    Streams end at once, so that their clients connect to another server; running requests have some seconds to finish.
    `ready` is called when the lifespan of the app has started. From `trusted_proxies`, the address of a client is taken from
    `X-Forwarded-For`.
    """
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(GuardedProtocol, room=ConnectionRoom(_max_connections()))),
        backlog=_BACKLOG,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        # Longer than proxies keep an idle connection, so that none sends a request into one that is being closed.
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = _UvicornServer(config, app, ready)
    # While threads compute, the event loop waits this long for its turn, several times for each request.
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        await server.serve(sockets=[listener])
    finally:
        sys.setswitchinterval(before)
    return 130 if signal.SIGINT in server.received else 0


def _max_connections() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(_OTHER_FILES, limit - max(_OTHER_FILES, limit // 4))


class ConnectionRoom:
    """Room for the connections of a server. If there are too many, the one that has been idle for longest is closed.

    Otherwise anybody could use up the files that this process may open, by connecting and sending nothing.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._idle: dict[GuardedProtocol, None] = {}

    def enter(self, connection: GuardedProtocol) -> None:
        """Count a new connection, which is idle."""
        self._open += 1
        self.rest(connection)
        if self._open > self._most:
            longest = next(iter(self._idle))
            self.work(longest)
            longest.transport.abort()

    def rest(self, connection: GuardedProtocol) -> None:
        """Count a connection as idle from now on: it waits for a request."""
        self._idle[connection] = None

    def work(self, connection: GuardedProtocol) -> None:
        """Count a connection as busy: it has a request."""
        self._idle.pop(connection, None)

    def leave(self, connection: GuardedProtocol) -> None:
        """Forget a connection that has ended."""
        self._open -= 1
        self.work(connection)


class GuardedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol over httptools, which takes a third of the time of h11, with the limits that it lacks.

    It closes connections whose headers do not arrive in time or are too large, and idle ones if there are too many. It ignores trailers, which would otherwise
    count as headers of a request that was checked already, and offers to switch to another protocol, which would otherwise
    lose the body of the request.
    """

    parser: httptools.HttpRequestParser
    header_seconds = HEADER_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _is_in_headers = False
    _unfinished_bytes = 0
    """How much has arrived of headers, of a trailer or of the size of a chunk, without an end."""

    def __init__(self, *args: Any, room: ConnectionRoom | None = None, **options: Any) -> None:
        """Create a connection of a server, which has room for so many."""
        super().__init__(*args, **options)
        self._room = room or ConnectionRoom(sys.maxsize)

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Wait for the first request."""
        super().connection_made(transport)
        self._room.enter(self)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take over data; wait on if it ends within the headers of a request."""
        self._unset_keepalive_if_required()
        self._unfinished_bytes += len(data)
        try:
            self._parse(memoryview(data))
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return
        if self._unfinished_bytes > _MAX_HEADER_BYTES:
            self.send_400_response("The headers are too large.")
        # Also wait if a client continues after its response, with a body or with empty lines, instead of a request.
        if self._is_in_headers or not self.cycle or self.cycle.response_complete:
            self._wait()
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._room.leave(self)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start a request."""
        self._is_in_headers = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take over a header, without the spaces after it that the parser leaves. A trailer is ignored."""
        if self._is_in_headers:
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Start to answer a request that is valid. The parser answers with 400 if this raises."""
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("Unknown version of HTTP.")
        # Of an address with a host, only the path would remain, so the host in it would never be checked.
        if not self.url.startswith(b"/"):
            raise ValueError("The target is not a path.")
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > _MAX_HEADER_BYTES:
            raise ValueError("The headers are too large.")
        self._room.work(self)
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            self._is_in_headers = False
            self._unfinished_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Take over a part of the body."""
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unfinished_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """End a response, and wait for the next request unless it is there already."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._room.rest(self)

    def _should_upgrade(self) -> bool:
        return True  # uvicorn then passes over the request, and `_parse` starts it again

    def _parse(self, data: memoryview) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # After such a request, the parser expects another protocol, even if the request has a body.
                version = self.parser.get_http_version().encode()
                lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
                lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
                self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))
                data = data[upgrade.args[0] :]
            else:
                return

    def _wait(self) -> None:
        # The first bytes count, not the last ones: a client could send one byte a second.
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self.transport.close)


class _UvicornServer(uvicorn.Server):
    """Stops on a signal without raising it again, so that the caller can close what it opened."""

    def __init__(self, config: uvicorn.Config, app: RequestGuard, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready
        self.received: list[int] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        # A Ctrl-C that came before the signals were captured has only asked this task to stop, which it does at its next
        # `await`. That must not be one with the lifespan started: uvicorn would report its end as an error.
        await asyncio.sleep(0)
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all streams, and then the server."""
        self._app.stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at the first signal within the block, and remember all of them."""

        def stop(number: int) -> None:
            self.received.append(number)
            self.handle_exit(number, None)

        with stop_on_signals(stop):
            yield


_RESTART_SECONDS = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One of the processes that serve."""

    is_first: bool
    """True for the first one that was started. The others wait for it, because it prepares what they share."""
    ready: Callable[[], None]
    """Has to be called once the process serves."""


class _Supervisor:
    """Starts the processes, and replaces those that are killed. It forks, so no thread may run before."""

    def __init__(self) -> None:
        self._children: set[int] = set()
        self._stopped_by = 0
        self._code = 0
        self._ready = os.pipe()
        self._alive = os.pipe()
        # An ignored signal was meant not to end this process.
        heeded = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        self._handlers = {one: signal.getsignal(one) for one in heeded if signal.getsignal(one) != signal.SIG_IGN}
        for one in self._handlers:
            signal.signal(one, self._receive)

    def run(self, count: int) -> ServerProcess | int:
        """Return the process in each child. In the parent, return the exit code once all of them have ended."""
        if child := self._start(is_first=True):
            return child
        os.close(self._ready[1])
        others = count - 1 if os.read(self._ready[0], 1) else 0
        for _ in range(others):
            if child := self._start():
                return child
        while self._children:
            ended, status = os.wait()
            self._children.remove(ended)
            code = os.waitstatus_to_exitcode(status)
            if self._stopped_by or self._code:
                continue
            if code > 0:
                # It would fail again, and has said why.
                self._code = code
                self._stop()
                continue
            _log.warning("Process %d of the server has ended (%d). Starting another one.", ended, code)
            time.sleep(_RESTART_SECONDS)
            if child := self._start():
                return child
        return self._code or (130 if self._stopped_by == signal.SIGINT else 0)

    def _start(self, *, is_first: bool = False) -> ServerProcess | None:
        """Return the process in the child, and None in the parent."""
        sys.stdout.flush()
        sys.stderr.flush()
        if child := os.fork():
            self._children.add(child)
            if self._stopped_by:  # since before the child was known
                self._stop()
            return None
        for one, handler in self._handlers.items():
            signal.signal(one, handler)
        if self._stopped_by:
            os._exit(0)
        os.close(self._alive[1])
        threading.Thread(target=self._end_with_parent, daemon=True).start()
        return ServerProcess(is_first, self._tell_ready if is_first else lambda: None)

    def _tell_ready(self) -> None:
        os.write(self._ready[1], b"1")
        os.close(self._ready[1])

    def _end_with_parent(self) -> None:
        # The other end is closed when the parent ends, however that happens.
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _receive(self, number: int, _: FrameType | None) -> None:
        self._stopped_by = self._stopped_by or number
        self._stop()

    def _stop(self) -> None:
        for child in self._children:
            with suppress(ProcessLookupError):  # a signal may arrive just after the end of a child was noticed
                os.kill(child, signal.SIGTERM)


def start_processes(count: int) -> ServerProcess | int:
    """Start several processes. Return in each of them; in this one, return the exit code after all have ended.

    They end on SIGINT, SIGTERM and SIGHUP, and if one of them fails. One that is killed is replaced.
    """
    return _Supervisor().run(count)
