"""How fast phase 1 is and what it takes, from a thousand cards to a million, beside SQLite FTS5, bm25s and tantivy.

    python benchmarks/match_speed.py [--sizes 161,1000,10000,100000,1000000] [--peers prowess,words,fts5,bm25s,tantivy] [--out FILE]

`words` is Prowess without an embedder: words alone decide.

Every row is measured in two processes of its own. One builds the index and keeps it in a folder; the other loads it from
there, ranks short and long messages (five results from every peer), and replaces single cards. Build times leave out what it takes to make the cards, and the vectors of cards, which are computed once per text and shown apart.
CPU time is that of all threads of the process. Memory is what the second process holds beyond what it held before it
loaded the index (its libraries), after all messages; the peak is that of the whole process. Each kind of message gets forty
seconds; a peer that cannot answer 500 in that time is measured on fewer (`short_count`, `long_count` in the JSON).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from goals import Goal, print_goals
from material.messages import long_messages, short_messages
from material.recombined import Stock
from material.sets import SHARED, Card
from peers.peer import KeptPeer

HERE = Path(__file__).resolve().parent
PEERS = {
    "prowess": ("peers.by_prowess", "KeptProwess"),
    "words": ("peers.by_prowess", "KeptWords"),
    "fts5": ("peers.by_fts5", "Fts5"),
    "bm25s": ("peers.by_bm25s", "Bm25s"),
    "tantivy": ("peers.by_tantivy", "Tantivy"),
}
SIZES = "161,1000,10000,100000"
"""A million has to be asked for: it takes far longer than these together."""
MESSAGES = {"short": short_messages, "long": long_messages}
MESSAGE_COUNT = 500
WARM_UP = 20
SECONDS_A_KIND = 40.0
SECONDS_TO_WARM_UP = 4.0
UPDATES = 20
RESULTS = 5
"""How many results every peer is asked for."""

GOALS = {
    "words": (
        Goal(10_000, "short_p50", 0.8, "ms", "short message by words alone, p50"),
        Goal(100_000, "short_p50", 8.0, "ms", "short message by words alone, p50"),
        Goal(10_000, "build_ms", 0.1, "ms", "build, a card"),
        Goal(100_000, "build_ms", 0.1, "ms", "build, a card"),
    ),
    "prowess": (
        Goal(10_000, "short_p50", 5.0, "ms", "short message, p50"),
        Goal(10_000, "long_p50", 20.0, "ms", "message of 200 words, p50"),
        Goal(100_000, "short_p50", 8.0, "ms", "short message, p50"),
        Goal(1_000_000, "short_p99", 30.0, "ms", "short message, p99"),
        Goal(100_000, "load_ms", 50.0, "ms", "snapshot load"),
        *(Goal(size, "update_ms", 10.0, "ms", "update of one skill") for size in (1_000, 10_000, 100_000, 1_000_000)),
        Goal(100_000, "peak_mb", 300.0, "MB", "memory, whole process"),
    ),
}


def main() -> int:
    args = arguments()
    if args.one:
        step, name, size, folder = args.one
        print(json.dumps(STEPS[step](peer_type(name), int(size), Path(folder))))
        return 0
    if not SHARED.is_dir():
        print(f"skipped: the cards are recombined from real ones, and there are none in {SHARED}")
        return 0
    rows: list[dict[str, Any]] = []
    print_header()
    for size in map(int, args.sizes.split(",")):
        for name in args.peers.split(","):
            rows.append(measure(name, size))
            print_row(rows[-1])
    for name, goals in GOALS.items():
        print_goals(
            [goal for goal in goals if name in args.peers.split(",")], [row for row in rows if row["peer"] == name]
        )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--out", type=Path, default=HERE / "results" / "match_speed.json")
    parser.add_argument("--one", nargs=4, metavar=("STEP", "PEER", "SIZE", "FOLDER"), help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(name: str, size: int) -> dict[str, Any]:
    """One row of the table: a process that builds, then one that serves."""
    folder = Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    try:
        row: dict[str, Any] = {"peer": name, "cards": size}
        for step in STEPS:
            print(f"\r\033[K{name}, {size:,} cards: {step} …", end="", file=sys.stderr, flush=True)
            command = [sys.executable, __file__, "--one", step, name, str(size), str(folder)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                return {**row, "failed": (ran.stderr.strip().splitlines() or [f"exit {ran.returncode}"])[-1]}
            row |= json.loads(ran.stdout.splitlines()[-1])
        return row
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)


def peer_type(name: str) -> type[KeptPeer]:
    module, kind = PEERS[name]
    return getattr(import_module(module), kind)


class Supply:
    """Cards one by one, with a stopwatch on how long making them took."""

    def __init__(self, cards: Iterable[Card]) -> None:
        self.cards = iter(cards)
        self.seconds = self.cpu_seconds = 0.0

    def __iter__(self) -> Iterator[Card]:
        while True:
            start, cpu = time.perf_counter(), time.process_time()
            card = next(self.cards, None)
            self.seconds += time.perf_counter() - start
            self.cpu_seconds += time.process_time() - cpu
            if card is None:
                return
            yield card


def build(peer: type[KeptPeer], size: int, folder: Path) -> dict[str, Any]:
    stock = Stock.read()
    supply = Supply(stock.cards(size))
    index = folder / "index"
    index.mkdir()
    start, cpu = time.perf_counter(), time.process_time()
    built = peer.build(supply, index)
    seconds = time.perf_counter() - start - supply.seconds
    cpu_seconds = time.process_time() - cpu - supply.cpu_seconds
    vectors = time.process_time()
    prepare = getattr(built, "prepare", None)
    if prepare is not None:
        prepare()
    (folder / "changed.json").write_text(json.dumps(changed_cards(stock, size)), encoding="utf-8")
    bytes_kept = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    return {
        "build_s": round(seconds, 2),
        "build_ms": round(1000 * seconds / size, 3),
        "build_cpu_ms": round(1000 * cpu_seconds / size, 3),
        "vectors_cpu_ms": round(1000 * (time.process_time() - vectors) / size, 3) if prepare is not None else 0.0,
        "build_peak_mb": round(status_mb("VmHWM")),
        "snapshot_mb": round(bytes_kept / 1e6, 1),
    }


def changed_cards(stock: Stock, size: int) -> list[Card]:
    """Cards from all over the index, each saying something else than before and with a word that no other has."""
    numbers = [(step * size) // UPDATES for step in range(UPDATES)]
    return [
        stock.card(size + number)._replace(
            id=str(number),
            name=stock.card(number).name,
            description=f"{stock.card(size + number).description} About {marker(number)}.",
        )
        for number in numbers
    ]


def marker(number: int) -> str:
    """A word that only the changed card of this number has."""
    return f"quux{chr(97 + number % 26)}{number}zot"


def serve(peer: type[KeptPeer], _: int, folder: Path) -> dict[str, Any]:
    messages = {kind: make(MESSAGE_COUNT) for kind, make in MESSAGES.items()}
    before = status_mb("VmRSS")
    start = time.perf_counter()
    loaded = peer.load(folder / "index")
    row: dict[str, Any] = {"load_ms": round((time.perf_counter() - start) * 1000, 1)}
    row["first_match_ms"] = round(timed(loaded, messages["short"][0])[0], 1)
    for kind, asked in messages.items():
        row |= {f"{kind}_{key}": value for key, value in latencies(loaded, asked).items()}
    row |= {"memory_mb": round(status_mb("VmRSS") - before), "peak_mb": round(status_mb("VmHWM"))}
    changed = json.loads((folder / "changed.json").read_text(encoding="utf-8"))
    return row | updates(loaded, [Card(*values) for values in changed])


def latencies(peer: KeptPeer, messages: list[str]) -> dict[str, float]:
    """Percentiles in milliseconds, over as many messages as the time allows."""
    timings(peer, messages[:WARM_UP], SECONDS_TO_WARM_UP)
    taken = timings(peer, messages, SECONDS_A_KIND)
    walls, cpus = (sorted(times) for times in zip(*taken, strict=True))
    return {
        "count": len(taken),
        "p50": round(at(walls, 0.5), 3),
        "p99": round(at(walls, 0.99), 3),
        "cpu_p50": round(at(cpus, 0.5), 3),
        "cpu_p99": round(at(cpus, 0.99), 3),
    }


def timings(peer: KeptPeer, messages: list[str], seconds: float) -> list[tuple[float, float]]:
    """Wall and CPU milliseconds of each message, until the seconds are over."""
    taken: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    for message in messages:
        taken.append(timed(peer, message))
        if time.perf_counter() > end:
            break
    return taken


def updates(peer: KeptPeer, changed: list[Card]) -> dict[str, Any]:
    """Replace cards one by one, each time seeing that what is new is found."""
    walls: list[float] = []
    for card in changed:
        start = time.perf_counter()
        try:
            peer.update(int(card.id), card)
        except NotImplementedError:
            return {}
        walls.append((time.perf_counter() - start) * 1000)
        if int(card.id) not in peer.rank(marker(int(card.id)), RESULTS):
            raise SystemExit(f"an update was not seen: {card.name}")
    return {"update_ms": round(at(sorted(walls), 0.5), 2), "update_worst_ms": round(max(walls), 2)}


def timed(peer: KeptPeer, message: str) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    peer.rank(message, RESULTS)
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def status_mb(key: str) -> float:
    """A figure of this process in megabytes, by its name in /proc; 0 where there is no such thing."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith(key))


