"""How well phase 1 ranks, side by side with other ways to do it, on every retrieval set in one run.

    python benchmarks/match_quality.py [--sets NAME,…] [--methods NAME,…] [--onnx FOLDER] [--out FILE]

Every method gets the same cards: name, description, tags and trigger phrases. The recipe and Prowess also look for key
terms in the bodies; the others do not, since whole bodies make their rankings worse. Three parts are printed: the
quality of each method; what typing errors cost; and what is answered to messages that no skill fits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import calibration
from material.sets import SET_NAMES, Absent, Card, Query, RetrievalSet, read_set
from material.typos import with_typos
from peers.by_bm25s import Bm25s
from peers.by_fts5 import Fts5
from peers.by_prowess import ProwessPeer
from peers.by_rapidfuzz import RapidFuzz
from peers.by_recipe import Recipe
from peers.by_sentences import sentence_peer
from peers.by_static import Static
from peers.by_tantivy import Tantivy
from peers.peer import Peer
from scores import DEPTH, Scores, mean_of, paired_bootstrap, score_of

HERE = Path(__file__).resolve().parent
Builder = Callable[[Sequence[Card]], Peer]
MISSPELT = ("Prowess", "the recipe", "SQLite FTS5")


def main() -> int:
    args = arguments()
    methods = builders(args.onnx)
    if args.methods:
        methods = {name: build for name, build in methods.items() if name in args.methods.split(",")}
    sets = present_sets(args.sets.split(","))
    report: dict[str, Any] = {"sets": {}}
    for each in sets:
        report["sets"][each.name] = measure_set(each, methods)
    if "Prowess" in methods:
        report["calibration"] = calibration.measure(sets)
        calibration.print_table(report["calibration"])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(SET_NAMES))
    parser.add_argument("--methods", default="", help="some of the methods only, by the names in the table")
    parser.add_argument("--onnx", type=Path, default=os.environ.get("PROWESS_BENCH_ONNX"), help="a sentence model")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "match_quality.json")
    return parser.parse_args()


def builders(model: Path | None) -> dict[str, Builder]:
    """Every method by its name in the table."""
    return {
        "SQLite FTS5": Fts5.build,
        "bm25s": Bm25s.build,
        "tantivy": Tantivy.build,
        "rapidfuzz": RapidFuzz,
        "static embedding": Static,
        **({f"{Path(model).name} alone": sentence_peer(Path(model))} if model else {}),
        "the recipe": Recipe,
        "Prowess": ProwessPeer,
    }


def present_sets(names: Sequence[str]) -> list[RetrievalSet]:
    found: list[RetrievalSet] = []
    for name in names:
        try:
            found.append(read_set(name))
        except Absent as reason:
            print(f"skipped {reason}")
    return found


def measure_set(each: RetrievalSet, methods: Mapping[str, Builder]) -> dict[str, Any]:
    print(f"\n{each.name}: {len(each.cards):,} skills, {len(each.queries):,} messages")
    print(f"{'':<28}{'R@1':>7}{'R@5':>7}{'R@10':>7}{'MRR':>7}{'NDCG':>7}{'CPU ms':>9}")
    scored: dict[str, list[Scores]] = {}
    report: dict[str, Any] = {"skills": len(each.cards), "messages": len(each.queries), "methods": {}}
    misspelt: dict[str, float] = {}
    for name, build in methods.items():
        progress(f"{each.name}: {name} …")
        peer = build(each.cards)
        start = time.thread_time()
        scored[name] = scores_of(peer, each.cards, each.queries)
        spent = (time.thread_time() - start) / len(each.queries) * 1000
        mean = mean_of(scored[name])
        report["methods"][name] = {**percent(mean), "cpu_ms": round(spent, 3)}
        progress("")
        print(f"{name:<28}" + "".join(f"{100 * value:>7.1f}" for value in mean) + f"{spent:>9.2f}")
        if name in MISSPELT:
            wrong = [query._replace(text=with_typos(query.text, query.id)) for query in each.queries]
            misspelt[name] = mean_of(scores_of(peer, each.cards, wrong)).ndcg
    report |= {"typos": print_typos(scored, misspelt), "differences": print_differences(scored)}
    return report


def scores_of(peer: Peer, cards: Sequence[Card], queries: Sequence[Query]) -> list[Scores]:
    return [
        score_of([cards[number].id for number in peer.rank(query.text, DEPTH)], query.relevant) for query in queries
    ]


def print_typos(scored: Mapping[str, list[Scores]], misspelt: Mapping[str, float]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    for name, wrong in misspelt.items():
        clean = mean_of(scored[name]).ndcg
        report[name] = {"ndcg": round(100 * clean, 2), "ndcg_misspelt": round(100 * wrong, 2)}
    if report:
        told = "; ".join(f"{name} {row['ndcg']:.1f} → {row['ndcg_misspelt']:.1f}" for name, row in report.items())
        print(f"NDCG when 30 % of the longer words are misspelt: {told}")
    return report


def print_differences(scored: Mapping[str, list[Scores]]) -> dict[str, Any]:
    """Prowess against every other method, over the same messages."""
    ours = [score.ndcg for score in scored.get("Prowess", [])]
    report: dict[str, Any] = {}
    for name, theirs in scored.items():
        if ours and name != "Prowess":
            gap = paired_bootstrap(ours, [score.ndcg for score in theirs])
            report[name] = {key: round(100 * value, 2) for key, value in gap._asdict().items()}
    for name, gap in report.items():
        print(f"NDCG, Prowess − {name}: {gap['mean']:+.1f} (95 %: {gap['low']:+.1f} to {gap['high']:+.1f})")
    return report


def percent(scores: Scores) -> dict[str, float]:
    return {name: round(100 * value, 2) for name, value in scores._asdict().items()}


def progress(text: str) -> None:
    print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
