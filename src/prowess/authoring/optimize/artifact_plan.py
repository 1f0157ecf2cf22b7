"""Optimise an artifact: measure it on its cases, let a method search, and test the result on the held-out ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.splits import held_out_cases, optimizer_cases
from prowess.authoring.optimize.bench import Bench, Score, mean_score
from prowess.authoring.optimize.change import Change, build_candidate
from prowess.authoring.optimize.data import SHARES, check_enough
from prowess.authoring.optimize.module import optimize_module, plan_module
from prowess.authoring.optimize.proposal import OptimizationRequest
from prowess.authoring.optimize.rewrite import rewrite_prompt
from prowess.authoring.optimize.search import PairedScores, Search
from prowess.engine.context import Context
from prowess.skill.model import Skill
from prowess.skill.package import Package


class ArtifactPlan:
    """Optimises the text of a prompt, or a module of DSPy."""

    def __init__(
        self,
        context: Context,
        request: OptimizationRequest,
        skill: Skill,
        package: Package,
        cases: Sequence[EvalCase],
        bench: Bench,
        *,
        on_best: Callable[[Change, float], None],
        on_step: Callable[[], None],
    ) -> None:
        self._context = context
        self._request = request
        self._bench = bench
        self.held_out = held_out_cases(cases, SHARES)
        visible = optimizer_cases(cases, SHARES)
        check_enough(visible, request.artifact)
        self._search = Search(
            skill=skill,
            package=package,
            artifact=request.artifact,
            limits=context.resources.limits,
            data=visible,
            bench=bench,
            base=0.0,
            on_best=on_best,
            on_step=on_step,
        )

    @property
    def best(self) -> tuple[Change, float] | None:
        """The best candidate so far."""
        return self._search.best

    def restore(self, change: Change, score: float) -> None:
        """Set the best candidate to one that was found before an interruption."""
        self._search.best = (change, score)

    async def measure_base(self) -> float:
        """Return the score on the validation cases; keep back what the test will take, and note the failures in training."""
        search, meter = self._search, self._bench.meter
        calls, cost = meter.calls, meter.cost or 0.0
        search.base = mean_score(await self._measure(search.data.validation))
        runs = len(search.data.validation)
        meter.keep_back(
            2 * len(self.held_out.cases) * self._request.repeats,
            calls_per_run=(meter.calls - calls) / runs,
            cost_per_run=((meter.cost or 0.0) - cost) / runs,
        )
        return search.base

    async def search(self) -> None:
        """Search by the method of the request."""
        search, method = self._search, self._request.method
        if method == "rewrite":
            tried = await self._measure(search.data.train)
            failed = [score for score in tried if score.value is not None and score.value < 1.0]
            search.failures = sorted(failed, key=lambda score: score.value or 0.0)
            await rewrite_prompt(search)
            return
        module = plan_module(search.skill, search.artifact, self._request.template)
        await optimize_module(search, module, method, self._context)

    async def test(self, change: Change) -> PairedScores:
        """Run base and candidate side by side, so that a model that changes meanwhile changes for both."""
        search, cases, repeats = self._search, self.held_out.cases, self._request.repeats
        candidate, _ = build_candidate(search.skill, search.package, change, search.limits)
        measure, step = self._bench.measure, search.on_step
        before, after = await asyncio.gather(
            measure(search.skill, search.artifact, cases, repeats=repeats, on_score=step),
            measure(candidate, change.artifact, cases, repeats=repeats, on_score=step),
        )
        mean_score(before)
        mean_score(after)
        return _pair(before, after)

    async def _measure(self, cases: Sequence[EvalCase]) -> list[Score]:
        search = self._search
        return await self._bench.measure(search.skill, search.artifact, cases, on_score=search.on_step)


def _pair(before: Sequence[Score], after: Sequence[Score]) -> PairedScores:
    """Return the pairs of which both could be judged."""
    pairs = [
        (old.value, new.value, old.case.id)
        for old, new in zip(before, after, strict=True)
        if old.value is not None and new.value is not None
    ]
    return PairedScores(
        base=tuple(old for old, _, _ in pairs),
        candidate=tuple(new for _, new, _ in pairs),
        clusters=tuple(name for _, _, name in pairs),
    )
