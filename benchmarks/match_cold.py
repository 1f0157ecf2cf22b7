"""What `prowess match "…"` costs as a command, process start included: the first time, and when the index is there.

    python benchmarks/match_cold.py [--sizes 1000,10000] [--runs N] [--out FILE]

The skills are recombined from real ones. They are in the skill folders of a workspace, or imported into its database, which
indexes them (first column, the import itself). From folders, the first call reads them all and builds the index. Then all vectors are computed, as the background process does; the later calls load both. The last column is a
call after one skill was added. The figures are the CPU time of the child process, all its threads included: the least of
several calls, since everything above that is the machine's other business.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

from goals import Goal, print_goals
from material.recombined import Stock
from material.sets import SHARED, Card
from peers.by_prowess import documents_of

from prowess.skill.package import Package

HERE = Path(__file__).resolve().parent
MESSAGE = "could you draft the release notes for the new version"
PREPARE = "from prowess.engine.doctor import prepare_index; prepare_index()"
PROWESS = str(Path(sys.executable).parent / "prowess")
HIDDEN = re.compile("[\ue000-\uf8ff\ufe00-\ufe0f]")
"""Hidden characters, which a skill may not have; some of the real texts are damaged."""
GOALS = (
    Goal(10_000, "later_ms", 350.0, "ms CPU", "a cold prowess match"),
    Goal(10_000, "change_ms", 300.0, "ms CPU", "one skill added, beyond a cold match"),
)
IMPORT_GOALS = (*GOALS, Goal(10_000, "first_ms", 500.0, "ms CPU", "the first match"))


def main() -> int:
    args = arguments()
    if not SHARED.is_dir():
        print(f"skipped: the skills are recombined from real ones, and there are none in {SHARED}")
        return 0
    stock = Stock.read()
    rows: list[dict[str, Any]] = []
    print("CPU milliseconds of one call, process start included\n")
    print(
        f"{'skills':>9}  {'kept in':<10}{'import':>10}{'first':>10}{'vectors':>10}{'later':>10}{'after a change':>16}"
    )
    for size in map(int, args.sizes.split(",")):
        for place, keep in PLACES.items():
            print(f"\r\033[K{size:,} skills in {place} …\r", end="", file=sys.stderr, flush=True)
            rows.append(measure(stock, size, place, keep, args.runs))
            row = rows[-1]
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            print(
                f"{size:>9,}  {place:<10}{row['import_ms']:>10.0f}{row['first_ms']:>10.0f}{row['vectors_ms']:>10.0f}{row['later_ms']:>10.0f}"
                f"{row['changed_ms']:>16.0f}",
                flush=True,
            )
    for place in PLACES:
        print(f"\nIn {place}:", end="")
        print_goals(IMPORT_GOALS if place == "imported" else GOALS, [row for row in rows if row["place"] == place])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "match_cold.json")
    return parser.parse_args()


def measure(
    stock: Stock, size: int, place: str, keep: Callable[[Path, Iterator[Package]], float], runs: int
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="prowess-bench-") as name:
        workspace = Path(name) / "workspace"
        workspace.mkdir()
        imported = keep(workspace, packages(stock, 0, size))
        first = call(workspace)
        vectors = call(workspace, [sys.executable, "-c", PREPARE])
        later = min(call(workspace) for _ in range(runs))
        keep(workspace, packages(stock, size, size + 1))
        changed = call(workspace)
    times = {
        "import_ms": imported,
        "change_ms": round(changed - later, 1),
        "first_ms": first,
        "vectors_ms": vectors,
        "later_ms": later,
        "changed_ms": changed,
    }
    return {"cards": size, "place": place, **times}


def packages(stock: Stock, start: int, end: int) -> Iterator[Package]:
    """Skills as packages of one SKILL.md."""
    cards = [stock.card(number) for number in range(start, end)]
    for number, (card, document) in enumerate(zip(cards, documents_of(cards), strict=True), start):
        slug = f"{document.slug[:50].strip('-')}-{number}"
        yield Package.of_texts(slug, {"SKILL.md": skill_text(slug, card).encode()})


def skill_text(slug: str, card: Card) -> str:
    """A SKILL.md; JSON strings are YAML strings."""
    card = card._replace(**{key: HIDDEN.sub("", getattr(card, key)) for key in ("name", "description", "body")})
    fields: dict[str, Any] = {"name": slug, "description": card.description[:1000], "tags": list(card.tags)}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "\n".join(["---", *lines, "---", "", f"# {card.name}", "", card.body, ""])


def in_folders(workspace: Path, skills: Iterator[Package]) -> float:
    for package in skills:
        folder = workspace / "skills" / package.name
        folder.mkdir(parents=True)
        for file in package.files:
            (folder / file.path).write_bytes(file.content)
    return 0.0


def by_import(workspace: Path, skills: Iterator[Package]) -> float:
    """Import the skills with the command; return its CPU milliseconds."""
    source = Path(tempfile.mkdtemp(dir=workspace.parent))
    in_folders(source, skills)
    return call(workspace, [PROWESS, "import", str(source / "skills")])


PLACES: dict[str, Callable[[Path, Iterator[Package]], float]] = {
    "folders": in_folders,
    "imported": by_import,
}


def call(workspace: Path, command: Sequence[str] = ()) -> float:
    """One call in a home of its own; the CPU milliseconds of that process."""
    home = workspace.parent / "home"
    home.mkdir(exist_ok=True)
    places = {"HOME": str(home), "PROWESS_HOME": str(home / ".prowess")}
    env = {**os.environ, **places, "PROWESS_BACKGROUND": "off", "OPENBLAS_NUM_THREADS": "1"}
    chosen = command or [PROWESS, "match", MESSAGE]
    before = getrusage(RUSAGE_CHILDREN)
    ran = subprocess.run(chosen, check=False, capture_output=True, text=True, env=env, cwd=workspace)
    after = getrusage(RUSAGE_CHILDREN)
    if ran.returncode not in {0, 1} or not (command or ran.stdout.strip()):
        raise SystemExit(f"{chosen} gave {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return round((after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000, 1)


if __name__ == "__main__":
    raise SystemExit(main())
