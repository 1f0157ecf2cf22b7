"""How well the decision (offer, maybe, no) separates messages that a skill fits from those that nothing fits.

    python benchmarks/calibration.py [--sets NAME,…] [--out FILE]

Every set is asked its own messages and messages that none of its skills fits: its own strangers (small talk, other topics,
near misses, long texts) and messages of another set. The first table is about the features of the decision. For each set, a
logistic regression is fitted on the other sets and judged on this one: AUROC for each kind of stranger, and how many of the
fitting messages are kept if at most 5 % or 10 % of all strangers are offered a skill. Messages of another set count for this
only where a set has no strangers of its own, because now and then one of them fits after all. Beside it stands what the same
features reach if they are fitted on the set itself, which no choice of weights can exceed by much. The second table is about
the weights and thresholds that ship: what the first skill is called. The last one has the weights of a fit on all sets.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from material.sets import SET_NAMES, RetrievalSet, present_sets
from material.smalltalk import SMALL_TALK
from numpy.typing import NDArray
from peers.by_prowess import ProwessPeer

from prowess.match import score as shipped

HERE = Path(__file__).resolve().parent
OTHERS = {
    "sfskills": {"metatool": 200},
    "metatool": {"sfskills": 200},
    "coding": {"metatool": 150},
    "office": {"sfskills": 150},
    "research": {"sfskills": 100, "metatool": 100},
}
"""Whose messages, and how many of them, fit no skill of a set.

A set whose subject another set covers is not paired with it. Messages about Salesforce are strangers to sets without a
skill for it; author-phrases has 21 such skills, and 5,765 skills for nearly everything else, so it is paired with no set."""
FITTED = ("coding", "office", "research", "metatool")
"""The sets to fit on. The messages of the others are made from the skills' own texts."""
MOST_MESSAGES = 800
CARDS = 2
"""How many of the first cards of each message the regression is fitted on."""
KINDS = ("chat", "offtopic", "near", "long", "another set")
DECISIONS = ("offer", "maybe", "no")
FALSE_OFFERS = (0.05, 0.10)
_RIDGE, _STEPS = 1.0, 30

Figures = NDArray[np.float64]


class Asked(NamedTuple):
    """A message, its first cards, and what is said of the first."""

    kind: str
    """'fits', or the kind of stranger."""
    right: list[bool]
    """Whether each card fits."""
    features: list[list[float]]
    score: float
    decision: str

    @property
    def is_right(self) -> bool:
        """True if the first card fits."""
        return self.right[:1] == [True]


class Weights(NamedTuple):
    """A logistic regression."""

    bias: float
    weights: Figures

    def evidence(self, asked: Sequence[Asked]) -> Figures:
        """The log odds of the first card of each message; very low where there is none."""
        return np.array([float(self.weights @ one.features[0]) + self.bias if one.features else -20 for one in asked])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(SET_NAMES))
    parser.add_argument("--out", type=Path, default=HERE / "results" / "calibration.json")
    args = parser.parse_args()
    report = measure(present_sets(args.sets.split(",")))
    print_report(report)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def measure(sets: Sequence[RetrievalSet]) -> dict[str, Any]:
    """The rows of all tables."""
    asked = {each.name: ask(each, ProwessPeer(each.cards), sets) for each in sets}
    training = [name for name in FITTED if name in asked]
    left_out: list[dict[str, Any]] = []
    for name, mine in asked.items():
        others = [asked[other] for other in training if other != name]
        if others:
            left_out.append({"set": name, **separation(mine, fit(others).evidence(mine))})
    decided = [row for name, mine in asked.items() for row in decisions(name, mine)]
    return {
        "left_out": left_out,
        "itself": [{"set": name, **separation(mine, fit([mine]).evidence(mine))} for name, mine in asked.items()],
        "shipped": [{"set": name, **separation(mine, scores_of(mine))} for name, mine in asked.items()],
        "decisions": decided,
        "weights": compared_weights([asked[name] for name in training]) if training else {},
    }


