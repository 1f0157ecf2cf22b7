"""The answers of one run: which to get, getting several at once, how far it is, and storing them as they come.

A second run with the same skill, cases and models asks no model, and one that was interrupted continues where it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import sqlalchemy as sa

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.plan import EvalPlan
from prowess.authoring.evals.results import CaseResult
from prowess.authoring.evals.runner import STOPPING, ActiveArm, CaseRunner
from prowess.authoring.evals.variant import Subject
from prowess.authoring.task import ProgressListener, TaskProgress
from prowess.engine.context import Context
from prowess.engine.records import read_rows
from prowess.engine.registry import list_used
from prowess.errors import ProwessError
from prowess.prompts.registry import entry_digest
from prowess.skill.model import Skill
from prowess.storage import evals
from prowess.storage.evals import StoredResult
from prowess.threads import offload, offload_to_completion


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

    @cache
    def used_digests(index: int, artifact: str) -> list[str]:
        """Return the digests of the prompts and rubrics that a run takes from the registry."""
        variant = arms[index].variant
        return [entry.digest for entry in list_used(variant.context, variant.skill, (artifact,) if artifact else ())]

    for case in cases:
        rubrics = rubric_digests(subject.variant.context, subject.variant.skill, case)
        for repeat in range(1, repeats + 1):
            for index, active in enumerate(arms):
                if active.arm.kind == "without" and case.inputs is not None:
                    continue
                key = cache_key(
                    skill=digests[index],
                    case=case,
                    entries=rubrics if case.inputs is None else [*rubrics, *used_digests(index, case.artifact)],
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
        self._on_progress(self.progress())
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
    return replace(found, case=item.case.id, title=item.case.title, arm=item.arm, repeat=item.repeat, cached=True)


GRADER_VERSION = "1"
"""Raise it when the same output would get another grade, or the same case another prompt."""

FLUSH_RESULTS = 50
FLUSH_SECONDS = 0.5
"""Results are stored when there are this many, or the oldest is this old. A process that dies loses at most those."""


def cache_key(
    *,
    skill: str,
    case: EvalCase,
    entries: Sequence[str],
    model: str,
    judge: str,
    repeat: int,
    threshold: float,
    seconds: float | None,
) -> str:
    """Return the key of a result: everything that decides it.

    `skill` is '' without a skill, and `entries` are the digests of prompts and rubrics outside the skill.
    """
    fields = [GRADER_VERSION, skill, case.digest, list(entries), model, judge, repeat, threshold, seconds]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def rubric_digests(context: Context, skill: Skill, case: EvalCase) -> list[str]:
    """Return the digests of the rubrics that a case names, as they are now; '' for one that is missing. Blocking."""
    found: list[str] = []
    for check in case.checks:
        if check.type == "rubric":
            name, version = str(check.settings["rubric"]), str(check.settings.get("version") or "") or None
            try:
                rubric = context.resources.registry.rubric(
                    name, version, skill=skill, organization=context.actor.organization
                )
            except ProwessError:
                found.append("")
            else:
                found.append(entry_digest(rubric))
    return found


async def find_cached(context: Context, keys: Sequence[str]) -> dict[str, CaseResult]:
    """Return the results of earlier runs of the same person, by key. Errors are never among them."""

    def read(connection: sa.Connection) -> dict[str, CaseResult]:
        found = evals.find_cached(connection, context.actor.owner, keys)
        return {key: CaseResult.of(result) for key, result in found.items()}

    return await offload(read_rows, context, read, {})


class ResultLog:
    """Stores the results of a run in batches. Secrets are removed first."""

    def __init__(self, context: Context, run_id: str) -> None:
        self._context = context
        self._run_id = run_id
        self._lock = asyncio.Lock()
        self._pending: list[tuple[int, str, CaseResult]] = []
        self._since = 0.0

    async def add(self, position: int, key: str, result: CaseResult) -> None:
        """Keep a result, and store it soon. One with an error is stored without its key, so that it is not used again."""
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append((position, key if result.passed is not None else "", result))
        if len(self._pending) >= FLUSH_RESULTS or time.monotonic() - self._since >= FLUSH_SECONDS:
            await self.flush()

    async def flush(self) -> None:
        """Store what is pending. Runs to its end even if the caller is cancelled."""
        async with self._lock:
            pending, self._pending = self._pending, []
            if pending:
                await offload_to_completion(self._write, pending)

    def _write(self, pending: Sequence[tuple[int, str, CaseResult]]) -> None:
        redact = self._context.resources.runner.redact
        rows = [
            StoredResult(position=position, key=key, result=redact(result.as_json()))
            for position, key, result in pending
        ]
        with self._context.resources.records().write() as connection:
            evals.add_results(connection, self._run_id, self._context.actor.owner, rows)
