"""A server with the web application on a thread of its own, and a browser page that notices what goes wrong in it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, Request

from prowess import Prowess
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import COOKIE, known_tokens
from prowess.interfaces.auth.tokens import find_session_callers
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor

KEY = b"0123456789abcdef0123456789abcdef"
ME = Actor(name="me", channel="http")
ROOT = Path(__file__).parents[2]
_AXE = ROOT / "ui/node_modules/axe-core/axe.min.js"
WAIT_MS = 60_000
"""How long a page may take on a busy machine."""

Result = TypeVar("Result")


class Site:
    """A server. `url` is its address, `engine` what it serves, and `do` runs a coroutine of the engine."""

    def __init__(self, engine: Prowess, people: dict[str, Actor] | None = None) -> None:
        self.engine = engine
        self.people = people or {"me": ME}
        self.port = 0
        self._loop = asyncio.new_event_loop()
        # A daemon: if the server does not stop, the tests end all the same.
        self._thread = threading.Thread(target=self._loop.run_forever, name="site", daemon=True)
        self._server: uvicorn.Server | None = None
        self._serving: Any = None

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.do(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        """Start the server, at the port that it had before."""
        callers = {f"token-{name}": Caller(actor=actor) for name, actor in self.people.items()}
        found = known_tokens(callers)
        sessions = find_session_callers(self.engine)
        app = make_app(self.engine, callers=found, cookies=lambda secret: found(secret) or sessions(secret), keys=[KEY])
        config = uvicorn.Config(app, port=self.port, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._app = app
        self._serving = asyncio.run_coroutine_threadsafe(self._server.serve(), self._loop)
        self.do(self._started(self._server))

    def stop(self) -> None:
        """Stop the server. The engine stays open."""
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._app.stop)
            self._server.should_exit = True
            self._serving.result(30)
            self._server = None

    async def _started(self, server: uvicorn.Server) -> None:
        while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        self.port = server.servers[0].sockets[0].getsockname()[1]

    async def _finish(self) -> None:
        """Close the engine, and end what the server has left on the loop."""
        await self.engine.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def open(self, browser: Browser, person: str = "me", **options: Any) -> View:
        """Return a page in a browser of a person who has signed in."""
        context = browser.new_context(base_url=self.url, **options)
        context.set_default_timeout(WAIT_MS)
        context.add_cookies([{"name": COOKIE, "value": f"token-{person}", "url": self.url, "httpOnly": True}])
        return View(context)


class View:
    """A page in a browser. `faults` has what its console and its scripts complain about, and requests to other hosts."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.faults: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("console", self._note)
        self.page.on("request", self._check)

    def _note(self, message: Any) -> None:
        # The browser itself reports failed requests; tests that make them fail look at what the page shows.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(f"console: {message.text}")

    def _check(self, request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.faults.append(f"request: {request.url}")

    def go(self, path: str) -> Page:
        """Open an address of the application, and wait until its page has a title."""
        self.page.goto(path)
        self.page.locator("h1").wait_for()
        return self.page

    def check_access(self) -> None:
        """Fail with what axe-core finds: what keeps people with disabilities from using the page."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_axe())
        kinds = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        rules = {"runOnly": kinds, "resultTypes": ["violations"]}  # what passes is not described node by node
        found = self.page.evaluate("rules => axe.run(document, rules)", rules)
        problems = [
            f"{one['id']}: {one['help']}: {json.dumps([node['html'][:200] for node in one['nodes'][:3]])}"
            for one in found["violations"]
        ]
        assert not problems, "\n".join(problems)

    def close(self) -> None:
        """Close it. Fail if the page complained about anything."""
        self.context.close()
        assert not self.faults, "\n".join(self.faults)


@cache
def _axe() -> str:
    return _AXE.read_text()
