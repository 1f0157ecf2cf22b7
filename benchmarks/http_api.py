"""The HTTP API: requests a second and server CPU per request, beside a minimal endpoint that returns the same bytes.

python benchmarks/http_api.py [--skills 5000] [--seconds 4] [--connections 8] [--out benchmarks/results/http_api.json]

The minimal endpoint is FastAPI with one query of SQLite and orjson, without tokens, permissions, trust or ETags. Both
servers run on uvicorn with httptools on loopback, each in a process of its own, and are asked in turns by the same client. The
last row compares `match` over HTTP with the engine's own time, one request after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

TOKEN = "bench"
GOAL = 2.0
MATCH_GOAL_MS = 1.5
MESSAGE = "add up the invoices of customer 77 and write the total"
PAGE = 50
ROUNDS = 3


def document(number: int) -> str:
    return (
        f"---\nname: Customer {number}\nslug: customers.c-{number:05}\n"
        f"description: Reads invoices of customer {number} and adds up totals.\ntags: [billing, t-{number % 20}]\n---\n\n"
        f"# Customer {number}\n\n" + "Read the invoice, then write the total.\n" * 40
    )


def settings_of(folder: Path) -> Any:
    from prowess.settings import read_settings

    environment = {
        "HOME": str(folder),
        "PROWESS_HOME": str(folder / ".prowess"),
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SYSTEM_SKILLS": "off",
        "PROWESS_SKILL_FOLDERS": "off",
    }
    return read_settings(environment, workspace=folder)


async def fill(folder: Path, count: int) -> None:
    """Import skills as a person would, so that they are accepted, and index them."""
    from prowess.open import Prowess

    source = folder / "source"
    for number in range(count):
        place = source / f"c-{number:05}"
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(document(number))
    async with Prowess.open(settings=settings_of(folder)) as engine:
        done = await engine.skills.import_path(source, scope="org")
        assert all(one.error is None for one in done), next(one.error for one in done if one.error)
        await engine.match(MESSAGE)


def serve_ours(folder: Path, port: int) -> None:
    import uvicorn

    from prowess.interfaces.auth.caller import Caller
    from prowess.interfaces.auth.guard import known_tokens
    from prowess.interfaces.server import make_app
    from prowess.open import Prowess
    from prowess.policy.actor import Actor

    engine = Prowess.open(settings=settings_of(folder), channel="http")
    callers = known_tokens({TOKEN: Caller(actor=Actor(name="me", channel="http"))})
    app = make_app(engine, callers=callers, keys=[os.urandom(32)])
    uvicorn.run(app, host="127.0.0.1", port=port, http="httptools", log_level="warning", access_log=False)


def serve_minimal(folder: Path, port: int) -> None:
    """The same bytes by FastAPI and one query: rows as JSON text, so that nothing but the query and the join is paid for."""
    import orjson
    import uvicorn
    from fastapi import FastAPI
    from fastapi.responses import Response

    connection = sqlite3.connect(folder / "minimal.db", check_same_thread=False)
    app = FastAPI()

    @app.get("/api/v1/skills")
    async def listed(limit: int = PAGE) -> Response:  # pyright: ignore[reportUnusedFunction]
        total = connection.execute("SELECT count(*) FROM skills").fetchone()[0]
        rows = connection.execute("SELECT row FROM skills ORDER BY slug LIMIT ?", (limit,)).fetchall()
        cursor = connection.execute("SELECT cursor FROM page").fetchone()[0]
        page = {"items": [orjson.loads(row) for (row,) in rows], "next_cursor": cursor, "total": total}
        return Response(orjson.dumps(page), media_type="application/json")

    @app.get("/api/v1/skills/{slug}")
    async def one(slug: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        (row,) = connection.execute("SELECT whole FROM skills WHERE slug = ?", (slug,)).fetchone()
        return Response(orjson.dumps(orjson.loads(row)), media_type="application/json")

    uvicorn.run(app, host="127.0.0.1", port=port, http="httptools", log_level="warning", access_log=False)


def copy_rows(folder: Path, base: str) -> None:
    """Store what our server answers for the minimal one."""
    page = json.loads(fetch(base, f"/api/v1/skills?limit={PAGE}"))
    with contextlib.closing(sqlite3.connect(folder / "minimal.db")) as connection:
        connection.execute("CREATE TABLE skills (slug TEXT PRIMARY KEY, row TEXT, whole TEXT)")
        connection.execute("CREATE TABLE page (cursor TEXT)")
        connection.execute("INSERT INTO page VALUES (?)", (page["next_cursor"],))
        cursor: str | None = ""
        while cursor is not None:
            found = json.loads(fetch(base, f"/api/v1/skills?limit=200&cursor={cursor}"))
            rows = [(row["slug"], json.dumps(row), "") for row in found["items"]]
            connection.executemany("INSERT INTO skills VALUES (?, ?, ?)", rows)
            cursor = found["next_cursor"]
        for row in page["items"]:
            whole = fetch(base, f"/api/v1/skills/{row['slug']}").decode()
            connection.execute("UPDATE skills SET whole = ? WHERE slug = ?", (whole, row["slug"]))
        connection.commit()


def fetch(base: str, path: str) -> bytes:
    import httpx

    response = httpx.get(f"{base}{path}", headers={"authorization": f"Bearer {TOKEN}"}, timeout=120)
    response.raise_for_status()
    return response.content


@contextlib.contextmanager
def server(kind: str, folder: Path) -> Generator[tuple[str, int]]:
    """Start a server, and yield its address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--serve", kind, "--folder", str(folder), "--port", str(port)]
    process = subprocess.Popen(command)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield base, process.pid
    finally:
        process.terminate()
        process.wait(30)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(base: str, pid: int, path: str, seconds: float, connections: int) -> tuple[float, float]:
    """Return requests a second, and milliseconds of server CPU per request, over raw connections that stay open."""
    host = base.removeprefix("http://")
    request = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    count = 0
    end = time.perf_counter() + seconds

    async def ask() -> None:
        nonlocal count
        name, _, port = host.partition(":")
        reader, writer = await asyncio.open_connection(name, int(port))
        while time.perf_counter() < end:
            writer.write(request)
            await read_body(reader)
            count += 1
        writer.close()

    before, start = cpu_seconds(pid), time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(connections)))
    spent = time.perf_counter() - start
    return count / spent, 1000 * (cpu_seconds(pid) - before) / max(count, 1)


