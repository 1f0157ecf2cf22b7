"""Open connectors: one session for each, kept open and shared, restarted after its end, and refused after many failures.

A session belongs to the event loop that it was opened in, and to one task, because the SDK leaves its contexts in the task
that entered them. Importing this module imports no SDK.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from prowess.connectors.results import clean
from prowess.errors import ProwessError, RunFailed, TimedOut, TryLater, Unavailable

if TYPE_CHECKING:
    from mcp.client.client import Client

    from prowess.connectors.stdio import ServerProcess

CONNECT_SECONDS = 30.0
IDLE_SECONDS = 300.0
"""How long an unused session stays open."""
MAX_FAILURES = 3
"""After so many failures in a row, a connector is refused for a while."""
REFUSED_SECONDS = 60.0
MAX_OPEN = 50
"""How many sessions are open at a time. The one that was unused for longest is closed first."""

_CLOSED = "Connection closed"
"""What the SDK says about a request when the connection has ended."""

Key = tuple[str, ...]
log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Link:
    """The connection of a session. `failure` says why the last request got no answer; `process` is None over HTTP."""

    streams: Any
    process: ServerProcess | None = None
    http: Any = None
    client: Any = None
    """The HTTP client, closed after the streams."""

    @property
    def failure(self) -> ProwessError | None:
        """Why the last request failed, if the transport knows."""
        return self.process.failure if self.process else self.http.failure if self.http else None

    @property
    def stderr(self) -> str:
        """The end of the server's error output."""
        return self.process.stderr if self.process else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """How to open a connector. `key` identifies it, with its owner and the digest of its configuration.

    `redact` removes the secrets that its server was given, which the server may repeat in its errors.
    """

    key: Key
    name: str
    seconds: float
    connect: Callable[[], Link] = field(repr=False, compare=False)
    redact: Callable[[str], str] = field(default=str, repr=False, compare=False)

    def shorten(self, text: str) -> str:
        """Return a text of the server on one line, safe to show."""
        return " ".join(clean(self.redact(text), limit=400).split())


class Session:
    """One open session. Its own task enters and leaves the SDK's client."""

    def __init__(self, opener: Opener) -> None:
        self.opener = opener
        self.loop = asyncio.get_running_loop()
        self.used = time.monotonic()
        self.users = 0
        self.client: Client | None = None
        self.link: Link | None = None
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[None] = self.loop.create_future()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """True if requests can be sent."""
        return self.client is not None and not self._closing.is_set() and not self.loop.is_closed()

    async def open(self) -> None:
        """Start the server and agree on a protocol; raise the reason if that fails."""
        self._task = asyncio.create_task(self._own())
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            raise TimedOut(
                f"The connector {self.opener.name!r} did not answer within {CONNECT_SECONDS:g} seconds.", hint=self.hint
            ) from None
        except BaseException:
            await self.close()
            raise

    @property
    def hint(self) -> str:
        """The hint for a failure, with the end of the server's error output, which helps to find the cause."""
        stderr = self.link.stderr if self.link else ""
        look = f"Run `prowess connector show {self.opener.name}`."
        return f"{look} It wrote: {self.opener.shorten(stderr)}" if stderr else look

    async def close(self) -> None:
        """End the session and its server."""
        self._closing.set()
        if self._task is not None and not self._task.done():
            if self.client is None:  # still connecting
                self._task.cancel()
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """Kill the server of a session whose event loop is gone."""
        if self.link and self.link.process:
            self.link.process.end()

    async def _own(self) -> None:
        """Hold the session open until it is closed, idle for long, or its server is gone."""
        try:
            async with AsyncExitStack() as stack:
                self.link = self.opener.connect()
                if self.link.client is not None:
                    await stack.enter_async_context(self.link.client)
                self.client = await stack.enter_async_context(_make_client(self.link.streams))
                self.used = time.monotonic()
                if not self._ready.done():
                    self._ready.set_result(None)
                await self._wait()
                self.client = None
        except asyncio.CancelledError:
            if not self._ready.done():
                self._ready.cancel()
            raise
        except Exception as error:
            if self._ready.done():
                log.debug("The session of the connector %s ended.", self.opener.name, exc_info=True)
            else:
                failure = _to_error(self, error)
                # For example, the SDK does not know the server's version of the protocol.
                if not isinstance(failure, ProwessError):
                    message = (
                        f"The connector {self.opener.name!r} could not be opened: {self.opener.shorten(str(failure))}"
                    )
                    failure = RunFailed(message, hint=self.hint)
                self._ready.set_exception(failure)
        finally:
            self.client = None
            self._closing.set()
            if self.link and self.link.process:
                self.link.process.end(self.loop)

    async def _wait(self) -> None:
        while not self._closing.is_set():
            left = self.used + IDLE_SECONDS - time.monotonic()
            if left <= 0 and not self.users:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left if left > 0 else 1.0):
                    await self._closing.wait()


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    until: float = 0.0
    reason: str = ""


