"""Evaluate skills for an actor: run cases, keep the results, compare runs, and score skills."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial

import sqlalchemy as sa

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.plan import EvalPlan, stored_plan
from prowess.authoring.evals.results import BEAT_SECONDS, Arm, CaseResult, EvalRun, state_of, to_run
from prowess.authoring.evals.runner import ActiveArm, CaseRunner, read_limits, read_system_prompt
from prowess.authoring.evals.splits import assign_splits
from prowess.authoring.evals.summary import add_triggers, compare_arms, measure_triggers, score_run, summarize
from prowess.authoring.evals.variant import Subject, Variant, find_subject, find_version
from prowess.authoring.evals.workload import Workload, find_cached, make_items
from prowess.authoring.task import ProgressListener, ignore_progress
from prowess.engine.context import Context
from prowess.engine.records import find_by_id, read_rows
from prowess.engine.scores import read_scores
from prowess.errors import Conflict, Invalid, NoModel, NotFound, Problem, ProwessError, Refused
from prowess.llm.model import Model
from prowess.run.call import make_call, start_run
from prowess.run.request import RunRequest, SharedSpendLimit
from prowess.skill.kinds import Function, JsonObject
from prowess.storage import evals as storage
from prowess.storage.clock import now
from prowess.storage.evals import EvalRunRow, RunState
from prowess.storage.scores import SkillScore
from prowess.threads import offload, offload_to_completion

_EVALS_HELP = """Create evals/cases.yaml in the folder of the skill:
  cases:
    - {}
      checks: [{{type: contains, value: what a good {} has}}]"""
_ASKED = "prompt: a message that needs this skill", "answer"
_CALLED = "inputs: {a parameter: its value}", "result"


class Evals:
    """The evaluations of the actor; an administrator sees those of the whole organization."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(
        self,
        plan: EvalPlan,
        *,
        models: Sequence[Model] = (),
        evaluation_model: Model | None = None,
        on_progress: ProgressListener = ignore_progress,
        run_id: str = "",
        exclusive: bool = True,
    ) -> EvalRun:
        """Run all cases of a plan and return the results, including cases that failed or had an error.

        `models` and `evaluation_model` take the place of those that the plan names. Raise `Invalid` if the eval files cannot be
        run, and errors that every case would have, such as `ApprovalRequired` or `SpendExceeded`. Results that were there by
        then are kept, and the next run does not ask for them again.

        With `run_id`, the run gets this id, and continues if it was started before: see `resume`. Without `exclusive`, the caller
        knows that no other process does it.
        """
        self._context.actor.require("skills.run")
        subject = await offload(find_subject, self._context, plan)
        cases = _chosen_cases(subject, plan)
        judge: Model | str = evaluation_model or plan.evaluation_model
        arms = await self._arms(subject, plan, cases, models or plan.models or ("",))
        run_id = run_id or str(uuid.uuid4())
        seconds = plan.timeout or subject.suite.timeout_seconds
        judge_name = judge if isinstance(judge, str) else judge.name
        judge_name = judge_name or self._context.resources.model_client().evaluation
        items = await offload(make_items, plan, subject, arms, cases, judge_name, seconds)
        row = EvalRunRow(
            id=run_id,
            organization_id=self._context.actor.organization,
            user_id=self._context.actor.user,
            skill_slug=subject.variant.skill.slug,
            skill_digest=subject.variant.skill.digest,
            total=len(items),
            plan=plan.model_dump(mode="json"),
            arms=[asdict(arm.arm) for arm in arms],
        )
        own = await offload(self._begin, row, {item.position: item.key for item in items}, exclusive=exclusive)
        hint = "Continue with a higher limit: `--max-spend N`. Results so far are reused."
        spend_limit = (
            None if plan.max_spend is None else SharedSpendLimit(name=f"eval:{run_id}", limit=plan.max_spend, hint=hint)
        )
        runner = CaseRunner(
            subject.suite, run_id=run_id, evaluation_model=judge, seconds=seconds, spend_limit=spend_limit
        )
        work = Workload(self._context, runner, arms, items, on_progress)
        state: RunState = "stopped"
        beating = asyncio.create_task(self._beat(run_id, work))
        try:
            found = await find_cached(self._context, [item.key for item in items]) if plan.cache else {}
            await work.do(run_id, found, plan.concurrency or subject.suite.concurrency, own=own)
            state = "done"
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            ended = await offload_to_completion(self._end, row, arms, work, state, subject.suite.problems)
        await self._score(plan, subject, ended)
        return ended

    async def resume(self, run: str, *, on_progress: ProgressListener = ignore_progress) -> EvalRun:
        """Continue a run that was interrupted or stopped, and keep its results so far. Return a finished one unchanged.

        Raise `Conflict` if a process is running it, or if the skill, its cases or the models have changed since.
        """
        found, plan = await offload(lambda: (self._get(run), self._read_plan(run)))
        if found.state == "done":
            return found
        if found.user != self._context.actor.user:
            raise Refused("Only the person who started an evaluation can continue it.", hint="Start another one.")
        return await self.run(plan, on_progress=on_progress, run_id=found.id)

    async def cases(self, plan: EvalPlan) -> list[EvalCase]:
        """Return the cases that a plan chooses, in order."""
        self._context.actor.require("skills.run")
        return _chosen_cases(await offload(find_subject, self._context, plan), plan)

    async def list(self, *, skill: str = "", limit: int = 50, before: tuple[str, str] | None = None) -> list[EvalRun]:
        """Return runs without their results, newest first; with `before`, those older than that time and id."""
        organization, user = self._scope()
        own = partial(storage.list_runs, organization_id=organization, user_id=user)
        read = partial(own, skill=skill, before=before, limit=limit)
        return [to_run(row) for row in await offload(read_rows, self._context, read, [])]

    async def count(self, *, skill: str = "") -> int:
        """Return the number of runs."""
        organization, user = self._scope()
        count = partial(storage.count_runs, organization_id=organization, user_id=user, skill=skill)
        return await offload(read_rows, self._context, count, 0)

    async def get(self, run: str) -> EvalRun:
        """Return a run with its results, by its id or at least its first four characters."""
        return await offload(self._get, run)

    async def find(self, run_id: str = "") -> EvalRun:
        """Return a run by its id, or the newest of all, of a skill (`SKILL`) or of one of its versions (`SKILL@VERSION`)."""
        if run_id:
            with suppress(NotFound):
                return await self.get(run_id)
        slug, _, version = run_id.partition("@")

        def latest() -> EvalRun:
            organization, user = self._scope()
            digest = find_version(self._context, slug, version).skill.digest if version else ""
            newest = partial(storage.list_runs, organization_id=organization, user_id=user, limit=1)
            rows = read_rows(self._context, partial(newest, skill=slug, digest=digest), [])
            if rows:
                return self._get(rows[0].id)
            if not run_id:
                raise NotFound("There is no evaluation yet.", hint="`prowess eval run SLUG` starts one.")
            raise NotFound(
                f"No evaluation {run_id[:80]!r}.",
                hint=f"`prowess eval list` shows all; `prowess eval run {slug[:80]}` starts one.",
            )

        return await offload(latest)

    async def compare(self, before: str = "", after: str = "") -> JsonObject:
        """Return the differences between two runs, on the cases that both have, for each pair of arms with the skill.

        Both are named as in `find`. Without `after`, the newest run of the same skill is compared with `before`, or with
        the run before it. Arms with the same model are compared; if there is none, the first of each.
        """
        first = await self.find(before)
        second = await self.find(after or first.skill)
        if not after and first.id == second.id:
            earlier = await self.list(skill=first.skill, limit=1, before=(first.created_at, first.id))
            if not earlier:
                raise NotFound(
                    f"{first.skill} has one evaluation.", hint=f"`prowess eval run {first.skill}` starts another."
                )
            first = await self.get(earlier[0].id)
        # Resampling thousands of cases takes a second.
        compared = await offload(compare_arms, first, second)
        if not any(comparison["cases"] for comparison in compared):
            raise Invalid("The two runs have no case in common.", hint="Compare runs of the same eval files.")
        runs = [{"id": run.id, "skill": run.skill, "digest": run.digest} for run in (first, second)]
        return {"before": runs[0], "after": runs[1], "comparisons": compared}

    async def scores(self) -> dict[tuple[str, str], SkillScore]:
        """Return the scores of skills by slug and digest. Each is valid for exactly these bytes."""
        self._context.actor.require("skills.read")
        return await offload(read_scores, self._context)

    async def score_triggers(self, measured: Mapping[tuple[str, str], float]) -> None:
        """Store the F1 of skills' own trigger queries, by slug and digest, as part of their scores."""
        self._context.actor.require("skills.run")
        organization = self._context.actor.organization

        def write() -> None:
            with self._context.resources.records().write() as connection:
                found = storage.read_scores(connection, organization, {digest for _, digest in measured})
                known = {(score.skill_slug, score.skill_digest): score for score in found}
                for (slug, digest), f1 in measured.items():
                    row = add_triggers(known.get((slug, digest)), slug, digest, f1)
                    storage.put_score(connection, replace(row, organization_id=organization))

        await offload(write)

    async def _arms(
        self, subject: Subject, plan: EvalPlan, cases: Sequence[EvalCase], models: Sequence[Model | str]
    ) -> list[ActiveArm]:
        variants: list[tuple[str, Variant]] = []
        if plan.against:
            slug = subject.variant.skill.slug
            variants.append(("version", await offload(find_version, self._context, slug, plan.against)))
        if plan.without:
            variants.append(("without", subject.variant))
        variants.append(("skill", subject.variant))
        messages = any(case.inputs is None for case in cases)
        if plan.without and not messages:
            raise Invalid(
                "No case has a message, so there is nothing to ask without the skill.",
                hint="Compare with an older version: `--against VERSION`.",
            )
        seconds = plan.timeout or subject.suite.timeout_seconds

        def prepare(kind: str, variant: Variant, model: Model | str, name: str) -> ActiveArm:
            with_skill = kind != "without"
            skill = variant.skill
            arm = Arm(
                kind="version" if kind == "version" else "without" if kind == "without" else "skill",
                model=name,
                digest=skill.digest if with_skill else "",
                version=variant.version,
            )
            return ActiveArm(
                arm=arm,
                variant=variant,
                model=model,
                policy=self._context.read_policy(),
                limits=read_limits(variant, seconds),
                system=read_system_prompt(variant) if with_skill and messages else "",
            )

        arms: list[ActiveArm] = []
        for model in dict.fromkeys(models):
            name = await self._model_name(subject.variant, model, required=messages)
            arms += [await offload(prepare, kind, variant, model, name) for kind, variant in variants]
        return arms

    async def _model_name(self, variant: Variant, model: Model | str, *, required: bool) -> str:
        """Return the full name of a model, which the default one has too. '' if there is none and none is needed."""
        context = variant.context
        request = RunRequest(slug=variant.skill.slug, model=model)
        limits, needs = read_limits(variant, None), context.resources.runner.facts(variant.skill).needs
        run = start_run(
            request, variant.skill, artifacts=(), inputs={}, limits=limits, needs=needs, actor=context.actor
        )
        try:
            found = await context.resources.model_client().model_for(make_call(run, variant.skill.artifacts[0], {}))
        except NoModel:
            if required or model:
                raise
            return ""
        return found.name

    async def _score(self, plan: EvalPlan, subject: Subject, run: EvalRun) -> None:
        """Store the score of a complete run of the skill's own cases."""
        if not subject.own or plan.cases or plan.split not in (None, "held_out") or run.errors:
            return

        def write() -> None:
            scored = score_run(run, measure_triggers(self._context, subject.variant))
            if scored is not None:
                row = replace(scored, organization_id=self._context.actor.organization)
                with self._context.resources.records().write() as connection:
                    storage.put_score(connection, row)

        await offload(write)

    def _begin(self, row: EvalRunRow, keys: Mapping[int, str], *, exclusive: bool) -> dict[int, CaseResult]:
        """Store a run that starts. If it was started before, return the results that it has, by position."""
        again = f"Start another one: `prowess eval run {row.skill_slug}`. Results so far are reused."
        with self._context.resources.records().write() as connection:
            known = storage.get_run(connection, self._context.actor.owner, row.id)
            if known is None:
                storage.add_run(connection, row)
                return {}
            if exclusive and state_of(known) == "running":
                raise Conflict(
                    f"The evaluation {row.id[:8]} is running.", hint="`prowess eval list` shows its progress."
                )
            if (known.skill_digest, known.arms, known.total) != (row.skill_digest, row.arms, row.total):
                raise Conflict(
                    "The skill, its cases or the models have changed since the evaluation started.", hint=again
                )
            if not storage.claim_run(connection, known):
                raise Conflict(f"Another process is continuing the evaluation {row.id[:8]}.", hint=again)
            stored = storage.keep_results(connection, row.id, keys)
        return {position: CaseResult.of(told) for position, told in stored.items()}

    async def _beat(self, run_id: str, work: Workload) -> None:
        """Show that the run is alive, and how far it is, until this is cancelled."""

        def write() -> None:
            progress = work.progress()
            values = {"finished_at": now(), "done": progress.done + progress.failed, "cost": progress.cost}
            with self._context.resources.records().write() as connection:
                storage.change_run(connection, run_id, values)

        while True:
            with suppress(ProwessError):  # the next one may succeed
                await offload_to_completion(write)
            await asyncio.sleep(BEAT_SECONDS)

    def _read_plan(self, run: str) -> EvalPlan:
        organization, user = self._scope()
        with self._context.resources.records().read() as connection:
            return stored_plan(f"The plan of {run}", storage.find_runs(connection, organization, user, run)[0].plan)

    def _end(
        self, row: EvalRunRow, arms: Sequence[ActiveArm], work: Workload, state: RunState, problems: Sequence[Problem]
    ) -> EvalRun:
        results = work.in_order()
        progress = work.progress()
        values: JsonObject = {
            "state": state,
            "finished_at": now(),
            "done": progress.done + progress.failed,
            "failed": sum(result.passed is False for result in results),
            "errors": sum(result.passed is None for result in results),
            "cost": progress.cost,
            # Cases that were skipped and checks that were left out are part of what the figures mean.
            "summary": {
                **summarize([arm.arm for arm in arms], results),
                "problems": [asdict(problem) for problem in problems],
            },
        }
        with self._context.resources.records().write() as connection:
            storage.change_run(connection, row.id, values)
        return to_run(replace(row, **values), results)

    def _get(self, run_id: str) -> EvalRun:
        organization, user = self._scope()

        def find(connection: sa.Connection) -> list[tuple[EvalRunRow, list[JsonObject]]]:
            rows = storage.find_runs(connection, organization, user, run_id)
            return [(row, storage.read_results(connection, row.id) if len(rows) == 1 else []) for row in rows]

        row, results = find_by_id(self._context, run_id, find, noun="evaluation", listed_by="prowess eval list")
        return to_run(row, tuple(CaseResult.of(result) for result in results))

    def _scope(self) -> tuple[str, str | None]:
        actor = self._context.actor
        actor.require("skills.read")
        return actor.organization, actor.visible_user


