"""Tool calls over MCP: calls a second and server CPU per call, ours beside the same tools served by FastMCP.

python benchmarks/mcp_calls.py [--calls 400] [--skills 200] [--out benchmarks/results/mcp_calls.json]

Both servers call the same toolbox over the same skills; what differs is all that lies between it and the client. Over
HTTP eight connections call at once, over stdio one client calls again and again. Ours also checks a token. The row
"toolbox" is the same call without any protocol, one after the other in this process; what a server needs beyond it is
roughly the cost of its protocol. It is most of a light call such as list_enabled_skills.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALLS: dict[str, dict[str, Any]] = {
    "load_skill": {"skill": "skill-0007"},
    "search_skills": {"query": "invoices of customer 7", "limit": 5},
    "list_enabled_skills": {},
}
CONNECTIONS = 8
ROUNDS = 7
GOAL = 2.0
ManyCalls = Callable[[str, int], Awaitable[None]]


def write_skills(folder: Path, count: int) -> None:
    for number in range(count):
        place = folder / f".agents/skills/skill-{number:04}"
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(
            f"---\nname: skill-{number:04}\ndescription: Reads invoices of customer {number} and adds up totals.\n---\n\n"
            f"# Customer {number}\n\n" + "Read the invoice, then write the total.\n" * 40
        )


async def serve_fastmcp(workspace: str, transport: str) -> None:
    """The same tools by FastMCP, as its documentation has it."""
    from fastmcp import FastMCP

    from prowess.open import Prowess
    from prowess.policy.actor import agent_of, local_person
    from prowess.tools.toolbox import Toolbox

    async with Prowess.open(workspace) as engine:
        toolbox = Toolbox(engine, actor=agent_of(local_person("bench")), conversation="bench", return_content=True)
        server = FastMCP("bench")

        @server.tool
        async def load_skill(skill: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
            """Read a skill."""
            return (await toolbox.call("load_skill", {"skill": skill})).data

        @server.tool
        async def search_skills(query: str, limit: int = 10) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
            """Find skills."""
            return (await toolbox.call("search_skills", {"query": query, "limit": limit})).data

        @server.tool
        async def list_enabled_skills() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
            """What is enabled."""
            return (await toolbox.call("list_enabled_skills", {})).data

        if transport == "stdio":
            await server.run_async(transport="stdio", show_banner=False)
        else:
            port = free_port()
            print(f"http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)
            options: dict[str, Any] = {"host": "127.0.0.1", "port": port, "path": "/mcp", "log_level": "error"}
            await server.run_async(transport="http", show_banner=False, **options)


def free_port() -> int:
    import socket

    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def command(peer: str, transport: str, workspace: Path) -> list[str]:
    if peer == "fastmcp":
        return [sys.executable, __file__, "--serve", transport, "--workspace", str(workspace)]
    http = ["--http", "--port", "0"] if transport == "http" else []
    return [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace), *http]


@asynccontextmanager
async def started(peer: str, transport: str, workspace: Path, home: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    environment = {**os.environ, "HOME": str(home), "PROWESS_HOME": str(home / ".prowess"), "OPENBLAS_NUM_THREADS": "1"}
    environment["PROWESS_BACKGROUND"] = "off"  # a process beside the server would be measured with it
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command(peer, transport, workspace), env=environment, stdin=pipe, stdout=pipe, stderr=pipe, limit=2**24
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(name: str, number: int) -> bytes:
    params = {"name": name, "arguments": CALLS[name], "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def check(answer: bytes) -> None:
    if b'"structuredContent"' not in answer or b'"isError":true' in answer:
        raise SystemExit(f"A call failed: {answer[:400]!r}")


async def address(process: asyncio.subprocess.Process) -> tuple[str, int]:
    assert process.stderr is not None
    async for line in process.stderr:
        found = re.search(rb"http://([\d.]+):(\d+)/mcp", line)
        if found:
            return found[1].decode(), int(found[2])
    raise SystemExit("The server did not start.")


async def opened(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection(host, port, limit=2**24)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)


async def call_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str, name: str) -> None:
    body = request(name, 1)
    own = f"Mcp-Method: tools/call\r\nMcp-Name: {name}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write((head + own).encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", answer)
    if length:
        check(await reader.readexactly(int(length[1])))
        return
    chunks: list[bytes] = []
    while size := int(await reader.readline(), 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    check(b"".join(chunks))


@asynccontextmanager
async def http_calls(process: asyncio.subprocess.Process, home: Path) -> AsyncGenerator[ManyCalls]:
    host, port = await address(process)
    token = home / ".prowess/token"
    secret = token.read_text().strip() if token.exists() else "none"
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {secret}\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        f"MCP-Protocol-Version: {VERSION}\r\n"
    )
    pairs = [await opened(host, port) for _ in range(CONNECTIONS)]

    async def many(name: str, count: int) -> None:
        async def one(pair: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
            for _ in range(count // CONNECTIONS):
                await call_http(*pair, head, name)

        await asyncio.gather(*map(one, pairs))

    try:
        yield many
    finally:
        for _, writer in pairs:
            writer.close()


@asynccontextmanager
async def stdio_calls(process: asyncio.subprocess.Process, _: Path) -> AsyncGenerator[ManyCalls]:
    assert process.stdin is not None
    assert process.stdout is not None
    reader, writer = process.stdout, process.stdin

    async def many(name: str, count: int) -> None:
        for number in range(count):
            writer.write(request(name, number) + b"\n")
            check(await reader.readline())

    yield many


async def timed(peers: dict[str, tuple[int, ManyCalls]], name: str, calls: int) -> list[dict[str, Any]]:
    """One row per peer. They take turns, since the clock of a machine changes between one minute and the next."""
    rounds: dict[str, list[tuple[float, float]]] = {peer: [] for peer in peers}
    for _, many in peers.values():
        await many(name, calls // 4)
    for _ in range(ROUNDS):
        for peer, (pid, many) in peers.items():
            cpu, began = cpu_seconds(pid), time.perf_counter()
            await many(name, calls)
            rounds[peer].append((time.perf_counter() - began, cpu_seconds(pid) - cpu))
    return [
        {
            "tool": name,
            "peer": peer,
            "calls_a_second": round(calls / min(wall for wall, _ in figures), 1),
            "cpu_ms_a_call": round(statistics.median(spent for _, spent in figures) / calls * 1000, 3),
        }
        for peer, figures in rounds.items()
    ]


async def measure_toolbox(calls: int, workspace: Path) -> list[dict[str, Any]]:
    """The calls themselves, in this process."""
    from prowess.open import Prowess
    from prowess.policy.actor import agent_of, local_person
    from prowess.tools.toolbox import Toolbox

    async with Prowess.open(workspace) as engine:
        toolbox = Toolbox(engine, actor=agent_of(local_person("bench")), conversation="bench", return_content=True)

        async def many(name: str, count: int) -> None:
            for _ in range(count):
                answer = await toolbox.call(name, CALLS[name])
                if not answer.ok or answer.data.get("error"):
                    raise SystemExit(f"A call failed: {answer.data}")

        peers: dict[str, tuple[int, ManyCalls]] = {"toolbox": (os.getpid(), many)}
        return [row for name in CALLS for row in await timed(peers, name, calls)]


async def measure_transport(transport: str, calls: int, workspace: Path) -> list[dict[str, Any]]:
    connect = http_calls if transport == "http" else stdio_calls
    async with AsyncExitStack() as stack:
        peers: dict[str, tuple[int, ManyCalls]] = {}
        for peer in ("prowess", "fastmcp"):
            home = workspace.parent / f"{peer}-{transport}"
            home.mkdir()
            process = await stack.enter_async_context(started(peer, transport, workspace, home))
            peers[peer] = process.pid, await stack.enter_async_context(connect(process, home))
        return [row for name in CALLS for row in await timed(peers, name, calls)]


async def compare(calls: int, skills: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        write_skills(workspace, skills)
        os.environ.update(HOME=folder, PROWESS_HOME=f"{folder}/.prowess", PROWESS_TRUSTED_FOLDERS=folder)
        rows = [{"transport": "none", **row} for row in await measure_toolbox(calls, workspace)]
        for transport in ("http", "stdio"):
            rows += [{"transport": transport, **row} for row in await measure_transport(transport, calls, workspace)]
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'transport':<11}{'tool':<21}{'peer':<10}{'calls/s':>10}{'CPU ms/call':>13}")
    for row in rows:
        print(
            f"{row['transport']:<11}{row['tool']:<21}{row['peer']:<10}{row['calls_a_second']:>10,.0f}"
            f"{row['cpu_ms_a_call']:>13.2f}"
        )
    print()
    alone = {row["tool"]: row["cpu_ms_a_call"] for row in rows if row["peer"] == "toolbox"}
    for ours in (row for row in rows if row["peer"] == "prowess"):
        case = (ours["transport"], ours["tool"])
        theirs = next(row for row in rows if row["peer"] == "fastmcp" and (row["transport"], row["tool"]) == case)
        whole = theirs["cpu_ms_a_call"] / ours["cpu_ms_a_call"]
        protocol = (theirs["cpu_ms_a_call"] - alone[case[1]]) / max(ours["cpu_ms_a_call"] - alone[case[1]], 0.01)
        verdict = "met" if whole >= GOAL else "NOT MET"
        print(
            f"{verdict:<9}{' '.join(case):<27} FastMCP takes {whole:.1f} times the CPU of ours for a call (goal {GOAL:g}); "
            f"less the toolbox, {protocol:.1f} times"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--calls", type=int, default=400)
    options.add_argument("--skills", type=int, default=200)
    options.add_argument("--out", default="benchmarks/results/mcp_calls.json")
    options.add_argument("--serve", choices=("http", "stdio"), help=argparse.SUPPRESS)
    options.add_argument("--workspace", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        asyncio.run(serve_fastmcp(given.workspace, given.serve))
        return
    rows = asyncio.run(compare(given.calls, given.skills))
    show(rows)
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
