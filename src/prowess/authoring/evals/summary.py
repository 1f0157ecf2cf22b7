"""The figures of an evaluation: each arm with intervals, and the differences between arms on the same cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from prowess.authoring.evals.results import Arm, CaseResult, EvalRun
from prowess.authoring.evals.statistics import Difference, compare_paired, mean_interval, paired_interval, rate_interval
from prowess.skill.kinds import JsonObject

_METRICS: Mapping[str, Callable[[CaseResult], float | None]] = {
    "score": lambda one: one.score,
    "pass_rate": lambda one: None if one.passed is None else float(one.passed),
    "cost_usd": lambda one: one.cost,
    "seconds": lambda one: one.seconds,
}


def summarize(arms: Sequence[Arm], results: Sequence[CaseResult]) -> JsonObject:
    """Return the figures of each arm, and of each arm with the skill against the others with the same model."""
    by_arm = [[one for one in results if one.arm == place] for place in range(len(arms))]
    comparisons = [
        {
            "model": after.model,
            "before": first,
            "after": second,
            "before_label": before.label,
            "after_label": after.label,
            **compare_results(by_arm[first], by_arm[second]),
        }
        for second, after in enumerate(arms)
        if after.kind == "skill"
        for first, before in enumerate(arms)
        if before.kind != "skill" and before.model == after.model
    ]
    return {
        "cases": len({one.digest for one in results}),
        "repeats": max((one.repeat for one in results), default=1),
        "arms": [
            {"label": arm.label, "name": arm.name, "model": arm.model, **_figures(own)}
            for arm, own in zip(arms, by_arm, strict=True)
        ],
        "comparisons": comparisons,
    }


def _figures(results: Sequence[CaseResult]) -> JsonObject:
    decided = [one for one in results if one.passed is not None]
    cases = [one.digest for one in decided]
    costs = [cost for one in results if (cost := one.whole_cost) is not None]
    priced = [one for one in results if one.cost is not None]
    passed = [bool(one.passed) for one in decided]
    return {
        "cases": len({one.digest for one in results}),
        "answers": len(results),
        "passed": sum(passed),
        "failed": len(passed) - sum(passed),
        "errors": len(results) - len(decided),
        "cached": sum(one.cached for one in results),
        "pass_rate": rate_interval(passed, clusters=cases).as_json(),
        "score": mean_interval([one.score or 0.0 for one in decided], clusters=cases).as_json(),
        "total_cost_usd": math.fsum(costs) if costs else None,
        "cost_usd": mean_interval(
            [one.cost or 0.0 for one in priced], clusters=[one.digest for one in priced]
        ).as_json(),
        "seconds": mean_interval([one.seconds for one in decided], clusters=cases).as_json(),
    }


def compare_results(before: Sequence[CaseResult], after: Sequence[CaseResult]) -> JsonObject:
    """Return the differences on the cases that both sides have. The verdict is about the score."""
    first = {name: _case_means(before, metric) for name, metric in _METRICS.items()}
    second = {name: _case_means(after, metric) for name, metric in _METRICS.items()}
    pairs = {name: _pairs(first[name], second[name]) for name in _METRICS}
    score, passed = (compare_paired(*pairs[name]) for name in ("score", "pass_rate"))
    everything = {one.digest for one in before} | {one.digest for one in after}
    return {
        "verdict": score.verdict,
        "cases": score.cases,
        "left_out": len(everything) - score.cases,
        "score": _difference_json(score),
        "pass_rate": _difference_json(passed),
        "cost_usd": paired_interval(*pairs["cost_usd"]).as_json(),
        "seconds": paired_interval(*pairs["seconds"]).as_json(),
    }


def compare_arms(first: EvalRun, second: EvalRun) -> list[JsonObject]:
    """Return the differences of each pair of arms. Blocking."""
    return [
        {
            "before": first.arms[one].label,
            "after": second.arms[other].label,
            **compare_results(
                [result for result in first.results if result.arm == one],
                [result for result in second.results if result.arm == other],
            ),
        }
        for one, other in _arm_pairs(first, second)
    ]


def _arm_pairs(first: EvalRun, second: EvalRun) -> list[tuple[int, int]]:
    """Return the positions of arms to compare: those with the skill and the same model, or the first of each run."""
    ours = [place for place, arm in enumerate(first.arms) if arm.kind == "skill"]
    theirs = [place for place, arm in enumerate(second.arms) if arm.kind == "skill"]
    same = [(one, two) for one in ours for two in theirs if first.arms[one].model == second.arms[two].model]
    return same or [(ours[0], theirs[0])]


def _case_means(results: Sequence[CaseResult], metric: Callable[[CaseResult], float | None]) -> dict[str, float]:
    """Return the mean of each case over its repeats, without those that have an error."""
    grouped: dict[str, list[float]] = {}
    for one in results:
        value = metric(one)
        if one.passed is not None and value is not None:
            grouped.setdefault(one.digest, []).append(value)
    return {digest: math.fsum(values) / len(values) for digest, values in grouped.items()}


def _pairs(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[list[float], list[float]]:
    both = [digest for digest in before if digest in after]
    return [before[digest] for digest in both], [after[digest] for digest in both]


def _difference_json(difference: Difference) -> JsonObject:
    return {**difference.interval.as_json(), "p": difference.p, "verdict": difference.verdict}
