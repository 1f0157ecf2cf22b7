"""The ASGI app of a server: the HTTP API, MCP and the operational endpoints, behind one guard.

| path | what |
|---|---|
| `/api/v1/…` | the HTTP API and its OpenAPI document |
| `/mcp` | MCP over streamable HTTP |
| `/metrics`, `/healthz`, `/readyz` | for the machines that operate the server |
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# Before the first request: jobs would import the rest of SQLAlchemy later, and what other threads do with it in the meantime fails.
import prowess.storage.sql  # noqa: F401  # pyright: ignore[reportUnusedImport]
from prowess.agent.live_turns import LiveTurns
from prowess.engine.engine import Engine
from prowess.engine.folder_watch import FolderWatch
from prowess.errors import ProwessError
from prowess.interfaces.auth.browser import LOOPBACK_HOSTS, BrowserRules
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.auth.guard import FindCaller, RequestGuard
from prowess.interfaces.auth.oidc import Provider
from prowess.interfaces.auth.refusal import Refusal, plain_response
from prowess.interfaces.rest.app import API, PATHS, PUBLIC_PATHS, SIGN_IN_PATHS, UPLOADS, make_api
from prowess.interfaces.rest.direct import DirectRoutes
from prowess.interfaces.rest.problems import plain_problem
from prowess.open import Prowess
from prowess.policy.actor import agent_of
from prowess.skill.limits import DEFAULT_LIMITS
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.interfaces.auth.limits import RateLimits
    from prowess.interfaces.mcp.http import Endpoint


log = logging.getLogger(__name__)

MCP_PATH = "/mcp"
CLEAN_UP_SECONDS = 3600.0
"""How often records that are no longer kept are deleted, at least."""

JOBS_RETRY_SECONDS = 10.0
"""How soon to try again to do jobs, at most: a server may start before its database."""


def make_app(
    engine: Engine,
    *,
    callers: FindCaller,
    keys: Sequence[bytes],
    hosts: Collection[str] = LOOPBACK_HOSTS,
    origins: Collection[str] = (),
    public_url: str = "",
    cookies: FindCaller | None = None,
    provider: Provider | None = None,
    rates: RateLimits | None = None,
    max_upload_bytes: int = DEFAULT_LIMITS.archive_bytes,
    log: Callable[[str], None] | None = None,
    cache: Path | None = None,
    approval_seconds: float | None = None,
    background: bool = False,
) -> RequestGuard:
    """Return the server of an engine as an ASGI app. Run its lifespan.

    `callers` returns the caller of a token, `cookies` that of a session cookie, and `provider` signs people in. `hosts` are
    the names it is served under, without ports, `public_url` is the address that browsers use if a proxy is in between, and
    `origins` are other web pages that may use it. `keys`, of 32 bytes or more, seal questions to people: processes that share
    the first key accept each other's answers. `rates` limits requests per minute, `max_upload_bytes` an uploaded archive,
    and `log` gets a line for each request. `cache` is a folder that only the user can write to. `approval_seconds` is how
    long a tool call over MCP waits for a person to approve it. With `background`, the app reads the index before the first
    match, publishes changes in skill folders, and deletes records that are no longer kept about every hour.
    """

    def make_endpoint() -> Endpoint:
        from prowess.interfaces.mcp.http import NOBODY, Endpoint
        from prowess.interfaces.mcp.server import APPROVAL_SECONDS, make_security, make_server

        security = make_security(list(keys), NOBODY)
        seconds = APPROVAL_SECONDS if approval_seconds is None else approval_seconds
        server = make_server(engine, NOBODY, security=security, cache=cache, approval_seconds=seconds)
        return Endpoint(server, MCP_PATH)

    public = urlsplit(public_url)
    rules = BrowserRules(
        hosts=frozenset(name.lower() for name in (*hosts, public.hostname or "") if name),
        own_origins=frozenset({f"{public.scheme}://{public.netloc}".lower()} if public_url else ()),
        origins=frozenset(origin.lower() for origin in origins),
        uploads=UPLOADS,
        https=public.scheme == "https",
    )
    return RequestGuard(
        _App(
            make_api(engine, public_url=public_url, provider=provider),
            DeferredEndpoint(make_endpoint),
            background=background,
        ),
        callers=callers,
        rules=rules,
        public=PUBLIC_PATHS,
        sign_in=SIGN_IN_PATHS,
        cookies=cookies,
        rates=rates,
        body_limits=dict.fromkeys(UPLOADS, max_upload_bytes),
        respond=_refuse,
        log=log,
    )


def _refuse(scope: Scope, refusal: Refusal) -> Response:
    """Return the response to a request that is refused: plain text over MCP, problem details elsewhere."""
    if _path(scope) == MCP_PATH or refusal.status == 204:
        return plain_response(scope, refusal)
    return plain_problem(refusal.status, refusal.detail, code=refusal.code, hint=refusal.hint, headers=refusal.headers)


def _path(scope: Scope) -> str:
    return scope["path"].removeprefix(scope.get("root_path", ""))


class _App:
    """Pass each request to the HTTP API or to MCP, and run both for one lifespan."""

    def __init__(self, api: FastAPI, mcp: DeferredEndpoint, *, background: bool) -> None:
        self._engine: Prowess = api.state.engine
        self._turns: LiveTurns = api.state.turns
        self._api = DirectRoutes(api, API, PATHS)
        self._background = background
        self._mcp = mcp
        self._life = Starlette(lifespan=self._running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the lifespan of the app."""
        if scope["type"] == "lifespan":
            await self._life(scope, receive, send)
        elif _path(scope) == MCP_PATH:
            await self._mcp({**scope, SCOPE_KEY: _as_agent(scope[SCOPE_KEY])}, receive, send)
        else:
            await self._api(scope, receive, send)

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncGenerator[None]:
        async with self._mcp.running():
            work = (self._work(), FolderWatch(self._engine.context).run()) if self._background else ()
            tasks = [asyncio.create_task(one) for one in work]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._turns.close()
                # Jobs live on the event loop of the server, which ends before the engine is closed.
                engine: object = self._engine
                if isinstance(engine, Prowess):
                    await engine.jobs.stop()

    async def _work(self) -> None:
        """Do in the background what no request should wait for."""
        engine = self._engine
        # The index is read before the first match asks for it. It does not matter if that fails: then the match says why.
        with suppress(ProwessError):
            await engine.match("skill", limit=1)
        while True:
            # At launch, and then from time to time. Servers on one database share the work: a source has one sync at a time.
            with suppress(ProwessError):
                await engine.marketplace.sync()
            # Several servers on one database do this at different times, and not at the same moment after a deployment.
            pause = CLEAN_UP_SECONDS * random.uniform(0.5, 1.0)
            # Where jobs are installed, schedules do the same, once for all servers.
            if await _start_jobs(engine, seconds=pause):
                return
            await engine.clean_up()