STEPS = {"build": build, "serve": serve}


def print_header() -> None:
    print(
        "Milliseconds a message, wall / CPU; build in milliseconds a card; load and update in milliseconds; memory in MB\n"
    )
    print(
        f"{'cards':>9}  {'':<9}{'short p50':>20}{'short p99':>20}{'long p50':>20}{'long p99':>20}"
        f"{'build':>16}{'vectors':>9}{'kept MB':>9}{'load':>8}{'update':>8}{'memory':>8}{'peak':>7}"
    )


def print_row(row: dict[str, Any]) -> None:
    print(f"{row['cards']:>9,}  {row['peer']:<9}", end="")
    if "failed" in row:
        print(f"  failed: {row['failed']}")
        return
    for kind in ("short", "long"):
        for key in ("p50", "p99"):
            pair = f"{row[f'{kind}_{key}']:.2f} / {row[f'{kind}_cpu_{key}']:.2f}"
            print(f"{pair:>20}", end="")
    update = f"{row['update_ms']:.1f}" if "update_ms" in row else "–"
    build = f"{row['build_ms']:.3f} / {row['build_cpu_ms']:.3f}"
    print(
        f"{build:>16}{row['vectors_cpu_ms']:>9.2f}{row['snapshot_mb']:>9.1f}{row['load_ms']:>8.1f}{update:>8}"
        f"{row['memory_mb']:>8}{row['peak_mb']:>7}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