async def read_body(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))


async def match_times(folder: Path, base: str, calls: int) -> tuple[float, float]:
    """Return the milliseconds of the fastest match over HTTP, and in the engine of this process.

    The fastest and not the median, because on a busy machine a request to another process also waits for its turn.
    """
    from prowess.open import Prowess

    host = base.removeprefix("http://")
    body = json.dumps({"message": MESSAGE})
    head = f"POST /api/v1/match HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n"
    request = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    over_http: list[float] = []
    direct: list[float] = []
    reader, writer = await asyncio.open_connection(*host.split(":"))
    async with Prowess.open(settings=settings_of(folder)) as engine:
        for call in range(calls + 20):
            start = time.perf_counter()
            writer.write(request)
            await read_body(reader)
            middle = time.perf_counter()
            await engine.match(MESSAGE)
            if call >= 20:
                over_http.append(1000 * (middle - start))
                direct.append(1000 * (time.perf_counter() - middle))
    writer.close()
    return min(over_http), min(direct)


async def measure(folder: Path, seconds: float, connections: int) -> dict[str, Any]:
    slug = "customers.c-00007"
    paths = {"list-50": f"/api/v1/skills?limit={PAGE}", "get-by-slug": f"/api/v1/skills/{slug}"}
    rows: dict[str, Any] = {}
    with server("ours", folder) as (ours, our_pid):
        copy_rows(folder, ours)
        with server("minimal", folder) as (minimal, their_pid):
            for name, path in paths.items():
                same = json.loads(fetch(ours, path)) == json.loads(fetch(minimal, path))
                assert same, f"{name}: the answers differ"
                found: dict[str, list[tuple[float, float]]] = {"ours": [], "minimal": []}
                for _ in range(ROUNDS):
                    found["ours"].append(await load(ours, our_pid, path, seconds, connections))
                    found["minimal"].append(await load(minimal, their_pid, path, seconds, connections))
                rows[name] = {
                    who: {"rps": max(rate for rate, _ in runs), "cpu_ms": min(cpu for _, cpu in runs)}
                    for who, runs in found.items()
                }
        rows["match"] = dict(zip(("http_ms", "engine_ms"), await match_times(folder, ours, 100), strict=True))
    return rows


def show(rows: dict[str, Any]) -> None:
    print(f"{'':14}{'ours':>10}{'minimal':>10}{'ratio':>8}   goal")
    for name in ("list-50", "get-by-slug"):
        ours, minimal = rows[name]["ours"], rows[name]["minimal"]
        rate, cpu = minimal["rps"] / ours["rps"], ours["cpu_ms"] / minimal["cpu_ms"]
        print(f"{name:14}{ours['rps']:>10,.0f}{minimal['rps']:>10,.0f}{rate:>8.2f}   ≤ {GOAL}  requests/s")
        print(f"{'':14}{ours['cpu_ms']:>10.3f}{minimal['cpu_ms']:>10.3f}{cpu:>8.2f}   ≤ {GOAL}  ms CPU/request")
    match = rows["match"]
    more = match["http_ms"] - match["engine_ms"]
    print(
        f"match: {match['http_ms']:.2f} ms over HTTP, {match['engine_ms']:.2f} ms in the engine, {more:+.2f} ms (≤ {MATCH_GOAL_MS})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", choices=["ours", "minimal"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="Use, or make, the skills in this folder.")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        (serve_ours if options.serve == "ours" else serve_minimal)(options.folder, options.port)
        return
    with tempfile.TemporaryDirectory() as made:
        folder = (options.folder or Path(made)).resolve()
        (folder / "minimal.db").unlink(missing_ok=True)
        if not (folder / ".prowess").is_dir():
            asyncio.run(fill(folder, options.skills))
        rows = asyncio.run(measure(folder, options.seconds, options.connections))
    show(rows)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"skills": options.skills, **rows}, indent=2))


if __name__ == "__main__":
    main()