async def _start_jobs(engine: Prowess, *, seconds: float) -> bool:
    """Do jobs and schedules in this process, which include the clean-up. Return False if that fails for so long."""
    if find_spec("dbos") is None:
        await asyncio.sleep(seconds)
        return False
    loop, reported = asyncio.get_running_loop(), ""
    end = loop.time() + seconds
    while loop.time() < end:
        try:
            await engine.jobs.work(scheduled=True)
        except ProwessError as error:
            if error.message != reported:
                log.warning("This server does no jobs yet, and tries again until it can: %s", error)
            reported = error.message
            await asyncio.sleep(JOBS_RETRY_SECONDS * random.uniform(0.5, 1.0))
        else:
            return True
    return False


def _as_agent(caller: Caller) -> Caller:
    """Return the caller of a request over MCP. An agent sends it, even with the token of a person."""
    if not caller.actor.is_person:
        return caller
    return replace(caller, actor=agent_of(caller.actor), named_by_client=True)


def _import_endpoint() -> None:
    import prowess.interfaces.mcp.http  # noqa: F401  # pyright: ignore[reportUnusedImport]


class DeferredEndpoint:
    """Passes requests to the endpoint that `make` returns. It is made for the first of them, and runs until the app stops.

    The SDK of MCP takes as long to import as the rest of a server, so it is imported when someone asks for it.
    """

    def __init__(self, make: Callable[[], Endpoint]) -> None:
        self._make = make
        self._wanted = asyncio.Event()
        self._stopped = asyncio.Event()
        self._made: asyncio.Future[Endpoint] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Return the lifespan of the endpoint. It can be entered once."""
        self._made = asyncio.get_running_loop().create_future()
        # Its own task: the endpoint must be left in the task that entered it.
        task = asyncio.create_task(self._run(self._made))
        try:
            yield
        finally:
            self._stopped.set()
            self._wanted.set()
            await task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if self._made is None:
            raise RuntimeError("The lifespan of the app has not begun.")
        self._wanted.set()
        # Shielded, because a request that is cancelled must not cancel it for all others.
        endpoint = await asyncio.shield(self._made)
        await endpoint(scope, receive, send)

    async def _run(self, made: asyncio.Future[Endpoint]) -> None:
        await self._wanted.wait()
        if self._stopped.is_set():
            made.cancel()
            return
        try:
            await offload(_import_endpoint)
            endpoint = self._make()
        except Exception as error:  # noqa: BLE001  (every request for it reports the error)
            made.set_exception(error)
            made.exception()  # retrieved, in case no request is left
            return
        async with endpoint.running():
            made.set_result(endpoint)
            await self._stopped.wait()
