"""A server in process or on a socket, and a client of it."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from prowess import Prowess, RunFailed
from prowess.client import AsyncClient, Client
from prowess.interfaces.auth.browser import LOOPBACK_HOSTS
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.listener import GuardedProtocol, open_listener
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor
from prowess.settings import read_settings

KEY = b"0123456789abcdef0123456789abcdef"
TOKEN = "a-token-of-the-tests-that-is-long-enough"
ME = Actor(name="me", channel="http")
SKILL = """---
name: {slug}
description: {description}
tags: [{tags}]
---
# {title}

{body}
"""


@dataclass
class Place:
    """A workspace, the environment of its server, and the skills in it."""

    workspace: Path
    environment: dict[str, str]
    tokens: dict[str, Actor] = field(default_factory=lambda: {TOKEN: ME})

    def skill(self, slug: str, description: str = "", *, tags: str = "notes", body: str = "Do it.") -> Path:
        """Write a skill into the workspace."""
        folder = self.workspace / "skills" / slug
        folder.mkdir(parents=True, exist_ok=True)
        text = SKILL.format(
            slug=slug, description=description or f"Do {slug}.", tags=tags, title=slug.title(), body=body
        )
        (folder / "SKILL.md").write_text(text)
        return folder

    def open(self, **options: Any) -> Prowess:
        """Open an engine of its own for the workspace."""
        return Prowess.open(settings=read_settings(self.environment, workspace=self.workspace), **options)

    def app(self, engine: Prowess) -> Any:
        """Return the server of an engine."""
        callers = known_tokens({token: Caller(actor=actor) for token, actor in self.tokens.items()})
        return make_app(engine, callers=callers, keys=[KEY], hosts=(*LOOPBACK_HOSTS, "testserver"))

    @asynccontextmanager
    async def client(self, token: str = TOKEN) -> AsyncGenerator[AsyncClient]:
        """Yield a client of a server in this loop, without a socket."""
        async with self.open(channel="http") as engine:
            transport = httpx2.ASGITransport(self.app(engine), raise_app_exceptions=False)
            async with AsyncClient("http://testserver", token=token, transport=transport) as client:
                yield client

    @contextmanager
    def server(self, port: int = 0) -> Generator[str]:
        """Yield the URL of a server on a socket, which runs in a thread."""
        engine = self.open(channel="http")
        listener = open_listener("127.0.0.1", port)
        server = _QuietServer(
            uvicorn.Config(
                self.app(engine), http=GuardedProtocol, lifespan="on", log_level="warning", timeout_graceful_shutdown=1
            )
        )
        thread = threading.Thread(target=lambda: asyncio.run(_serve(server, listener, engine)))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            listener.close()


async def _serve(server: uvicorn.Server, listener: Any, engine: Prowess) -> None:
    try:
        await server.serve(sockets=[listener])
    finally:
        with suppress(RunFailed):  # answers of a scripted model that were not needed
            await engine.close()


class _QuietServer(uvicorn.Server):
    """Leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@pytest.fixture
def place(tmp_path: Path, home: Path) -> Place:
    """A workspace with two skills."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    environment = {
        "HOME": str(home),
        "PROWESS_HOME": str(home / ".prowess"),
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SIDECAR": "off",
        "PROWESS_SYSTEM_SKILLS": "off",
        "PROWESS_TRUSTED_FOLDERS": str(tmp_path),
    }
    made = Place(workspace, environment)
    made.skill("release-notes", "Write release notes from a list of commits.", tags="writing")
    made.skill("triage", "Sort incoming bug reports by urgency.")
    return made


@pytest.fixture
def each_side(place: Place, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that opens an engine and a client, each with its own copy of the workspace and its own records."""

    @asynccontextmanager
    async def open_both() -> AsyncGenerator[tuple[Prowess, AsyncClient]]:
        shutil.copytree(place.workspace, tmp_path / "copy" / "work")
        environment = {**place.environment, "PROWESS_HOME": str(tmp_path / "copy" / "home")}
        other = Place(tmp_path / "copy" / "work", environment)
        async with place.open(actor=ME) as engine, other.client() as client:
            yield engine, client

    return open_both


@pytest.fixture
def connect(place: Place) -> Generator[Callable[..., Client]]:
    """Return a function that starts a server on a socket and returns a blocking client of it."""
    with ExitStack() as stack:

        def start(token: str = TOKEN) -> Client:
            url = stack.enter_context(place.server())
            return stack.enter_context(Client(url, token=token))

        yield start