_FIX_EVALS = "Correct the file, then run the command again."


def _chosen_cases(subject: Subject, plan: EvalPlan) -> list[EvalCase]:
    """Return the cases that the plan chooses; raise `Invalid` if there are none, or the files cannot be run."""
    suite, slug = subject.suite, subject.variant.skill.slug
    if not suite.is_usable:
        if suite.cases or any(problem.code != "eval-shape" for problem in suite.problems):
            raise Invalid(f"The evals of {slug!r} are not valid.", hint=_FIX_EVALS, problems=suite.problems)
        runs_code = any(isinstance(artifact, Function) for artifact in subject.variant.skill.artifacts)
        hint = _EVALS_HELP.format(*(_CALLED if runs_code else _ASKED))
        raise NotFound(f"The skill {slug!r} has no eval cases.", hint=hint)
    cases = list(suite.cases)
    if unknown := [name for name in plan.cases if name not in {case.id for case in cases}]:
        raise NotFound(f"No case {unknown[0][:80]!r}.", hint=f"Cases: {', '.join(case.id for case in cases[:20])}.")
    if plan.split is not None:
        splits = assign_splits(cases)
        cases = [case for case, split in zip(cases, splits, strict=True) if split == plan.split]
    cases = [case for case in cases if not plan.cases or case.id in plan.cases]
    if not cases:
        raise NotFound(f"No case of {slug!r} is in the set {plan.split!r}.", hint="Omit `--split`, or add cases.")
    return cases