def ask(each: RetrievalSet, peer: ProwessPeer, sets: Sequence[RetrievalSet]) -> list[Asked]:
    """Ask a set its own messages and those of strangers."""
    chance = random.Random(3)
    own = each.queries if len(each.queries) <= MOST_MESSAGES else chance.sample(each.queries, MOST_MESSAGES)
    strangers = [(query.text, query.kind) for query in each.strangers]
    if not strangers:
        # Small talk and other topics fit none of the sets.
        everywhere = (query for other in sets for query in other.strangers if query.kind in {"chat", "offtopic"})
        strangers = [(query.text, query.kind) for query in everywhere]
    strangers += [(text, "chat") for text in SMALL_TALK]
    messages = {other.name: other.queries for other in sets}
    for other, count in OTHERS.get(each.name, {}).items():
        if other in messages:
            strangers += [(query.text, "another set") for query in chance.sample(messages[other], count)]
    return [
        *(answer(each, peer, query.text, "fits", query.relevant) for query in own),
        *(answer(each, peer, text, kind, frozenset()) for text, kind in strangers),
    ]


def answer(each: RetrievalSet, peer: ProwessPeer, message: str, kind: str, relevant: frozenset[str]) -> Asked:
    """Ask one message."""
    found = peer.recommendations(message, CARDS)
    return Asked(
        kind,
        [each.cards[number].id in relevant for number, _ in found],
        [features(item.signals) for _, item in found],
        found[0][1].score if found else 0.0,
        found[0][1].decision if found else "no",
    )


def features(signals: Mapping[str, float]) -> list[float]:
    """What the decision is made from, besides declared phrases and names in the message."""
    coverage = min(signals["coverage"], shipped.MAX_COVERAGE)
    cosine = signals["cosine"] + signals["sentence"]
    return [cosine, signals["part"], coverage, math.log1p(signals["lexical"]), signals["prior"]]


def fit(sets: Sequence[Sequence[Asked]]) -> Weights:
    """Fit a logistic regression by iteratively reweighted least squares, each set with the same weight.

    Within a set, fitting messages and strangers count the same.
    """
    rows: list[list[float]] = []
    right: list[bool] = []
    share: list[float] = []
    for asked in sets:
        fitting = sum(one.kind == "fits" for one in asked)
        for one in counted(asked):
            rows += one.features
            right += one.right
            share += [1 / (fitting if one.kind == "fits" else len(asked) - fitting)] * len(one.right)
    values, wanted, weight = np.array(rows), np.array(right, float), np.array(share) * len(share) / sum(share)
    middle, spread = values.mean(axis=0), values.std(axis=0) + 1e-9
    inputs = np.column_stack([np.ones(len(values)), (values - middle) / spread])
    # The bias is not held back.
    ridge = _RIDGE * np.diag([0.0, *np.ones(values.shape[1])])
    found = np.zeros(inputs.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-inputs @ found))
        slope = inputs.T @ (weight * (wanted - chance)) - ridge @ found
        bend = (inputs * (weight * chance * (1 - chance))[:, np.newaxis]).T @ inputs + ridge
        found = found + np.linalg.solve(bend, slope)
    weights = found[1:] / spread
    return Weights(float(found[0] - weights @ middle), weights)


def counted(asked: Sequence[Asked]) -> list[Asked]:
    """Leave out messages of another set where the set has strangers of its own."""
    has_own = any(one.kind in {"near", "long"} for one in asked)
    return [one for one in asked if one.kind != "another set" or not has_own]


def scores_of(asked: Sequence[Asked]) -> Figures:
    return np.array([one.score for one in asked])


def separation(asked: Sequence[Asked], figures: Figures) -> dict[str, Any]:
    """AUROC for each kind of stranger, and the share of fitting messages above all but a few strangers."""
    fitting = figures[[one.kind == "fits" for one in asked]]
    first = figures[[one.kind == "fits" and one.is_right for one in asked]]
    kinds = {kind: figures[[one.kind == kind for one in asked]] for kind in KINDS}
    held = {id(one) for one in counted(asked)}
    strangers = figures[[one.kind != "fits" and id(one) in held for one in asked]]
    row: dict[str, Any] = {kind: auroc(fitting, some) for kind, some in kinds.items() if len(some)}
    row["auroc"] = auroc(fitting, strangers)
    for share in FALSE_OFFERS:
        bound = np.quantile(strangers, 1 - share, method="higher")
        row[f"kept_{share:.0%}"] = round(float((fitting > bound).mean()), 4)
        row[f"right_kept_{share:.0%}"] = round(float((first > bound).mean()), 4)
    return row


def auroc(fitting: Figures, strangers: Figures) -> float:
    """The chance that a fitting message is above a stranger; equal figures count half."""
    ours, theirs = fitting[:, np.newaxis], strangers[np.newaxis]
    return round(float((ours > theirs).mean() + (ours == theirs).mean() / 2), 4)


