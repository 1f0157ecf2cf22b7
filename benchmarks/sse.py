"""Deliver events to many clients over HTTP: how late they arrive, and what that costs the server.

    python benchmarks/sse.py [--clients 500] [--events 40] [--out benchmarks/results/sse.json]

Every client has its own connection to `GET /api/v1/events` and must receive every event once and in order. A thread in the
server writes one event every 100 ms, each in a transaction of its own. "raw" is the least that a server can do: an ASGI app
that hands the same bytes to a `StreamingResponse` per client, without a database, a token or a check. "Deliver" is the time
from the commit (or from the call, for "raw") to the arrival at a client, in milliseconds. CPU is that of the server for all
deliveries, without opening the connections.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

TOKEN, PAUSE, PADDING = "t" * 43, 0.1, "x" * 300
COLUMNS = ("clients", "events", "p50_ms", "p99_ms", "max_ms", "cpu_s", "cpu_us_per_delivery", "lost", "doubled")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def serve(app: Any, publish: Any, port: int, events: int) -> None:
    """Serve an app; when a line comes in, publish all events, wait until the next line, and print the CPU time between."""

    def control() -> None:
        sys.stdin.readline()
        began = cpu_seconds()
        for number in range(1, events + 1):
            publish(number)
            time.sleep(PAUSE)
        sys.stdin.readline()
        print(json.dumps({"cpu_s": cpu_seconds() - began}), flush=True)
        server.should_exit = True

    server = uvicorn.Server(
        uvicorn.Config(app, port=port, http="httptools", log_level="error", timeout_graceful_shutdown=1, backlog=2_048)
    )
    threading.Thread(target=control, daemon=True).start()
    server.run()


def serve_prowess(port: int, events: int, home: Path) -> None:
    from prowess import Prowess
    from prowess.interfaces.auth.caller import Caller
    from prowess.interfaces.auth.guard import known_tokens
    from prowess.interfaces.server import make_app
    from prowess.policy.actor import Actor
    from prowess.settings import read_settings
    from prowess.storage.ledger import EventEntry, append

    environment = {"HOME": str(home), "PROWESS_HOME": str(home / "prowess"), "PROWESS_BACKGROUND": "off"}
    engine = Prowess.open(settings=read_settings(environment, workspace=home), channel="http")
    resources = engine._context.resources  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (events are written as another process would)
    callers = known_tokens({TOKEN: Caller(actor=Actor(name="bench", channel="http"))})

    def publish(number: int) -> None:
        data = {"name": "bench", "n": number, "sent": time.monotonic(), "note": PADDING}
        with resources.records().write() as connection:
            append(connection, "", events=[EventEntry(name="skill_loaded", data=data)])
        resources.wake("")

    serve(make_app(engine, callers=callers, keys=[b"k" * 32]), publish, port, events)


def serve_raw(port: int, events: int) -> None:
    queues: set[asyncio.Queue[bytes]] = set()
    loops: list[asyncio.AbstractEventLoop] = []

    async def frames() -> AsyncGenerator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        queues.add(queue)
        yield b"retry: 2000\nid: 0\n\n"
        while True:
            yield await queue.get()

    async def stream(_: Any) -> StreamingResponse:
        loops[:] = [asyncio.get_running_loop()]
        return StreamingResponse(frames(), media_type="text/event-stream")

    def hand_out(frame: bytes) -> None:
        for queue in queues:
            queue.put_nowait(frame)

    def publish(number: int) -> None:
        data = {"name": "bench", "n": number, "sent": time.monotonic(), "note": PADDING}
        frame = f"id: {number}\nevent: skill_loaded\ndata: {json.dumps(data)}\n\n".encode()
        loops[0].call_soon_threadsafe(hand_out, frame)

    serve(Starlette(routes=[Route("/api/v1/events", stream)]), publish, port, events)


async def receive(port: int, events: int, opened: asyncio.Semaphore, ready: asyncio.Queue[None]) -> list[float]:
    """Return how late each event was; raise if one is missing, doubled or out of order."""
    async with opened:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(request.encode())
        while not (await reader.readline()).startswith(b"retry"):
            pass
    ready.put_nowait(None)
    late: list[float] = []
    with closing(writer):
        while len(late) < events:
            line = await reader.readline()
            if line.startswith(b"data: "):
                data = json.loads(line[6:])
                late.append(time.monotonic() - data["sent"])
                if data["n"] != len(late):
                    raise SystemExit(f"Event {data['n']} came in place of {len(late)}.")
            elif not line:
                raise SystemExit("The server closed a connection.")
    return late


async def measure(kind: str, clients: int, events: int, home: Path) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [sys.executable, __file__, "--serve", kind, "--port", str(port), "--events", str(events)]
    server = await asyncio.create_subprocess_exec(
        *arguments, "--home", str(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin
    assert server.stdout
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            break
        except OSError:
            await asyncio.sleep(0.1)
    opened, ready = asyncio.Semaphore(20), asyncio.Queue[None]()
    tasks = [asyncio.create_task(receive(port, events, opened, ready)) for _ in range(clients)]
    for _ in range(clients):
        await ready.get()
    server.stdin.write(b"go\n")
    late = sorted(one for found in await asyncio.gather(*tasks) for one in found)
    server.stdin.write(b"end\n")
    cpu = json.loads(await server.stdout.readline())["cpu_s"]
    await server.wait()

    def percentile(share: float) -> float:
        return round(1_000 * late[min(len(late) - 1, int(share * len(late)))], 1)

    return {
        "clients": clients,
        "events": events,
        "p50_ms": percentile(0.5),
        "p99_ms": percentile(0.99),
        "max_ms": percentile(1),
        "cpu_s": round(cpu, 2),
        "cpu_us_per_delivery": round(1e6 * cpu / len(late), 1),
        "lost": 0,
        "doubled": 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sse.json"))
    parser.add_argument("--serve", choices=("prowess", "raw"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, default=Path(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve == "prowess":
        serve_prowess(given.port, given.events, given.home)
        return
    if given.serve == "raw":
        serve_raw(given.port, given.events)
        return
    results: dict[str, Any] = {}
    print(f"{'':10}" + "".join(f"{name:>21}" for name in COLUMNS))
    for kind in ("raw", "prowess"):
        with tempfile.TemporaryDirectory() as home:
            results[kind] = asyncio.run(measure(kind, given.clients, given.events, Path(home)))
        print(f"{kind:10}" + "".join(f"{results[kind][name]:>21}" for name in COLUMNS), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
