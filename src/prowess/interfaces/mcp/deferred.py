"""MCP over HTTP that is imported when somebody asks for it: the SDK takes as long to import as the rest of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.interfaces.mcp.http import Endpoint


def _import_endpoint() -> None:
    import prowess.interfaces.mcp.http  # noqa: F401  # pyright: ignore[reportUnusedImport]


class DeferredEndpoint:
    """Passes requests to the endpoint that `make` returns. It is made for the first of them, and runs until the app stops."""

    def __init__(self, make: Callable[[], Endpoint]) -> None:
        self._make = make
        self._wanted = asyncio.Event()
        self._stopped = asyncio.Event()
        self._made: asyncio.Future[Endpoint] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Return the lifespan of the endpoint. It can be entered once."""
        self._made = asyncio.get_running_loop().create_future()
        # A task of its own: the endpoint must be left in the task that entered it.
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
