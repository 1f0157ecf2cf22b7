"""The search for a better candidate: its cases, from eval files and traces of live runs, and the best that it has found.

A search gets `OptimizerCases`, which cannot hold a held-out case.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from prowess.authoring.evals.case import Check, EvalCase
from prowess.authoring.evals.formats.suite import find_suite_paths, read_suite
from prowess.authoring.evals.splits import HeldOut, OptimizerCases, Shares
from prowess.authoring.optimize.bench import Bench, Score, mean_score
from prowess.authoring.optimize.change import Change, build_candidate
from prowess.authoring.optimize.decision import MIN_HELD_OUT
from prowess.engine.engine import Engine
from prowess.errors import Invalid, Refused
from prowess.run.allowance import WITHHELD
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.storage.proposals import EVAL_SESSION, TRIAL_SESSION
from prowess.threads import offload

SHARES = Shares(train=0.35, validation=0.25, held_out=0.4)
"""More is held out than for an evaluation: what is not proven there is refused."""
MIN_TRAIN = 10
MIN_VALIDATION = 10
MAX_TRACES = 500

_REDACTED = "[redacted"


async def read_cases(
    engine: Engine, skill: Skill, artifact: str, *, metric: str, file: str, traces: bool, days: float
) -> list[EvalCase]:
    """Return the cases for an artifact, with the checks of the metric. Those of its fallback are its cases, too.

    Raise `Invalid` if an eval file has errors, and `Refused` if there is nothing to measure by.
    """
    names = [name for name in (artifact, skill.find_artifact(artifact).fallback) if name]
    cases = await _from_files(engine, skill, names, file)
    if traces and metric != "exact":
        # What a live run answered is not necessarily right, so it is not an answer to compare with.
        known = {case.inputs_digest for case in cases}
        cases += [trace for trace in await _from_traces(engine, skill, names, days) if trace.inputs_digest not in known]
    found = [with_metric(case, metric) for case in cases]
    asserted = bool(skill.find_artifact(artifact).assertions)
    measurable = [case for case in found if case.checks or asserted]
    if found and not measurable:
        raise Refused(
            f"The outputs of {artifact!r} cannot be scored: it has no assertions, and its cases have no checks.",
            hint="Add assertions or checks, or use `--metric exact` (cases with `expected`) or `--metric rubric:ID`.",
        )
    return measurable


def with_metric(case: EvalCase, metric: str) -> EvalCase:
    """Return the case with the check that a named metric is; unchanged if the checks and assertions decide."""
    if metric == "assertions":
        return case
    if metric == "exact":
        if case.expected is None:
            return replace(case, checks=())
        return replace(case, checks=(Check(type="normalized" if isinstance(case.expected, str) else "json_subset"),))
    return replace(case, checks=(Check(type="rubric", settings={"rubric": metric.removeprefix("rubric:")}),))


async def _from_files(engine: Engine, skill: Skill, names: Sequence[str], file: str) -> list[EvalCase]:
    if file:
        suite = await offload(read_suite, Path(file), skill.slug)
    else:
        paths = find_suite_paths(entry.path for entry in skill.manifest)
        address = f"{skill.scope}:{skill.slug}"
        files = {path: await engine.skills.read_file(address, path) for path in paths}
        if not files:
            return []
        suite = await offload(read_suite, files, skill.slug)
    errors = [problem for problem in suite.problems if problem.severity == "error"]
    if errors and (file or suite.cases):
        raise Invalid(f"The evals of {skill.slug!r} have errors: {errors[0].message}", problems=errors)
    return [
        replace(case, artifact=names[0])
        for case in suite.cases
        if case.inputs is not None and case.artifact in ("", *names)
    ]


async def _from_traces(engine: Engine, skill: Skill, names: Sequence[str], days: float) -> list[EvalCase]:
    """Return the newest live runs as cases. Secrets were removed when they were recorded; runs that lack a value are skipped."""
    newest: deque[EvalCase] = deque(maxlen=MAX_TRACES)
    for name in names:
        async for row in engine.traces.export("jsonl", skill=skill.slug, artifact=name, days=days):
            session = str(row["session_id"])
            # Measurements may have run held-out cases, which must not come back as training data.
            if session.startswith((TRIAL_SESSION, EVAL_SESSION)) or row["status"] not in ("ok", "failed"):
                continue
            inputs = cast("JsonObject", row["inputs"])
            if not inputs or _is_incomplete(inputs):
                continue
            passed = row["status"] == "ok" and row["assertions_run"] == row["assertions_passed"]
            expected = row["raw_output"] if passed and row["raw_output"] else None
            newest.append(EvalCase(id=f"trace-{row['id']}", inputs=inputs, artifact=names[0], expected=expected))
    return list({case.inputs_digest: case for case in newest}.values())


def _is_incomplete(value: Any) -> bool:
    if isinstance(value, str):
        return value == WITHHELD or _REDACTED in value
    if isinstance(value, dict):
        return any(map(_is_incomplete, cast("JsonObject", value).values()))
    return any(map(_is_incomplete, cast("list[Any]", value))) if isinstance(value, list) else False


def check_enough(cases: OptimizerCases, artifact: str) -> None:
    """Raise `Refused` if there are too few cases to search with or to prove anything by."""
    have = (len(cases.train), len(cases.validation), cases.held_out_count)
    need = (MIN_TRAIN, MIN_VALIDATION, MIN_HELD_OUT)
    refuse_too_few(f"optimize {artifact!r}", have, need, "cases")


def refuse_too_few(purpose: str, have: Sequence[int], need: Sequence[int], what: str) -> None:
    """Raise `Refused` if one of the sets is too small; say how many are needed and how to get them."""
    shares = (SHARES.train, SHARES.validation, SHARES.held_out)
    missing = max(math.ceil(max(n - h, 0) / s) for h, n, s in zip(have, need, shares, strict=True))
    if missing <= 0:
        return
    names = ("for training", "for validation", "held out")
    counts = ", ".join(f"{h} {name} ({n} needed)" for h, n, name in zip(have, need, names, strict=True))
    where = "the eval cases in evals/" if what == "cases" else "evals/triggers.json"
    more = ", or let people run the skill: inputs of live runs are used too" if what == "cases" else ""
    raise Refused(
        f"Too few {what} to {purpose}: {counts}.",
        hint=f"Add about {missing} {what} to {where}{more}.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedScores:
    """The scores of base and candidate for the same cases and repeats, and the case of each."""

    base: tuple[float, ...]
    candidate: tuple[float, ...]
    clusters: tuple[str, ...]


class Plan(Protocol):
    """One way to optimize: how the base is measured, how candidates are found, and how one is tested at the end."""

    held_out: HeldOut

    @property
    def best(self) -> tuple[Change, float] | None:
        """The best candidate so far, with its score on the validation cases."""
        ...

    def restore(self, change: Change, score: float) -> None:
        """Set the best candidate to one that was found before an interruption."""
        ...

    async def measure_base(self) -> float:
        """Return the score of the skill as it is on the validation cases."""
        ...

    async def search(self) -> None:
        """Look for better candidates until the budget is used. May be cancelled at any time; the best so far stays."""
        ...

    async def test(self, change: Change) -> PairedScores:
        """Score base and candidate on the held-out cases."""
        ...


@dataclass(slots=True, kw_only=True)
class Search:
    """One search: the skill, the data, the bench to measure on, and the best change so far."""

    skill: Skill
    package: Package
    artifact: str
    limits: Limits
    data: OptimizerCases
    bench: Bench
    base: float
    """The score of the skill itself on the validation cases."""
    on_best: Callable[[Change, float], None]
    on_step: Callable[[], None]
    best: tuple[Change, float] | None = None
    failures: list[Score] = field(default_factory=list[Score])
    """The training cases that the skill itself did worst on."""

    @property
    def best_score(self) -> float:
        """The score to beat on the validation cases."""
        return self.best[1] if self.best else self.base

    @property
    def is_over(self) -> bool:
        """True if the budget of the search is used up, or nothing better is possible."""
        return bool(self.bench.meter.spent) or self.best_score >= 1.0

    def offer(self, change: Change, score: float) -> bool:
        """Keep a candidate if it is better than all before; return whether it is."""
        if score <= self.best_score:
            return False
        self.best = (change, score)
        self.on_best(change, score)
        return True

    async def try_out(self, change: Change, artifact: str) -> tuple[float, list[Score]] | None:
        """Measure a candidate on the validation cases, and keep it if it is better; None if it is not a valid skill."""
        try:
            skill, _ = build_candidate(self.skill, self.package, change, self.limits)
        except Invalid:
            return None
        scores = await self.bench.measure(skill, artifact, self.data.validation, on_score=self.on_step)
        score = mean_score(scores)
        self.offer(change, score)
        return score, scores
