"""The score of a skill: how often its own cases pass, and how well its queries trigger it, bound to its exact bytes.

Only cases and queries that are part of the skill's files count, so that the digest covers them too. A skill that has changed
has no score until it is evaluated again.
"""

from __future__ import annotations

from dataclasses import replace

from prowess.authoring.evals.results import EvalRun
from prowess.authoring.evals.variant import Variant
from prowess.catalog.store import SearchDocument
from prowess.engine.context import Context
from prowess.match.trigger_eval import evaluate_triggers
from prowess.skill.evals import find_eval_paths, read_trigger_set
from prowess.skill.kinds import JsonObject
from prowess.storage.clock import now
from prowess.storage.scores import SkillScore


def score_run(run: EvalRun, trigger_f1: float | None) -> SkillScore | None:
    """Return the score of a run that has ended: the mean of pass rate and trigger F1. None if no case was decided."""
    figures = [
        one for one, arm in zip((run.summary or {}).get("arms", []), run.arms, strict=True) if arm.kind == "skill"
    ]
    rates = [one["pass_rate"]["mean"] for one in figures]
    if not rates or any(rate is None for rate in rates):
        return None
    rate = sum(rates) / len(rates)
    parts = [rate] if trigger_f1 is None else [rate, trigger_f1]
    lows = [one["pass_rate"]["low"] for one in figures]
    highs = [one["pass_rate"]["high"] for one in figures]
    return SkillScore(
        skill_slug=run.skill,
        skill_digest=run.digest,
        run_id=run.id,
        score=round(100 * sum(parts) / len(parts), 1),
        detail={
            "pass_rate": {"mean": rate, "low": min(lows), "high": max(highs)},
            "cases": max(one["cases"] for one in figures),
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
