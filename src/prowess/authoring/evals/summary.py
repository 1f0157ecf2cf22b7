"""The figures of an evaluation: each arm with intervals, the differences between arms, and the score of the skill.

The score is bound to the exact bytes of a skill. Only cases and queries that are part of its files count, so that the digest
covers them too: a skill that has changed has no score until it is evaluated again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from prowess.authoring.evals.results import Arm, CaseResult, EvalRun
from prowess.authoring.evals.statistics import Difference, compare_paired, mean_interval, paired_interval, rate_interval
from prowess.authoring.evals.variant import Variant
from prowess.catalog.store import SearchDocument
from prowess.engine.context import Context
from prowess.match.trigger_eval import evaluate_triggers
from prowess.skill.evals import find_eval_paths, read_trigger_set
from prowess.skill.kinds import JsonObject
from prowess.storage.clock import now
from prowess.storage.scores import SkillScore

_METRICS: Mapping[str, Callable[[CaseResult], float | None]] = {
    "score": lambda one: one.score,
    "pass_rate": lambda one: None if one.passed is None else float(one.passed),
    "cost_usd": lambda one: one.cost,
    "seconds": lambda one: one.seconds,
}


def summarize(arms: Sequence[Arm], results: Sequence[CaseResult]) -> JsonObject:
    """Return the figures of each arm, and of each arm with the skill against the others with the same model."""
    by_arm = [[result for result in results if result.arm == index] for index in range(len(arms))]
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
        "cases": len({result.digest for result in results}),
        "repeats": max((result.repeat for result in results), default=1),
        "arms": [
            {"label": arm.label, "name": arm.name, "model": arm.model, **_figures(own)}
            for arm, own in zip(arms, by_arm, strict=True)
        ],
        "comparisons": comparisons,
    }


def _figures(results: Sequence[CaseResult]) -> JsonObject:
    decided = [result for result in results if result.passed is not None]
    cases = [result.digest for result in decided]
    costs = [cost for result in results if (cost := result.whole_cost) is not None]
    priced = [result for result in results if result.cost is not None]
    passed = [bool(result.passed) for result in decided]
    return {
        "cases": len({result.digest for result in results}),
        "answers": len(results),
        "passed": sum(passed),
        "failed": len(passed) - sum(passed),
        "errors": len(results) - len(decided),
        "cached": sum(result.cached for result in results),
        "pass_rate": rate_interval(passed, clusters=cases).as_json(),
        "score": mean_interval([result.score or 0.0 for result in decided], clusters=cases).as_json(),
        "total_cost_usd": math.fsum(costs) if costs else None,
        "cost_usd": mean_interval(
            [result.cost or 0.0 for result in priced], clusters=[result.digest for result in priced]
        ).as_json(),
        "seconds": mean_interval([result.seconds for result in decided], clusters=cases).as_json(),
    }


def compare_results(before: Sequence[CaseResult], after: Sequence[CaseResult]) -> JsonObject:
    """Return the differences on the cases that both sides have. The verdict is about the score."""
    first = {name: _case_means(before, metric) for name, metric in _METRICS.items()}
    second = {name: _case_means(after, metric) for name, metric in _METRICS.items()}
    pairs = {name: _pairs(first[name], second[name]) for name in _METRICS}
    score, passed = (compare_paired(*pairs[name]) for name in ("score", "pass_rate"))
    everything = {result.digest for result in before} | {result.digest for result in after}
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
    before = [index for index, arm in enumerate(first.arms) if arm.kind == "skill"]
    after = [index for index, arm in enumerate(second.arms) if arm.kind == "skill"]
    same = [(old, new) for old in before for new in after if first.arms[old].model == second.arms[new].model]
    return same or [(before[0], after[0])]


def _case_means(results: Sequence[CaseResult], metric: Callable[[CaseResult], float | None]) -> dict[str, float]:
    """Return the mean of each case over its repeats, without those that have an error."""
    grouped: dict[str, list[float]] = {}
    for result in results:
        value = metric(result)
        if result.passed is not None and value is not None:
            grouped.setdefault(result.digest, []).append(value)
    return {digest: math.fsum(values) / len(values) for digest, values in grouped.items()}


def _pairs(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[list[float], list[float]]:
    both = [digest for digest in before if digest in after]
    return [before[digest] for digest in both], [after[digest] for digest in both]


def _difference_json(difference: Difference) -> JsonObject:
    return {**difference.interval.as_json(), "p": difference.p, "verdict": difference.verdict}


def score_run(run: EvalRun, trigger_f1: float | None) -> SkillScore | None:
    """Return the score of a run that has ended: the mean of pass rate and trigger F1. None if no case was decided."""
    figures = [
        one for one, arm in zip((run.summary or {}).get("arms", []), run.arms, strict=True) if arm.kind == "skill"
    ]
    rates = [figure["pass_rate"]["mean"] for figure in figures]
    if not rates or any(rate is None for rate in rates):
        return None
    rate = sum(rates) / len(rates)
    parts = [rate] if trigger_f1 is None else [rate, trigger_f1]
    lows = [figure["pass_rate"]["low"] for figure in figures]
    highs = [figure["pass_rate"]["high"] for figure in figures]
    return SkillScore(
        skill_slug=run.skill,
        skill_digest=run.digest,
        run_id=run.id,
        score=round(100 * sum(parts) / len(parts), 1),
        detail={
            "pass_rate": {"mean": rate, "low": min(lows), "high": max(highs)},
            "cases": max(figure["cases"] for figure in figures),
            "models": [arm.model for arm in run.arms if arm.kind == "skill"],
            "trigger_f1": trigger_f1,
        },
    )


def add_triggers(known: SkillScore | None, slug: str, digest: str, f1: float) -> SkillScore:
    """Return the score of a version with the F1 of its trigger queries, and with its pass rate if that was measured."""
    if known is None or not known.detail.get("pass_rate"):
        detail: JsonObject = {"pass_rate": None, "cases": 0, "models": [], "trigger_f1": f1}
        return SkillScore(skill_slug=slug, skill_digest=digest, run_id="", score=round(100 * f1, 1), detail=detail)
    score = round(50 * (known.detail["pass_rate"]["mean"] + f1), 1)
    return replace(known, created_at=now(), score=score, detail={**known.detail, "trigger_f1": f1})


def measure_triggers(context: Context, variant: Variant) -> float | None:
    """Return the F1 of the skill's own trigger queries among the skills in reach; None if it has none. Blocking."""
    files = {file.path: file.content for file in variant.package.files}
    queries = read_trigger_set({path: files[path] for path in find_eval_paths(files)})
    if not queries.cases:
        return None
    document = SearchDocument.of(variant.skill)
    ranker = context.resources.matcher.with_documents([document])
    return evaluate_triggers(ranker, document, queries.cases).f1
