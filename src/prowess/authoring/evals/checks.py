"""Grade an output: run every check of a case, and turn the verdicts into one score.

    result = await grade(case, output, context)

Exact scorers and limits need no model. Assertions run as they do in a run. All expectations of a case are judged in one
request, and each rubric in one more; the output is fenced off as data, and only a verdict in the requested form counts.

A check that could not be made, because the judge failed or a figure is unknown, is an error of the case: the case neither
passes nor fails.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from prowess.authoring.evals.case import Check, EvalCase
from prowess.authoring.evals.exact import SCORERS, Compared, compare
from prowess.errors import NoModel, OutputInvalid, ProwessError, Refused
from prowess.handlers.results import CriterionResult, ReviewResult
from prowess.handlers.review import MAX_ASSET_CHARS, build_judging_request, read_verdicts
from prowess.prompts.prompt import Criterion, Rubric
from prowess.prompts.registry import TRUSTED_ORIGINS, Registry, check_used
from prowess.run.assertions.assertion import CheckedOutput
from prowess.run.assertions.evaluation import AssertionRunner
from prowess.run.call import Call, Output, Verdict
from prowess.run.judged_text import JudgedText, fence_text
from prowess.run.model_client import ModelClient
from prowess.skill.kinds import JsonObject
from prowess.threads import offload, offload_if_large

STOPPING = (Refused, NoModel)
"""Errors of a judge that every other case would get too."""

_LONGEST = 1_000
_MAX_TASK_CHARS = 20_000
"""Characters of the message that the judge sees."""
_SHOWN = "The asset itself shows that the statement is true."
_ROUNDING = 1e-9
"""Weighted sums of shares are compared with thresholds such as 0.8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """The verdict of one check. With an `error`, there is no verdict."""

    type: str
    description: str
    passed: bool
    score: float
    """From 0 to 1."""
    weight: float = 1.0
    evidence: str = ""
    """Why it did not pass, or what the judge quoted."""
    error: str = ""

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The result of one case.

    `score` is the weighted share of checks that passed; None if a check could not be made, which `error` explains. Such a
    case counts neither as passed nor as failed.
    """

    score: float | None
    passed: bool
    verdicts: tuple[CheckVerdict, ...] = ()
    error: str = ""

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        verdicts = [verdict.as_json() for verdict in self.verdicts]
        return {"score": self.score, "passed": self.passed, "error": self.error, "verdicts": verdicts}


def make_grade(verdicts: Sequence[CheckVerdict], threshold: float = 1.0) -> Grade:
    """Return the grade of a case with these verdicts."""
    told = tuple(verdicts)
    if not told:
        return Grade(score=None, passed=False, error="The case has no checks, and the artifact has no assertions.")
    failed = next((verdict for verdict in told if verdict.error), None)
    if failed is not None:
        error = f"{failed.description.rstrip('.')}: {failed.error}"
        return Grade(score=None, passed=False, verdicts=told, error=error[:_LONGEST])
    # Checks that all have the weight 0 count equally: a case must not pass without any check.
    weights = [verdict.weight for verdict in told]
    weights = weights if any(weights) else [1.0] * len(told)
    score = math.fsum(verdict.score * weight for verdict, weight in zip(told, weights, strict=True)) / math.fsum(
        weights
    )
    share = math.fsum(weight for verdict, weight in zip(told, weights, strict=True) if verdict.passed) / math.fsum(
        weights
    )
    # A check may pass below a full score, as F1 does; its case then passes as well.
    return Grade(score=score, passed=max(score, share) >= threshold - _ROUNDING, verdicts=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts about a run in addition to its output; None if not known."""

    cost: float | None = None
    """In US dollars."""
    seconds: float | None = None
    tokens: int | None = None
    skills: frozenset[str] | None = None
    """The skills that were used."""
    verdicts: tuple[Verdict, ...] = ()
    """The verdicts of the artifact's own assertions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeContext:
    """The models for grading, and the call that its requests are counted for."""

    models: ModelClient
    call: Call
    assertions: AssertionRunner
    registry: Registry | None = None
    facts: RunFacts = field(default_factory=RunFacts)
    threshold: float = 1.0
    """The weighted share of checks that a case must pass, unless it says so itself."""


async def grade(case: EvalCase, output: Output, context: GradeContext) -> Grade:
    """Return the grade of an output. A judge that fails is an error in the grade.

    Raise `Refused` and `NoModel`, which every other case would get too: a spending limit, or no model to judge with.
    """
    threshold = context.threshold if case.threshold is None else case.threshold
    if not case.checks:
        return make_grade(
            [_from_assertion(verdict, Check(type=verdict.type)) for verdict in context.facts.verdicts], threshold
        )
    subject = CheckedOutput(output)
    plain = {index: one for index, one in enumerate(case.checks) if one.type in SCORERS or one.type in _FACTS}
    judged = {index: one for index, one in enumerate(case.checks) if one.type == "expectation"}
    model_checks = {index: one for index, one in enumerate(case.checks) if index not in plain and index not in judged}
    decided = {index: await _compare(check, case, subject, context) for index, check in plain.items()}
    # A task costs more than most checks, so there is none unless a model may be asked.
    if judged or model_checks:
        answers = await asyncio.gather(
            _judge_expectations(list(judged.values()), case, subject, context),
            *(_ask(check, subject, context) for check in model_checks.values()),
            # So that no request is left running when another one is refused.
            return_exceptions=True,
        )
        groups = [_raised_or(group) for group in answers]
        decided |= dict(zip([*judged, *model_checks], [one for group in groups for one in group], strict=True))
    return make_grade([decided[index] for index in sorted(decided)], threshold)


def _raised_or(group: list[CheckVerdict] | BaseException) -> list[CheckVerdict]:
    if isinstance(group, BaseException):
        raise group
    return group


async def _compare(check: Check, case: EvalCase, subject: CheckedOutput, context: GradeContext) -> CheckVerdict:
    if check.type in _FACTS:
        return _FACTS[check.type](check, context)
    compared = Compared(text=subject.text, data=await _data(subject), expected=case.expected)
    found = await offload_if_large(len(subject.text), compare, check.type, check.settings, compared)
    passed = found.score >= found.minimum - _ROUNDING
    return _verdict(check, _describe(check, case), passed, found.explanation, score=found.score)


async def _data(subject: CheckedOutput) -> Any:
    try:
        return await subject.data()
    except OutputInvalid:
        return None


def _describe(check: Check, case: EvalCase) -> str:
    settings = check.settings
    value = settings.get("values", settings.get("value", case.expected))
    field_name = f" of `{settings['field']}`" if settings.get("field") else ""
    return f"{check.type}{field_name}: {str(value)[:120]}"


def _check_limit(check: Check, context: GradeContext) -> CheckVerdict:
    facts, kind = context.facts, check.type
    used = {"cost": facts.cost, "tokens": facts.tokens, "latency": _milliseconds(facts.seconds)}[kind]
    most = float(check.settings["max_ms" if kind == "latency" else "max"])
    amount_format = {"cost": "${:.4f}", "tokens": "{:,.0f} tokens", "latency": "{:,.0f} ms"}[kind]
    description = f"{kind}: at most {amount_format.format(most)}"
    if used is None:
        return _failed(check, description, f"The {kind} of this run is not known.")
    return _verdict(check, description, used <= most, f"It was {amount_format.format(used)}.")


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _check_skill(check: Check, context: GradeContext) -> CheckVerdict:
    slug: str = check.settings.get("skill") or context.call.skill.slug
    description = f"The skill {slug[:80]!r} is used."
    used = context.facts.skills
    if used is None:
        return _failed(check, description, "It is not known which skills were used in this run.")
    # Plugins of other agents write `plugin:skill`.
    names = {slug, slug.rpartition(":")[2]}
    return _verdict(check, description, bool(names & used), f"Used: {', '.join(sorted(used)) or 'none'}.")


_FACTS = {"cost": _check_limit, "latency": _check_limit, "tokens": _check_limit, "skill_used": _check_skill}


async def _ask(check: Check, subject: CheckedOutput, context: GradeContext) -> list[CheckVerdict]:
    if check.type == "rubric":
        return [await _judge_rubric(check, subject, context)]
    return [_from_assertion(await context.assertions.evaluate(check.settings, subject, context.call), check)]


def _from_assertion(verdict: Verdict, check: Check) -> CheckVerdict:
    if verdict.undecided:
        return _failed(check, verdict.description, verdict.explanation)
    return _verdict(check, verdict.description, verdict.passed, verdict.explanation)


async def _judge_expectations(
    checks: Sequence[Check], case: EvalCase, subject: CheckedOutput, context: GradeContext
) -> list[CheckVerdict]:
    if not checks:
        return []
    texts = [str(check.settings["text"]) for check in checks]
    criteria = tuple(
        Criterion(
            id=f"e{number}",
            name=f"Expectation {number}",
            description=text,
            pass_condition=_SHOWN,
            fail_condition="The statement is false, or nothing in the asset shows that it is true.",
        )
        for number, text in enumerate(texts, 1)
    )
    rubric = Rubric(id="expectations", scoring_mode="binary", criteria=criteria, description=_describe_task(case))
    try:
        results = await _judge(rubric, subject, context)
    except STOPPING:
        raise
    except ProwessError as error:
        return [_failed(check, text, error.message) for check, text in zip(checks, texts, strict=True)]
    return [_from_criterion(check, text, one) for check, text, one in zip(checks, texts, results, strict=True)]


def _describe_task(case: EvalCase) -> str:
    """Return what the judge is told about the case. A message may try to talk to the judge, so it is fenced off as well."""
    about = "The asset is the answer of an assistant."
    if case.prompt:
        about += f" It answers a message. {fence_text(case.prompt[:_MAX_TASK_CHARS], 'message')}"
    if isinstance(case.expected, str) and case.expected:
        about += f"\n\nA good answer, as its author describes it: {case.expected[:_MAX_TASK_CHARS]}"
    return about


async def _judge_rubric(check: Check, subject: CheckedOutput, context: GradeContext) -> CheckVerdict:
    name, version = str(check.settings["rubric"]), str(check.settings.get("version") or "")
    description = f"Rubric {name}"
    if context.registry is None:
        return _failed(check, description, "No rubrics are available here.")
    call = context.call
    try:
        rubric = await offload(
            context.registry.rubric, name, version or None, skill=call.skill, organization=call.actor.organization
        )
        if rubric.origin not in TRUSTED_ORIGINS:
            check_used(rubric, call.run.uses)
        results = await _judge(rubric, subject, context)
    except STOPPING:
        raise
    except ProwessError as error:
        return _failed(check, description, error.message)
    unjudged = next((result for result in results if not result.judged), None)
    if unjudged is not None:
        return _failed(check, description, unjudged.reasoning)
    review = ReviewResult(rubric=rubric, criteria_results=tuple(results))
    why = "; ".join([*review.issues, *review.indeterminate])
    return _verdict(check, description, review.passed, why, score=review.score)


async def _judge(rubric: Rubric, subject: CheckedOutput, context: GradeContext) -> list[CriterionResult]:
    """Return the verdicts of the evaluation model on an output. An empty output is judged too."""
    asset = subject.judged
    if len(asset.text) > MAX_ASSET_CHARS:
        asset = JudgedText(text=asset.text[:MAX_ASSET_CHARS])
    request = build_judging_request(rubric, rubric.criteria, asset)
    reply = await context.models.ask(context.call, request, purpose="evaluation")
    return await offload_if_large(len(asset.text), read_verdicts, reply.text, rubric.criteria, asset)


def _from_criterion(check: Check, text: str, result: CriterionResult) -> CheckVerdict:
    if not result.judged:
        return _failed(check, text, result.reasoning)
    quoted = " ".join(f"“{quote}”" for quote in result.evidence)
    passed = result.verdict == "pass"
    evidence = f"{result.reasoning} {quoted}".strip()
    if check.negate and result.verdict == "indeterminate":
        # Not knowing does not show the opposite.
        return CheckVerdict(
            type=check.type,
            description=f"Not: {text}"[:_LONGEST],
            passed=False,
            score=0.0,
            weight=check.weight,
            evidence=evidence[:_LONGEST],
        )
    return _verdict(check, text, passed, evidence, keep=True)


def _verdict(
    check: Check, description: str, passed: bool, why: str, *, score: float | None = None, keep: bool = False
) -> CheckVerdict:
    """Return the verdict of a check that was made. `why` explains a failure; with `keep`, also a success."""
    holds = passed != check.negate
    full_description = check.description or (f"Not: {description}" if check.negate else description)
    return CheckVerdict(
        type=check.type,
        description=full_description[:_LONGEST],
        passed=holds,
        score=float(holds) if score is None or check.negate else score,
        weight=check.weight,
        evidence="" if holds and not keep else (why or "The condition holds.")[:_LONGEST],
    )


def _failed(check: Check, description: str, error: str) -> CheckVerdict:
    return CheckVerdict(
        type=check.type,
        description=(check.description or description)[:_LONGEST],
        passed=False,
        score=0.0,
        weight=check.weight,
        error=error[:_LONGEST] or "The check could not be run.",
    )
