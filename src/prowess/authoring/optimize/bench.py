"""Measure a version of a skill on cases, whether it is stored or only a candidate.

A candidate is text of a model that nobody has accepted. It is sent to the model that it is measured with, and to nothing
else: only prompts and modules without tools are measured, outside any session. The traces of measurements are marked, so
that they are neither data for the next optimization nor live runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.checks import GradeContext, RunFacts, grade
from prowess.authoring.optimize.proposal import Meter
from prowess.engine.context import Context
from prowess.errors import (
    AnswerUnusable,
    Invalid,
    NotFound,
    OutputInvalid,
    ProwessError,
    Refused,
    RunFailed,
    TimedOut,
    Unavailable,
)
from prowess.llm.model import Model
from prowess.run.allowance import read_allowance
from prowess.run.assertions.evaluation import AssertionRunner
from prowess.run.call import Call, Output, Run, Verdict, make_call, start_run
from prowess.run.request import RunRequest, SharedSpendLimit
from prowess.run.result import RunResult
from prowess.run.selection import normalize_inputs
from prowess.skill.kinds import DspyModule, JsonObject
from prowess.skill.model import Skill
from prowess.storage.proposals import TRIAL_SESSION
from prowess.threads import offload

AT_ONCE = 4
"""Runs at the same time."""
MAX_UNGRADED = 0.2
"""The share of outputs without a grade, because a judge failed, above which a measurement is worth nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How good the output for one case was, from 0 to 1, and what was wrong with it. None if it could not be judged."""

    case: EvalCase
    value: float | None
    feedback: str = ""
    output: str = ""


def mean_score(scores: Sequence[Score]) -> float:
    """Return the mean of the outputs that could be judged; raise `RunFailed` if too many could not."""
    values = [score.value for score in scores if score.value is not None]
    if len(scores) - len(values) > MAX_UNGRADED * len(scores):
        why = next((score.feedback for score in scores if score.value is None), "")
        raise RunFailed(
            f"{len(scores) - len(values)} of {len(scores)} outputs could not be judged: {why}",
            hint="Check the models with `--model` and `--evaluation-model`.",
        )
    return fmean(values) if values else 0.0


class Bench:
    """Runs artifacts on cases and grades the outputs. Everything counts against one meter and one spending limit."""

    def __init__(
        self, context: Context, *, label: str, meter: Meter, model: Model | str = "", evaluation_model: Model | str = ""
    ) -> None:
        self._context = context
        self._session = f"{TRIAL_SESSION}{label}"
        self.meter = meter
        self._model = model
        self._evaluation_model = evaluation_model
        self._room = asyncio.Semaphore(AT_ONCE)
        limit = meter.budget.usd
        self._spend_limit = (
            None if limit is None else SharedSpendLimit(name=self._session, limit=limit, hint="Raise `--budget-usd`.")
        )

    async def measure(
        self,
        skill: Skill,
        artifact: str,
        cases: Sequence[EvalCase],
        *,
        repeats: int = 1,
        on_score: Callable[[], None] = lambda: None,
    ) -> list[Score]:
        """Return a score for each case and repeat, in order; the repeats of a case follow each other.

        An output that fails is a low score. An error that says nothing about the skill, such as a missing model or a
        spending limit, is raised.
        """

        async def one(case: EvalCase) -> Score:
            async with self._room:
                score = await self._score(skill, artifact, case)
            on_score()
            return score

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(case)) for case in cases for _ in range(repeats)]
        except* ProwessError as errors:
            raise _first(errors) from None
        return [task.result() for task in tasks]

    async def run(self, skill: Skill, artifact: str, inputs: JsonObject) -> RunResult:
        """Run one artifact of a skill that need not be stored, and count what it used."""
        run = await offload(self._start, skill, artifact, inputs)
        result = await self._context.resources.runner.run(run)
        self.meter.count(result.usage.requests, result.cost)
        return result

    async def call(self, skill: Skill, artifact: str, inputs: JsonObject) -> Call:
        """Return a call of an artifact that is not run, for requests and grades on its behalf. Its caller counts them."""
        run = await offload(self._start, skill, artifact, inputs)
        return make_call(run, skill.find_artifact(artifact), inputs)

    async def grade(self, call: Call, case: EvalCase, output: Output) -> tuple[float | None, str]:
        """Grade an output that did not come from a run."""
        return await self._grade(call, case, output, await self._assertions.check(call, output))

    async def _score(self, skill: Skill, artifact: str, case: EvalCase) -> Score:
        result = await self.run(skill, artifact, case.inputs or {})
        part = result.parts[-1]
        if part.fallback_of is not None:
            raise Unavailable(
                f"{part.fallback_of!r} could not run, so {part.artifact!r} ran instead and nothing can be measured.",
                hint="`prowess sidecar status` says why; `--method rewrite` needs no sidecar.",
            )
        if isinstance(part.error, Refused | Unavailable | NotFound):
            raise part.error
        if part.output is None:
            # A provider that fails says nothing about the skill; an answer that is late or not as asked for does.
            value = 0.0 if isinstance(part.error, AnswerUnusable | OutputInvalid | TimedOut) else None
            return Score(case=case, value=value, feedback=part.error.message if part.error else "It has no output.")
        call = await self.call(skill, artifact, case.inputs or {})
        value, feedback = await self._grade(call, case, part.output, part.verdicts, result)
        self.meter.count(call.notes.usage.requests, call.notes.cost)
        return Score(case=case, value=value, feedback=feedback, output=part.output.text)

    async def _grade(
        self, call: Call, case: EvalCase, output: Output, verdicts: Sequence[Verdict], result: RunResult | None = None
    ) -> tuple[float | None, str]:
        resources = self._context.resources
        facts = RunFacts(verdicts=tuple(verdicts))
        if result is not None:
            tokens = result.usage.input_tokens + result.usage.output_tokens
            seconds = sum(part.duration_ms for part in result.parts) / 1000
            facts = RunFacts(verdicts=tuple(verdicts), cost=result.cost, seconds=seconds, tokens=tokens)
        found = await grade(
            case,
            output,
            GradeContext(
                models=resources.model_client(),
                call=call,
                assertions=self._assertions,
                registry=resources.registry,
                facts=facts,
            ),
        )
        failed = [f"{verdict.description}: {verdict.evidence}" for verdict in found.verdicts if not verdict.passed]
        return found.score, found.error or "\n".join(failed)

    @property
    def _assertions(self) -> AssertionRunner:
        found = self._context.resources.runner.assertions
        if found is None:
            raise Unavailable("There are no assertions without models.", hint="Open Prowess with a model.")
        return found

    def _start(self, skill: Skill, artifact: str, inputs: JsonObject) -> Run:
        context, runner = self._context, self._context.resources.runner
        request = RunRequest(
            slug=skill.slug,
            artifacts=(artifact,),
            inputs=inputs,
            model=self._model,
            evaluation_model=self._evaluation_model,
            spend_limit=self._spend_limit,
        )
        return start_run(
            request,
            skill,
            artifacts=(artifact,),
            inputs=normalize_inputs(inputs),
            limits=read_allowance(skill, seconds=runner.seconds),
            needs=runner.facts(skill).needs,
            actor=context.actor,
            policy=context.read_policy(),
            session=self._session,
        )


def _first(errors: BaseExceptionGroup[ProwessError]) -> ProwessError:
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def check_measurable(skill: Skill, artifact: str) -> None:
    """Raise `Invalid` unless an artifact can be measured without touching anything: a prompt, or a module without tools."""
    found = skill.find_artifact(artifact)
    if found.kind not in ("prompt_template", "dspy_module"):
        raise Invalid(
            f"{artifact!r} is a {found.kind}, which cannot be optimized.",
            hint="Name a prompt_template or a dspy_module with `--artifact`, or use `--method phrases`.",
        )
    if sum(one.name == found.name for one in skill.artifacts) > 1:
        raise Invalid(
            f"{artifact!r} has several variants, and the model determines which is used.",
            hint="Optimize a skill with one variant, then copy the result.",
        )
    if isinstance(found, DspyModule) and found.settings.get("tools"):
        raise Invalid(
            f"{artifact!r} uses tools, which must not run for candidates that nobody has accepted.",
            hint="Optimize a module without tools.",
        )
