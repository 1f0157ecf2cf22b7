"""The answers of one run: which to get, getting several at once, and how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from prowess.authoring.evals.cache import ResultLog, cache_key, rubric_digests
from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.plan import EvalPlan
from prowess.authoring.evals.results import CaseResult
from prowess.authoring.evals.runner import STOPPING, ActiveArm, CaseRunner
from prowess.authoring.evals.variant import Subject
from prowess.authoring.task import ProgressListener, TaskProgress
from prowess.engine.context import Context
from prowess.errors import ProwessError


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One answer to get: a case in an arm."""

    position: int
    arm: int
    """The position of the arm."""
    case: EvalCase
    repeat: int
    key: str


def make_items(
    plan: EvalPlan,
    subject: Subject,
    arms: Sequence[ActiveArm],
    cases: Sequence[EvalCase],
    judge: str,
    seconds: float | None,
) -> list[Item]:
    """Return everything to ask, the arms of a case one after the other, so that a run that stops early has pairs. Blocking."""
    suite, repeats = subject.suite, plan.repeats or subject.suite.trials
    found: list[Item] = []
    digests = [arm.content_digest for arm in arms]
    for case in cases:
        rubrics = rubric_digests(subject.variant.context, subject.variant.skill, case)
        for repeat in range(1, repeats + 1):
            for index, active in enumerate(arms):
                if active.arm.kind == "without" and case.inputs is not None:
                    continue
                key = cache_key(
                    skill=digests[index],
                    case=case,
                    rubrics=rubrics,
                    model=active.arm.model,
                    judge=judge,
                    repeat=repeat,
                    threshold=suite.pass_threshold,
                    seconds=seconds,
                )
                found.append(Item(position=len(found), arm=index, case=case, repeat=repeat, key=key))
    return found


class Workload:
    """Gets the answers of one run, several at once."""

    def __init__(
        self,
        context: Context,
        runner: CaseRunner,
        arms: Sequence[ActiveArm],
        items: Sequence[Item],
        on_progress: ProgressListener,
    ) -> None:
        self._context = context
        self._runner = runner
        self._arms = arms
        self._items = items
        self._on_progress = on_progress
        self._results: dict[int, CaseResult] = {}
        self._passed = 0
        self._cost: float | None = None

    async def do(
        self, run_id: str, cached: Mapping[str, CaseResult], at_once: int, *, own: Mapping[int, CaseResult]
    ) -> None:
        """Get all answers, except those that the run has `own` results for, by position.

        Raise the first error that every further case would have too; what was there by then is stored.
        """
        log = ResultLog(self._context, run_id)
        for position, result in own.items():
            self._note(position, result)
        waiting = iter([item for item in self._items if item.position not in own])
        stopped: list[ProwessError] = []

        async def work() -> None:
            for item in waiting:
                if stopped:
                    return
                try:
                    result = _reused(cached.get(item.key), item) or await self._runner.run(
                        self._arms[item.arm], item.arm, item.case, item.repeat
                    )
                except STOPPING as error:
                    stopped.append(error)
                    return
                self._note(item.position, result)
                await log.add(item.position, item.key, result)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once, len(self._items))):
                    group.create_task(work())
        except* ProwessError as errors:
            stopped += [exception for exception in errors.exceptions if isinstance(exception, ProwessError)]
        finally:
            await log.flush()
        if stopped:
            raise stopped[0]

    def progress(self) -> TaskProgress:
        """Return how far the run is. Cases with an error count as failed."""
        return TaskProgress(
            total=len(self._items), done=self._passed, failed=len(self._results) - self._passed, cost=self._cost
        )

    def _note(self, position: int, result: CaseResult) -> None:
        self._results[position] = result
        self._passed += bool(result.passed)
        cost = None if result.cached else result.whole_cost
        if cost is not None:
            self._cost = (self._cost or 0.0) + cost
        self._on_progress(self.progress())

    def in_order(self) -> tuple[CaseResult, ...]:
        """Return the results so far, in the order of the items."""
        return tuple(self._results[position] for position in sorted(self._results))


def _reused(found: CaseResult | None, item: Item) -> CaseResult | None:
    if found is None:
        return None
    return replace(found, case=item.case.id, title=item.case.name, arm=item.arm, repeat=item.repeat, cached=True)
