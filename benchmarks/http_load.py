"""Mixed load on the HTTP API: 90 % read, 8 % write, 2 % enable, at a fixed rate, whatever the server does meanwhile.

    python benchmarks/http_load.py [--rate 200] [--seconds 60] [--skills 5000] [--database URL] [--processes N]

Requests begin at their times even if earlier ones are late, and a latency counts from the time at which the request
should have begun, so a server that stalls cannot hide it. Reads are lists of 50, single skills and matches; a write
creates or changes a skill; enable also disables. Memory and open files of the server are taken every second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from peers.http_servers import Connection, Server, command_of, environment_of, prepare, share, skill_body, started

WARM_SECONDS = 5
GOAL_GROWTH = 0.10
MIX = (("list", 30), ("get", 40), ("match", 20), ("create", 4), ("change", 4), ("enable", 1), ("disable", 1))


class Load:
    """Sends the requests of one run, and remembers how each ended."""

    def __init__(self, server: Server, skills: int) -> None:
        self._server = server
        self._skills = skills
        self._idle: list[Connection] = []
        self._chance = random.Random(7)
        self._created = 0
        self._sessions: list[str] = []
        self.latencies: dict[str, list[float]] = {kind: [] for kind, _ in MIX}
        self.statuses: Counter[str] = Counter()
        self.late: list[float] = []

    async def open_sessions(self, count: int) -> None:
        """Open the sessions in which skills are enabled."""
        connection = Connection(self._server)
        for _ in range(count):
            self._sessions.append((await connection.json("POST", "/api/v1/sessions", {}))["id"])
        connection.close()

    def request(self, kind: str) -> tuple[str, str, Any]:
        """Return a request of a kind: its method, path and body."""
        number = self._chance.randrange(self._skills)
        slug, session = f"skill-{number}", self._chance.choice(self._sessions)
        match kind:
            case "list":
                return "GET", "/api/v1/skills?limit=50", None
            case "get":
                return "GET", f"/api/v1/skills/{slug}", None
            case "match":
                return "POST", "/api/v1/match", {"message": f"how do I audit a plan, case {number}"}
            case "create":
                self._created += 1
                return "POST", "/api/v1/skills", skill_body(f"new-{self._created}", self._created)
            case "change":
                return "PUT", f"/api/v1/skills/{slug}", skill_body(slug, self._chance.randrange(10**6))
            case _:
                return "POST", f"/api/v1/sessions/{session}/{kind}", {"skill_slug": f"skill-{number % 5}"}

    async def send(self, kind: str, due: float) -> None:
        """Send one request that was due at this time."""
        connection = self._idle.pop() if self._idle else Connection(self._server)
        method, path, body = self.request(kind)
        self.late.append(time.perf_counter() - due)
        try:
            status, content = await connection.request(method, path, body)
        except (OSError, EOFError) as error:
            connection.close()
            self.statuses[f"{kind}: {type(error).__name__}"] += 1
            return
        self._idle.append(connection)
        self.latencies[kind].append(time.perf_counter() - due)
        # Disabling what is not enabled, or enabling more than fits, is an answer and no error.
        if status >= 300 and not (kind in ("enable", "disable") and status in (403, 404, 409)):
            self.statuses[f"{kind}: {status} {content[:120].decode(errors='replace')}"] += 1

    async def run(self, rate: float, seconds: float) -> None:
        """Send requests at a fixed rate."""
        kinds, weights = zip(*MIX, strict=True)
        running: set[asyncio.Task[None]] = set()
        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            wait = due - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            [kind] = self._chance.choices(kinds, weights)
            task = asyncio.create_task(self.send(kind, due))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)


async def watch(server: Server, memory: list[float], files: list[int]) -> None:
    while True:
        memory.append(server.memory_mb())
        files.append(server.open_files())
        await asyncio.sleep(1)


async def measure(rate: float, seconds: float, skills: int, url: str, processes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        database = url or f"sqlite:///{home / 'bench.db'}"
        token = await prepare(home, database, skills)
        command = command_of("--database", database, "--processes", str(processes))
        async with started(command, environment_of(home), token) as server:
            load = Load(server, skills)
            await load.open_sessions(20)
            await load.run(rate, WARM_SECONDS)
            warm = Load(server, skills)
            load.latencies, load.statuses, load.late = warm.latencies, warm.statuses, warm.late
            memory: list[float] = []
            files: list[int] = []
            watching = asyncio.create_task(watch(server, memory, files))
            cpu, began = server.cpu_seconds(), time.perf_counter()
            await load.run(rate, seconds)
            took, spent = time.perf_counter() - began, server.cpu_seconds() - cpu
            watching.cancel()
    everything = [latency for latencies in load.latencies.values() for latency in latencies]
    rows = {
        kind: {"requests": len(latencies), "p50_ms": ms(latencies, 0.5), "p99_ms": ms(latencies, 0.99)}
        for kind, latencies in {**load.latencies, "all": everything}.items()
    }
    third = max(1, len(memory) // 3)
    before, after = max(memory[:third]), max(memory[-third:])
    return {
        "database": database.partition(":")[0],
        "processes": processes,
        "rate": rate,
        "done_a_second": round(len(everything) / took, 1),
        "rows": rows,
        "errors": dict(load.statuses),
        "client_late_p99_ms": ms(load.late, 0.99),
        "cpu_ms_a_request": round(spent / len(everything) * 1000, 3),
        "memory_mb": [round(before, 1), round(after, 1)],
        "memory_growth": round(after / before - 1, 4),
        "files": [min(files), max(files)],
    }


def ms(values: list[float], part: float) -> float:
    return round(share(values, part) * 1000, 1)


def show(found: dict[str, Any]) -> None:
    print(
        f"{found['database']}, {found['processes']} processes: {found['done_a_second']} requests a second of {found['rate']:g} asked for"
    )
    print(f"{'request':<10}{'count':>8}{'p50 ms':>10}{'p99 ms':>10}")
    for kind, row in found["rows"].items():
        print(f"{kind:<10}{row['requests']:>8}{row['p50_ms']:>10}{row['p99_ms']:>10}")
    print(
        f"server CPU {found['cpu_ms_a_request']} ms a request; the client itself was {found['client_late_p99_ms']} ms late"
    )
    print(
        f"memory {found['memory_mb'][0]} MB in the first third, {found['memory_mb'][1]} MB in the last; files {found['files']}"
    )
    print(f"{'met' if not found['errors'] else 'NOT MET':<9}no errors {found['errors'] or ''}")
    flat = found["memory_growth"] < GOAL_GROWTH
    print(
        f"{'met' if flat else 'NOT MET':<9}memory grows by {found['memory_growth']:.1%} (goal: less than {GOAL_GROWTH:.0%})"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rate", type=float, default=200)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--skills", type=int, default=5000)
    options.add_argument("--database", default="")
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--out", default="benchmarks/results/http_load.json")
    given = options.parse_args()
    found = asyncio.run(measure(given.rate, given.seconds, given.skills, given.database, given.processes))
    show(found)
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