class Pool:
    """The open sessions of this process."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[tuple[int, Key], Session] = {}
        self._locks: dict[tuple[int, Key], asyncio.Lock] = {}
        self._breakers: dict[Key, _Breaker] = {}

    @asynccontextmanager
    async def use(self, opener: Opener, *, seconds: float = 0.0) -> AsyncGenerator[Client]:
        """Yield the client of an open session. What the server does wrong is raised as an error of Prowess.

        The block ends after `seconds`, by default those of the configuration; then the server is stopped.
        """
        self._check_breaker(opener)
        limit = seconds or opener.seconds
        try:
            session = await self._find(opener)
        except (RunFailed, Unavailable) as error:
            self._count(opener, error)
            raise
        session.users += 1
        try:
            async with asyncio.timeout(limit):
                assert session.client is not None  # noqa: S101  (it has just been opened)
                yield session.client
            self._breakers.pop(opener.key, None)
        except TimeoutError:
            # It may still be working on the request, so it is not asked anything else.
            await self._drop(session)
            message = f"The connector {opener.name!r} did not answer within {limit:g} seconds."
            raise self._count(opener, TimedOut(message, hint=session.hint)) from None
        except Exception as error:  # noqa: BLE001  (the SDK raises errors of several libraries)
            failure = _to_error(session, error)
            # Errors of the caller, and those that a working server answers with, do not count.
            if failure is error or _is_answer(session, error):
                self._let_try(opener)
                raise failure from None
            await self._drop(session)
            raise self._count(opener, failure) from None
        finally:
            session.users -= 1
            session.used = time.monotonic()

    def state(self, key: Key) -> str:
        """Return why a connector is refused now; '' if it is not."""
        breaker = self._breakers.get(key)
        return breaker.reason if breaker and self._clock() < breaker.until else ""

    async def close_connector(self, prefix: Key) -> None:
        """Close the sessions whose key starts like this, in this event loop."""
        here = id(asyncio.get_running_loop())
        for (loop, key), session in list(self._sessions.items()):
            if loop == here and key[: len(prefix)] == prefix:
                await self._drop(session)

    async def aclose(self) -> None:
        """Close all sessions of this event loop, and kill the servers of others that are gone."""
        here = asyncio.get_running_loop()
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions if session.loop is here))
        self._kill(session for session in sessions if session.loop is not here)

    def close(self) -> None:
        """Kill all servers, without an event loop."""
        sessions, self._sessions = list(self._sessions.values()), {}
        self._kill(iter(sessions))

    @staticmethod
    def _kill(sessions: Iterator[Session]) -> None:
        for session in sessions:
            session.kill()

    async def _find(self, opener: Opener) -> Session:
        key = (id(asyncio.get_running_loop()), opener.key)
        # One at a time: a second caller waits for the session that the first one opens.
        async with self._locks.setdefault(key, asyncio.Lock()):
            found = self._sessions.get(key)
            if found is not None and found.is_open and found.loop is asyncio.get_running_loop():
                found.used = time.monotonic()
                return found
            if found is not None:
                found.kill()
            await self._make_room()
            session = Session(opener)
            await session.open()
            self._sessions[key] = session
            return session

    async def _make_room(self) -> None:
        idle = sorted((one for one in self._sessions.values() if not one.users), key=lambda one: one.used)
        for session in idle[: max(0, len(self._sessions) - MAX_OPEN + 1)]:
            await self._drop(session)

    async def _drop(self, session: Session) -> None:
        key = (id(session.loop), session.opener.key)
        if self._sessions.get(key) is session:
            del self._sessions[key]
        await session.close()

    def _count(self, opener: Opener, error: BaseException) -> BaseException:
        """Count a failure of the server, and return it."""
        breaker = self._breakers.setdefault(opener.key, _Breaker())
        breaker.failures += 1
        breaker.reason = error.message if isinstance(error, ProwessError) else "It ended unexpectedly."
        if breaker.failures >= MAX_FAILURES:
            breaker.until = self._clock() + REFUSED_SECONDS
        return error

    def _check_breaker(self, opener: Opener) -> None:
        breaker = self._breakers.get(opener.key)
        if breaker is None or breaker.failures < MAX_FAILURES:
            return
        left = breaker.until - self._clock()
        if left > 0:
            raise TryLater(
                f"The connector {opener.name!r} failed {breaker.failures} times in a row, last: {breaker.reason}",
                hint=f"It is tried again in {max(1, round(left))} seconds. Continue with other work until then.",
            )
        # One attempt: others are refused until it succeeds. If it fails, the connector is refused again.
        breaker.until = self._clock() + REFUSED_SECONDS

    def _let_try(self, opener: Opener) -> None:
        """Let the next caller try a connector that was refused, after an attempt that says nothing about the server."""
        breaker = self._breakers.get(opener.key)
        if breaker is not None:
            breaker.until = 0.0


def _make_client(streams: Any) -> Any:
    """Return a client of the SDK that offers the server nothing: no sampling, no roots, no questions to the user."""
    try:
        from mcp.client.client import Client
        from mcp_types import Implementation
    except ImportError:
        raise Unavailable("Connectors are not installed.", hint="Install them: pip install 'prowess[mcp]'") from None

    return Client(streams, cache=None, client_info=Implementation(name="prowess", version="1"))


def _to_error(session: Session, error: BaseException) -> ProwessError | BaseException:
    """Return an error of Prowess for what happened in a session. Errors of the caller stay as they are."""
    if isinstance(error, ProwessError):
        return error
    name, failure = session.opener.name, session.link.failure if session.link else None
    if failure is not None:
        return type(failure)(f"The connector {name!r} failed: {failure.message}", hint=failure.hint or session.hint)
    if isinstance(error, BaseExceptionGroup):
        return _to_error(session, cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED
    from pydantic import ValidationError

    if isinstance(error, MCPError) and (error.code, error.message) != (CONNECTION_CLOSED, _CLOSED):
        message = f"The connector {name!r} answered with an error: {session.opener.shorten(error.message)}"
        return RunFailed(message, hint="Check the arguments, or use another tool.")
    if isinstance(error, MCPError | ConnectionError | BrokenResourceError | ClosedResourceError | EndOfStream):
        return RunFailed(f"The connector {name!r} ended the connection.", hint=session.hint)
    if isinstance(error, ValidationError):
        return RunFailed(f"The connector {name!r} sent an answer that does not follow the protocol.", hint=session.hint)
    return error


def _is_answer(session: Session, error: BaseException) -> bool:
    """Return True if a working server answered a request with an error, so that the session continues."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    if not isinstance(error, MCPError) or session.link is None or session.link.failure is not None:
        return False
    # Servers use this code for errors of their own, too. Over HTTP it often means that they have forgotten the session.
    return error.code != CONNECTION_CLOSED or (session.link.process is not None and error.message != _CLOSED)
