"""A server in process: `client` sends requests as the person at this machine, `api` as the caller that a test names."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest
from fastapi import applications
from starlette.testclient import TestClient

from prowess import Prowess
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor
from prowess.settings import read_settings

KEY = b"0123456789abcdef0123456789abcdef"
ME = Actor(name="me", channel="http")


@pytest.fixture(scope="session", autouse=True)
def shared_document() -> Generator[None]:
    """Generate the OpenAPI document once for the servers of all tests, which have the same routes: it takes seconds."""
    generate, made = applications.get_openapi, list[str]()

    def get_openapi(**options: Any) -> dict[str, Any]:
        if not made:
            made.append(json.dumps(generate(**options)))
        return json.loads(made[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(applications, "get_openapi", get_openapi)
        yield


@pytest.fixture
def system_skills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve the skills that come with Prowess too, which the first request reads."""
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "on")


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Callable[..., TestClient]]:
    """Return a function that serves a workspace to the actors of these tokens, and returns a client for each token."""
    opened: list[TestClient] = []
    workspace, home = tmp_path / "work", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PROWESS_HOME": str(home / ".prowess"),
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SIDECAR": "off",
        "PROWESS_SYSTEM_SKILLS": os.environ["PROWESS_SYSTEM_SKILLS"],
    }
    settings = read_settings(environment, workspace=workspace)
    engine = Prowess.open(settings=settings, channel="http")

    def client_for(actor: Actor = ME, *, cookies: Mapping[str, Caller] | None = None, **options: Any) -> TestClient:
        callers = known_tokens({"secret": Caller(actor=actor)})
        found = known_tokens(cookies) if cookies else None
        app = make_app(engine, callers=callers, cookies=found, keys=[KEY], hosts=("testserver",), **options)
        client = TestClient(app, headers={"authorization": "Bearer secret"}, raise_server_exceptions=False)
        opened.append(client)
        return client.__enter__()

    yield client_for
    for client in opened:
        client.__exit__(None, None, None)
    asyncio.run(engine.close())


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    """Return a client of the person at this machine."""
    return serve()


@pytest.fixture
def each_client(each_place: Any) -> Generator[TestClient]:
    """Return a client of the person at this machine, with each kind of database."""
    engine = each_place.open(ME)
    callers = known_tokens({"secret": Caller(actor=ME)})
    app = make_app(engine, callers=callers, keys=[KEY], hosts=("testserver",))
    with TestClient(app, headers={"authorization": "Bearer secret"}, raise_server_exceptions=False) as client:
        yield client
    asyncio.run(engine.close())


@dataclass
class Frame:
    """One block of a stream: its fields, and its comment."""

    fields: dict[str, str]
    comment: str = ""

    @property
    def data(self) -> Any:
        return json.loads(self.fields["data"])


