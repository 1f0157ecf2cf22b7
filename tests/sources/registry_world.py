"""A registry server on loopback for tests, with a clock that tests set, and a client that reaches it."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from prowess.interfaces.listener import GuardedProtocol, open_listener
from prowess.interfaces.registry_server import make_registry
from prowess.net.client import GuardedHttpClient
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.skill.archive import write_archive
from prowess.skill.package import Package
from prowess.sources.download import RoutedClient
from prowess.sources.package_shelf import PackageShelf, Quotas

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def make_package(name: str = "greet", version: str = "1.0.0", body: str = "Say hello.") -> Package:
    """Return a small skill."""
    text = f"---\nname: {name}\ndescription: Greets people politely.\nversion: {version}\ntags: [polite]\n---\n{body}\n"
    return Package.of_texts(name, {"SKILL.md": text, "references/more.md": "More.\n"})


def make_archive(name: str = "greet", version: str = "1.0.0", body: str = "Say hello.") -> bytes:
    """Return a small skill as an archive."""
    return write_archive(make_package(name, version, body), "zip")


@dataclass
class Clock:
    """The time that the registry sees."""

    moment: datetime = START

    def __call__(self) -> datetime:
        return self.moment

    def move(self, **by: float) -> None:
        self.moment += timedelta(**by)


@dataclass
class Tampering:
    """A client that changes answers on the way, by the end of their path, and records the paths that were requested."""

    client: HttpClient
    answers: dict[str, HttpResponse | Exception] = field(default_factory=dict[str, "HttpResponse | Exception"])
    paths: list[str] = field(default_factory=list[str])

    async def send(self, request: HttpRequest) -> HttpResponse:
        path = "/" + request.url.split("/", 3)[3]
        self.paths.append(path)
        for end, answer in self.answers.items():
            if path.endswith(end):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return await self.client.send(request)


class _QuietServer(uvicorn.Server):
    """Leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextmanager
def serve(app: Any) -> Generator[str]:
    """Yield the URL of a server on a socket, which runs in a thread."""
    listener = open_listener("127.0.0.1", 0)
    config = uvicorn.Config(app, http=GuardedProtocol, lifespan="on", log_level="warning", timeout_graceful_shutdown=1)
    server = _QuietServer(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@dataclass
class World:
    """A registry with one publisher, and a client of it."""

    shelf: PackageShelf
    clock: Clock
    url: str
    client: Tampering
    token: str

    def publish(self, *args: str) -> None:
        """Publish a small skill."""
        self.shelf.publish(make_archive(*args), "ann")


class AppClient:
    """Sends requests to an app in this process, without a socket."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def send(self, request: HttpRequest) -> HttpResponse:
        transport = httpx2.ASGITransport(self._app, client=("127.0.0.1", 1))
        async with httpx2.AsyncClient(transport=transport) as client:
            got = await client.request(request.method, request.url, headers=request.headers, content=request.body)
        headers = {name.lower(): value for name, value in got.headers.items()}
        return HttpResponse(status=got.status_code, headers=headers, body=got.content, url=request.url)


@cache
def _template() -> tuple[Path, str]:
    """Return a folder with a registry that has a publisher and two skills, and the publisher's token. Copying it is fast."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # usually gone by then, with all temporary files
    shelf = PackageShelf(folder / "registry", clock=Clock())
    for name in ("greet", "wave"):
        shelf.publish(make_archive(name), "ann")
    return folder / "registry", shelf.create_token("ann")[1]


@contextmanager
def open_world(
    folder: Path, *, listen: bool = False, quotas: Quotas | None = None, clock: Clock | None = None, **options: Any
) -> Generator[World]:
    """Yield a registry with the skills `greet` and `wave`, which listens on loopback if asked to."""
    template, token = _template()
    shutil.copytree(template, folder)
    clock = clock or Clock()
    shelf = PackageShelf(folder, clock=clock, quotas=quotas or Quotas())
    app = make_registry(shelf, **options)
    if not listen:
        yield World(shelf=shelf, clock=clock, url="https://127.0.0.1", client=Tampering(AppClient(app)), token=token)
        return
    with serve(app) as url:
        client = RoutedClient(GuardedHttpClient(), {url.removeprefix("http://"): url})
        yield World(shelf=shelf, clock=clock, url=url, client=Tampering(client), token=token)
