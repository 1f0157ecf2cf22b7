"""Run one case in one arm: ask a model with or without the skill, or run an artifact of it, and grade the output.

A failure says something about the skill: a check that does not pass, an unusable answer, a time limit. An error does not: a
model that cannot be reached, inputs that do not fit. Errors that every further case would have too end the whole run.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, replace

from prowess.authoring.evals.case import EvalCase, EvalSuite
from prowess.authoring.evals.checks import Grade, GradeContext, RunFacts, grade
from prowess.authoring.evals.results import Arm, CaseResult
from prowess.authoring.evals.variant import Variant
from prowess.engine.runs import Runs
from prowess.errors import AnswerUnusable, Conflict, NoModel, NotFound, ProwessError, Refused, RunFailed, TimedOut
from prowess.llm.model import Message, Model, Request, Usage
from prowess.policy.organization import OrgPolicy
from prowess.run.allowance import Allowance, read_allowance
from prowess.run.assertions.evaluation import AssertionRunner
from prowess.run.call import Call, Output, make_call, start_run
from prowess.run.request import RunRequest, SharedSpendLimit
from prowess.run.result import RunResult
from prowess.session.prompt import assemble_blocks, join_blocks
from prowess.session.text import read_skill_text

STOPPING = (Refused, Conflict, NotFound, NoModel)
"""Errors that every further case would have too: a spending limit, a missing approval, a skill that changed, no model."""

MAX_OUTPUT_CHARS = 200_000
"""The longest output that is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveArm:
    """An arm with what it runs with."""

    arm: Arm
    variant: Variant
    model: Model | str
    """What requests name; '' to let artifacts choose."""
    policy: OrgPolicy
    limits: Allowance
    system: str = ""
    """The system prompt; '' without the skill, and if no case has a message."""

    @property
    def content_digest(self) -> str:
        """The digest for the cache; '' without the skill."""
        return "" if self.arm.kind == "without" else self.variant.content_digest


def read_system_prompt(variant: Variant) -> str:
    """Return the system prompt of a session in which only this skill is enabled. It passes the gate first. Blocking."""
    context = variant.context
    text = read_skill_text(context.catalog, variant.skill.slug, context.actor)
    context.resources.gate.check(context.actor, "load", text.subject)
    return join_blocks(assemble_blocks(skills=[text.block]))


def read_limits(variant: Variant, seconds: float | None) -> Allowance:
    """Return the limits of one case. A skill can only lower them."""
    return read_allowance(variant.skill, seconds=variant.context.resources.runner.seconds, requested=seconds)


