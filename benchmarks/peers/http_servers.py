"""What the benchmarks of the HTTP API share: a server in a process of its own, and connections that cost little."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
KEY = secrets.token_urlsafe(32)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server."""

    port: int
    pid: int
    token: str = ""

    def processes(self) -> list[Path]:
        """Return the folders in /proc of the server and of the processes that it has started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [Path("/proc", str(pid)) for pid in (self.pid, *children)]

    def cpu_seconds(self) -> float:
        """Return the CPU time that its processes have used."""
        fields = [(one / "stat").read_text().rpartition(")")[2].split() for one in self.processes()]
        return sum(int(user) + int(system) for *_, user, system in (row[:13] for row in fields)) / _TICKS

    def memory_mb(self) -> float:
        """Return its resident memory. What processes share counts for each."""
        pages = sum(int((one / "statm").read_text().split()[1]) for one in self.processes())
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def open_files(self) -> int:
        """Return how many files and sockets it has open."""
        return sum(sum(1 for _ in (one / "fd").iterdir()) for one in self.processes())


class Connection:
    """One keep-alive connection. Much cheaper than a client library, which would take most of a small machine."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._head = (
            f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
            "Content-Type: application/json\r\n"
        )

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request and return the status and the body of the response."""
        if self._reader is not None and self._reader.at_eof():
            self.close()  # the server ends connections that nobody has used for more than a minute
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._server.port, limit=2**24)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        status = int(answer[9:12])
        length = re.search(rb"content-length: *(\d+)", answer, re.IGNORECASE)
        if length:
            return status, await self._reader.readexactly(int(length[1]))
        chunks: list[bytes] = []
        while b"transfer-encoding: chunked" in answer.lower():
            size = int(await self._reader.readline(), 16)
            chunks.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
            if not size:
                break
        return status, b"".join(chunks)

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that must succeed, and return the value of the response."""
        status, content = await self.request(method, path, body)
        if status >= 300:
            raise SystemExit(f"{method} {path} failed with {status}: {content[:400]!r}")
        return json.loads(content) if content else None

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


@asynccontextmanager
async def started(command: Sequence[str], environment: dict[str, str], token: str = "") -> AsyncGenerator[Server]:
    """Start a server that prints its address, and kill it afterwards."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment, "OPENBLAS_NUM_THREADS": "1"}, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    try:
        async with asyncio.timeout(START_SECONDS):
            async for line in process.stderr:
                said += line
                if found := re.search(rb"http://[\d.]+:(\d+)", line):
                    break
            else:
                raise SystemExit(f"The server did not start: {said.decode()}")
            server = Server(port=int(found[1]), pid=process.pid, token=token)
            await _until_ready(server)
        draining = asyncio.create_task(process.stderr.read())  # a full pipe would stop the server
        yield server
        draining.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _until_ready(server: Server) -> None:
    while True:
        connection = Connection(server)
        try:
            if (await connection.request("GET", "/healthz"))[0] == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        await asyncio.sleep(0.02)


def environment_of(home: Path) -> dict[str, str]:
    """Return the environment of a Prowess server whose home is this folder."""
    return {
        "HOME": str(home),
        "PROWESS_HOME": str(home / ".prowess"),
        "PROWESS_SECRET_KEY": KEY,
        "PROWESS_SYSTEM_SKILLS": "off",
        "PROWESS_BACKGROUND": "off",  # a process beside the server would be measured with it
        "PROWESS_SKILL_FOLDERS": "off",  # as for a team, and not what happens to lie where the benchmark was started
    }


def command_of(*arguments: str) -> list[str]:
    """Return the command line of `prowess serve` on a free port."""
    return [sys.executable, "-m", "prowess", "serve", "--port", "0", *arguments]


def skill_body(slug: str, number: int) -> dict[str, Any]:
    """Return the body that creates or replaces a skill."""
    text = "Read the invoice, then write the total.\n" * 40
    description = f"Reads invoices of customer {number} and adds up totals."
    content = f"---\nname: {slug}\ndescription: {description}\ntags: [billing]\n---\n\n# {slug}\n\n{text}"
    return {"slug": slug, "description": description, "content": content, "scope": "org"}


async def prepare(home: Path, database: str, skills: int) -> str:
    """Fill a database: an organization with skills, and an admin. Return the admin's token."""
    from prowess.open import Prowess
    from prowess.policy.actor import Actor
    from prowess.settings import read_settings

    environment = {**environment_of(home), "PROWESS_DATABASE_URL": database}
    source = home / "source"
    for number in range(skills):
        folder = source / f"skill-{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(skill_body(f"skill-{number}", number)["content"])
    async with Prowess.open(settings=read_settings(environment, workspace=home)) as operator:
        await operator.organizations.create("bench")
        await operator.users.add("ann", organization="bench", admin=True)
        token = await operator.tokens.create(organization="bench", user="ann", days=1)
        engine = operator.as_actor(Actor(name="ann", organization="bench", user="ann"))
        await engine.skills.import_path(source, scope="org")
    return token.secret


async def rates(
    server: Server,
    send: Callable[[Connection], Awaitable[None]],
    *,
    requests: int,
    connections: int = 8,
    rounds: int = 3,
) -> dict[str, float]:
    """Send requests over several connections at once: the best rate, and the median CPU time, of some rounds."""
    opened = [Connection(server) for _ in range(connections)]

    async def many(count: int) -> None:
        async def one(connection: Connection) -> None:
            for _ in range(count // connections):
                await send(connection)

        await asyncio.gather(*map(one, opened))

    await many(max(connections, requests // 4))
    found: list[tuple[float, float]] = []
    for _ in range(rounds):
        cpu, began = server.cpu_seconds(), time.perf_counter()
        await many(requests)
        found.append((time.perf_counter() - began, server.cpu_seconds() - cpu))
    for connection in opened:
        connection.close()
    spent = sorted(cpu for _, cpu in found)[rounds // 2]
    return {
        "requests_a_second": round(requests / min(wall for wall, _ in found), 1),
        "cpu_ms": round(spent / requests * 1000, 3),
    }


def share(values: Sequence[float], part: float) -> float:
    """Return a percentile of some values, 0.99 for instance."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0