def decisions(name: str, asked: Sequence[Asked]) -> Iterable[dict[str, Any]]:
    """What the first skill is called, for each kind of message."""
    kinds: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        kinds[one.kind].append(one)
        if one.kind == "fits" and one.is_right:
            kinds["fits, right first"].append(one)
    for kind in ("fits", "fits, right first", *KINDS):
        if some := kinds[kind]:
            called = Counter(one.decision for one in some)
            shares = {decision: round(called[decision] / len(some), 4) for decision in DECISIONS}
            yield {"set": name, "messages": kind, "count": len(some), **shares}


def compared_weights(sets: Sequence[Sequence[Asked]]) -> dict[str, Any]:
    """The weights of a fit on all sets, as they come and on the scale of those that ship, and those that ship."""
    found = fit(sets)
    ours = Weights(shipped.BY_MEANING.bias, np.array(shipped.BY_MEANING[1:]))
    every = [one for asked in sets for one in asked if one.features]
    # The scale that ships was chosen so that 0.5 is an offer, so a fit can be compared only up to scale and shift.
    scale, shift = np.polyfit(found.evidence(every), ours.evidence(every), 1).tolist()
    same = float(np.corrcoef(found.evidence(every), ours.evidence(every))[0, 1])
    return {
        "fitted": named(found),
        "fitted, on the scale that ships": named(Weights(scale * found.bias + shift, scale * found.weights)),
        "shipped": named(ours),
        "correlation": round(same, 4),
    }


def named(weights: Weights) -> dict[str, float]:
    values = [weights.bias, *weights.weights.tolist()]
    return {name: round(value, 2) for name, value in zip(shipped.Weights._fields, values, strict=True)}


def print_report(report: Mapping[str, Any]) -> None:
    """All tables, in percent."""
    print("\nDecision: AUROC by kind of stranger, and fitting messages kept at ≤ 5 % and ≤ 10 % false offers")
    print_separation("fitted on the other sets", report["left_out"])
    print_separation("fitted on the set itself", report["itself"])
    print_separation("as shipped", report["shipped"])
    print_goals(report["shipped"])
    print("\nDecision as shipped: what the first skill is called")
    print(f"{'set':<16}{'messages':<20}{'n':>6}" + "".join(f"{name:>8}" for name in DECISIONS))
    for row in report["decisions"]:
        shares = "".join(f"{100 * row[name]:>8.1f}" for name in DECISIONS)
        print(f"{row['set']:<16}{row['messages']:<20}{row['count']:>6}{shares}")
    if report["weights"]:
        print(f"\n{'weights':<34}" + "".join(f"{name:>10}" for name in report["weights"]["shipped"]))
        for name, row in report["weights"].items():
            if name != "correlation":
                print(f"{name:<34}" + "".join(f"{value:>10.2f}" for value in row.values()))
        print(f"correlation of the evidence by both: {report['weights']['correlation']:.3f}")


def print_goals(rows: Sequence[Mapping[str, Any]]) -> None:
    """The goals of the decision as shipped: least and mean AUROC of all pairings, and fitting messages kept."""
    pairings = [row[kind] for row in rows for kind in KINDS if kind in row]
    kept = [row["kept_5%"] for row in rows]
    for what, value, goal in (
        ("least AUROC of a pairing", min(pairings), 0.90),
        ("mean AUROC", sum(pairings) / len(pairings), 0.95),
        ("kept at ≤ 5 % false offers, mean", sum(kept) / len(kept), 0.80),
    ):
        print(f"{'met' if value >= goal else 'NOT MET':<10}{what}: {100 * value:.1f}, at least {100 * goal:g}")


def print_separation(heading: str, rows: Sequence[Mapping[str, Any]]) -> None:
    kept = [f"kept_{share:.0%}" for share in FALSE_OFFERS] + [f"right_kept_{share:.0%}" for share in FALSE_OFFERS]
    columns = (*KINDS, "auroc", *kept)
    titles = (*KINDS, "all", "kept ≤5", "kept ≤10", "right ≤5", "right ≤10")
    print(f"{heading:<26}" + "".join(f"{title:>12}" for title in titles))
    for row in rows:
        print(f"{row['set']:<26}" + "".join(cell(row.get(name)) for name in columns))
    if len(rows) > 1:
        means = [[row[name] for row in rows if name in row] for name in columns]
        print(f"{'mean':<26}" + "".join(cell(sum(some) / len(some) if some else None) for some in means))


def cell(value: float | None) -> str:
    return f"{'–':>12}" if value is None else f"{100 * value:>12.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