class CaseRunner:
    """Runs the cases of one evaluation."""

    def __init__(
        self,
        suite: EvalSuite,
        *,
        run_id: str,
        evaluation_model: Model | str = "",
        seconds: float | None = None,
        spend_limit: SharedSpendLimit | None = None,
    ) -> None:
        self._suite = suite
        self._label = f"eval:{run_id}"
        self._evaluation_model = evaluation_model
        self._seconds = seconds
        self._spend_limit = spend_limit

    async def run(self, active: ActiveArm, arm: int, case: EvalCase, repeat: int) -> CaseResult:
        """Return the result of a case. Raise only errors that end the whole run."""
        blank = CaseResult(
            case=case.id, title=case.title, digest=case.digest, arm=arm, repeat=repeat, passed=None, score=None
        )
        began = time.perf_counter()
        try:
            work = self._run_artifact if case.inputs is not None else self._ask
            return await work(active, case, blank)
        except STOPPING:
            raise
        except ProwessError as error:
            case_result = replace(
                blank, error=error.message, error_code=error.code, seconds=time.perf_counter() - began
            )
            return (
                replace(case_result, passed=False, score=0.0)
                if isinstance(error, AnswerUnusable | TimedOut)
                else case_result
            )

    async def _ask(self, active: ActiveArm, case: EvalCase, blank: CaseResult) -> CaseResult:
        """Send the message of a case to the model, with the system prompt of the arm."""
        call = self._call(active, case)
        system = [Message(role="system", text=active.system)] if active.system else []
        request = Request(messages=(*system, Message(role="user", text=_message(case))))
        models = active.variant.context.resources.model_client()
        began = time.perf_counter()
        deadline = asyncio.timeout(active.limits.seconds)
        try:
            async with deadline:
                reply = await models.ask(call, request)
        except TimeoutError:
            if not deadline.expired():
                raise
            message = f"The model did not answer within {active.limits.seconds:g} seconds."
            raise TimedOut(message, hint="Allow more time with `--timeout SECONDS`.") from None
        except AnswerUnusable as error:
            # The provider bills it all the same.
            facts = RunFacts(
                cost=call.notes.cost, seconds=time.perf_counter() - began, tokens=_tokens(call.notes.usage)
            )
            failed = _with_facts(blank, facts, ())
            return replace(failed, passed=False, score=0.0, error=error.message, error_code=error.code)
        used = frozenset[str]() if active.arm.kind == "without" else frozenset({active.variant.skill.slug})
        facts = RunFacts(
            cost=call.notes.cost, seconds=time.perf_counter() - began, tokens=_tokens(call.notes.usage), skills=used
        )
        # Its kind only says that the output is text.
        output = Output(kind="prompt_template", text=reply.text)
        return await self._graded(active, call, case, output, facts, blank)

    async def _run_artifact(self, active: ActiveArm, case: EvalCase, blank: CaseResult) -> CaseResult:
        """Run the artifact of a case through the gate, with its own trace."""
        request = replace(self._request(active), artifacts=(case.artifact,) if case.artifact else ())
        request = replace(request, inputs=case.inputs or {}, digest=active.variant.skill.digest)
        began = time.perf_counter()
        result = await Runs(active.variant.context).attempt(request)
        error, part = result.error, result.parts[-1]
        facts = RunFacts(
            cost=result.cost,
            seconds=time.perf_counter() - began,
            tokens=_tokens(result.usage),
            skills=frozenset({active.variant.skill.slug}),
            verdicts=part.verdicts,
        )
        if error is not None and (isinstance(error, STOPPING) or not isinstance(error, RunFailed)):
            raise error
        if error is not None and part.output is None:
            case_result = _with_facts(blank, facts, _trace_ids(result))
            return replace(case_result, passed=False, score=0.0, error=error.message, error_code=error.code)
        output = part.output or Output(kind=part.kind)
        call = self._call(active, case)
        graded = await self._graded(active, call, case, output, facts, blank, traces=_trace_ids(result))
        if error is None or graded.passed is None:
            return graded
        # An output that fails a hard assertion of its artifact is not delivered, however good the checks find it.
        return replace(graded, passed=False, error=error.message, error_code=error.code)

    async def _graded(
        self,
        active: ActiveArm,
        call: Call,
        case: EvalCase,
        output: Output,
        facts: RunFacts,
        blank: CaseResult,
        *,
        traces: tuple[str, ...] = (),
    ) -> CaseResult:
        before = call.notes.cost
        resources = active.variant.context.resources
        found = await grade(
            case,
            output,
            GradeContext(
                models=resources.model_client(),
                call=call,
                assertions=resources.runner.assertions or AssertionRunner(resources.model_client()),
                registry=resources.registry,
                facts=facts,
                threshold=self._suite.pass_threshold,
            ),
        )
        after = call.notes.cost
        judge_cost = None if after is None else after - (before or 0.0)
        case_result = replace(_with_facts(blank, facts, traces), judge_cost=judge_cost)
        return _with_grade(case_result, found, output, active.limits)

    def _request(self, active: ActiveArm) -> RunRequest:
        return RunRequest(
            slug=active.variant.skill.slug,
            model=active.model,
            evaluation_model=self._evaluation_model,
            timeout=self._seconds,
            spend_limit=self._spend_limit,
            evaluation=self._label,
        )

    def _call(self, active: ActiveArm, case: EvalCase) -> Call:
        """Return a call that requests of a case are counted for. It runs nothing by itself."""
        variant = active.variant
        skill, runner = variant.skill, variant.context.resources.runner
        run = start_run(
            self._request(active),
            skill,
            artifacts=(),
            inputs=case.inputs or {},
            limits=active.limits,
            needs=runner.facts(skill).needs,
            actor=variant.context.actor,
            policy=active.policy,
            session=self._label,
            # A rubric that a case names is not part of what the gate was asked about: only trusted ones are used.
            uses=(),
        )
        return make_call(run, skill.artifacts[0], {})


def _message(case: EvalCase) -> str:
    """Return the message of a case, with the text of its files."""
    files = [f"File {file.path}:\n\n{file.text}" for file in case.files]
    return "\n\n".join([case.prompt, *files])


def _tokens(usage: Usage) -> int | None:
    return usage.input_tokens + usage.output_tokens if usage.requests else None


def _trace_ids(result: RunResult) -> tuple[str, ...]:
    return tuple(part.trace for part in result.parts)


def _with_facts(blank: CaseResult, facts: RunFacts, traces: tuple[str, ...]) -> CaseResult:
    return replace(blank, cost=facts.cost, seconds=facts.seconds or 0.0, tokens=facts.tokens, traces=traces)


def _with_grade(blank: CaseResult, found: Grade, output: Output, limits: Allowance) -> CaseResult:
    """Return the result with its grade; without texts that may quote the output, if the skill keeps outputs out of traces."""
    verdicts = [verdict.as_json() for verdict in found.verdicts]
    case_result = replace(
        blank,
        passed=None if found.score is None else found.passed,
        score=found.score,
        error=found.error,
        error_code="eval-error" if found.error else "",
    )
    if limits.log_output and limits.log_input and not limits.withheld:
        text = output.text or ("" if output.data is None else json.dumps(output.data, ensure_ascii=False, indent=2))
        return replace(case_result, output=text[:MAX_OUTPUT_CHARS], verdicts=tuple(verdicts))
    without_evidence = tuple({**verdict, "evidence": ""} for verdict in verdicts)
    return replace(case_result, verdicts=without_evidence, error="The case could not be graded." if found.error else "")