class Stream:
    """A streamed response, read block by block. `slow` keeps the server waiting for the client after each chunk."""

    def __init__(self, app: Any, scope: dict[str, Any], body: bytes, *, slow: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._ready = asyncio.Event()
        self._slow = slow
        self._taken = asyncio.Semaphore(0)
        self._body: bytes | None = body
        self._rest = b""
        self.task = asyncio.create_task(app(scope, self._receive, self._send))
        self.task.add_done_callback(lambda _: (self._ready.set(), self._chunks.put_nowait(None)))

    async def started(self) -> Stream:
        await self._ready.wait()
        return self

    def take_one(self) -> None:
        """Let a slow client receive the chunk that the server is sending."""
        self._taken.release()

    def take_all(self) -> None:
        """Let a slow client receive everything from now on."""
        self._slow = False
        self._taken.release()

    async def next(self) -> Frame | None:
        """Return the next block, or None at the end."""
        while b"\n\n" not in self._rest:
            chunk = await self._chunks.get()
            if chunk is None:
                return None
            self._rest += chunk
        block, _, self._rest = self._rest.partition(b"\n\n")
        frame = Frame({})
        for line in block.decode().splitlines():
            name, _, value = line.partition(": ")
            if name:
                frame.fields[name] = value
            else:
                frame.comment = value
        return frame

    async def events(self, count: int) -> list[Frame]:
        """Return the next events, without comments and blocks that have no data."""
        found: list[Frame] = []
        while len(found) < count:
            frame = await self.next()
            assert frame is not None, "the stream ended"
            if "data" in frame.fields:
                found.append(frame)
        return found

    async def rest(self) -> list[Frame]:
        """Return everything up to the end."""
        found: list[Frame] = []
        while (frame := await self.next()) is not None:
            found.append(frame)
        return found

    async def close(self) -> None:
        """Go away like a client that closes its connection."""
        self._gone.set()
        self.take_all()
        await asyncio.wait([self.task])

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        self._chunks.put_nowait(message["body"])
        self._ready.set()
        if self._slow:
            await self._taken.acquire()


class Site:
    """A server without sockets over one trusted workspace. Each actor that sends a request has its own token."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder / "site"
        self.folder.mkdir()
        environment = {
            "HOME": str(folder),
            "PROWESS_HOME": str(folder / "site-home"),
            "PROWESS_BACKGROUND": "off",
            "PROWESS_SIDECAR": "off",
            "PROWESS_SYSTEM_SKILLS": "off",
            "PROWESS_TRUSTED_FOLDERS": str(self.folder),
            **settings,
        }
        self.engine = Prowess.open(settings=read_settings(environment, workspace=self.folder), channel="http")
        self.callers: dict[str, Caller] = {}
        """The callers by token. A test can take one away."""
        self.app = make_app(self.engine, callers=self.callers.get, keys=[KEY], hosts=("testserver",))
        self._http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app, raise_app_exceptions=False), base_url="http://testserver/api/v1"
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        await self.engine.close()

    def write(self, slug: str, body: str = "Do it.", front: str = "", **files: str) -> None:
        """Write a skill into the workspace."""
        folder = self.folder / "skills" / slug
        folder.mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {slug}\ndescription: Does what {slug} is for.\n{front}---\n\n{body}\n"
        for name, content in {"SKILL.md": text, **files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")

    async def send(self, method: str, path: str, actor: Actor = ME, **options: Any) -> httpx2.Response:
        """Send one request as an actor and return the response."""
        return await self._http.request(method, path, headers=self._headers(actor), **options)

    async def get(self, path: str, actor: Actor = ME, **options: Any) -> Any:
        """Return the JSON of a resource, which must exist."""
        answer = await self.send("GET", path, actor, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: Any, actor: Actor = ME, *, status: int = 200) -> Any:
        """Send a body and return the JSON of the answer, which must have that status."""
        answer = await self.send("POST", path, actor, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def stream(
        self,
        path: str,
        actor: Actor = ME,
        *,
        method: str = "GET",
        body: Any = None,
        headers: dict[str, str] | None = None,
        slow: bool = False,
        wait: bool = True,
    ) -> Stream:
        """Open a stream, and return it once the response has begun, or at once without `wait`."""
        url, _, query = path.partition("?")
        given = {**self._headers(actor), "host": "testserver", "accept": "text/event-stream", **(headers or {})}
        sent = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            given |= {"content-type": "application/json", "content-length": str(len(sent))}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": f"/api/v1{url}",
            "raw_path": f"/api/v1{url}".encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
            "state": {},
        }
        stream = Stream(self.app, scope, sent, slow=slow)
        return await stream.started() if wait else stream

    def _headers(self, actor: Actor) -> dict[str, str]:
        token = f"{actor.organization}-{actor.label}".replace(":", "-").replace("@", "-")
        self.callers.setdefault(token, Caller(actor=actor))
        return {"authorization": f"Bearer {token}"}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    """A server without sockets, for streams and for several callers at once."""
    async with Site(tmp_path) as site:
        yield site


@pytest.fixture
def site_with(tmp_path: Path) -> Callable[..., Site]:
    """Return a function that makes such a server with other settings."""
    return lambda **settings: Site(tmp_path, **settings)
