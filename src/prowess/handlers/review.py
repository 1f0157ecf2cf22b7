"""review: an asset judged by a rubric, criterion by criterion, on the model for evaluations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from prowess.errors import Invalid, ProwessError, Refused, Unavailable
from prowess.handlers.asset import asset_of
from prowess.handlers.judging import judging_request, read_verdicts
from prowess.handlers.stopwatch import Stopwatch
from prowess.llm.model import Reply, Request
from prowess.run.asking import Asker
from prowess.run.beside import beside
from prowess.run.call import Call, Output
from prowess.run.inputs import checked_inputs
from prowess.run.judged import Judged
from prowess.run.results import CriterionResult, ReviewResult, undecided
from prowess.skill.kinds import Kind, Review
from prowess.skill.schema import Schema, compile_schema
from prowess.templates.registry import Registry
from prowess.templates.rubric import Criterion, Rubric


class ReviewHandler:
    """Judges an asset in one request, or in one for each criterion where the artifact or the handler says `per_criterion`.

    Its states are LOADING_RUBRIC, EVALUATING, AGGREGATING and COMPLETED. A model that errs, or does not answer in the form
    that is asked for, leaves criteria undecided, and none of these passes.
    """

    kind: Kind = "review"

    def __init__(self, asker: Asker, registry: Registry, *, per_criterion: bool = False) -> None:
        self._asker = asker
        self._registry = registry
        self._per_criterion = per_criterion

    async def run(self, call: Call) -> Output:
        """Judge."""
        artifact = call.artifact
        if not isinstance(artifact, Review):
            raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a review.")
        watch = Stopwatch("evaluation")
        call.enter("LOADING_RUBRIC")
        rubric = await self._rubric(call, artifact)
        promised = None if artifact.output_schema is None else compile_schema(artifact.output_schema)
        asset = asset_of(checked_inputs(call.inputs, call.skill.parameters), call.handed_on)
        call.enter("EVALUATING", criteria=len(rubric.criteria))
        with watch.measure("evaluation"):
            judged = await self._judge(call, artifact, rubric, asset)
        call.enter("AGGREGATING")
        result = ReviewResult(rubric=rubric, criteria_results=tuple(judged), timings_ms=watch.timings_ms())
        call.enter("COMPLETED", passed=result.passed)
        return _output(call, artifact, result, promised)

    async def _rubric(self, call: Call, artifact: Review) -> Rubric:
        rubric = await asyncio.to_thread(
            self._registry.rubric,
            artifact.rubric_id,
            artifact.rubric_version,
            skill=call.skill,
            organization=call.actor.organization,
        )
        call.notes.detail["rubric"] = rubric.label
        return rubric

    async def _judge(self, call: Call, artifact: Review, rubric: Rubric, asset: Judged) -> list[CriterionResult]:
        """One result for each criterion, in the order of the rubric."""
        separately = artifact.metadata.get("per_criterion", self._per_criterion)
        groups = [(one,) for one in rubric.criteria] if separately is True else [rubric.criteria]
        requests = [judging_request(rubric, group, asset) for group in groups]
        call.notes.rendered = "\n\n".join(_asked(request) for request in requests)
        replies = await self._asker.ask_all(call, requests, named=artifact.evaluation_model or "")
        call.notes.raw = "\n\n".join(reply.text for reply in replies if isinstance(reply, Reply))
        _raise_where_nothing_was_asked(call, replies)
        judged = [
            await beside(len(asset.text), _results, group, reply, asset)
            for group, reply in zip(groups, replies, strict=True)
        ]
        return [result for results in judged for result in results]


def _asked(request: Request) -> str:
    return "\n\n".join(message.text for message in request.messages if message.role == "user")


def _raise_where_nothing_was_asked(call: Call, replies: Sequence[Reply | ProwessError]) -> None:
    """A review that a rule or a cap forbids was no review, and one that has a fallback leaves it to that."""
    errors = [reply for reply in replies if isinstance(reply, ProwessError)]
    if len(errors) < len(replies):
        return
    kinds = (Refused, Unavailable) if call.artifact.fallback else (Refused,)
    error = next((error for error in errors if isinstance(error, kinds)), None)
    if error is not None:
        raise error


def _results(criteria: Sequence[Criterion], reply: Reply | ProwessError, asset: Judged) -> list[CriterionResult]:
    if isinstance(reply, ProwessError):
        return [undecided(criterion, f"It could not be asked: {reply.message}") for criterion in criteria]
    return read_verdicts(reply.text, criteria, asset)


def _output(call: Call, artifact: Review, result: ReviewResult, promised: Schema | None) -> Output:
    """The result as data and as words; where the artifact promises another form, the difference is noted."""
    data = result.as_json(details=artifact.include_criteria_details)
    call.notes.detail |= {"timings_ms": dict(result.timings_ms), "score": result.score}
    errors = promised.errors(data) if promised else ()
    if errors:
        call.notes.detail["output_schema_errors"] = [str(error) for error in errors]
    about = {"rubric": result.rubric.label, "score": result.score}
    return Output(kind="review", text=_words(result), data=data, result={**data, **about})


def _words(result: ReviewResult) -> str:
    """The result for people."""
    count = sum(one.verdict == "pass" for one in result.criteria_results)
    verdict = "Passed" if result.passed else "Not passed"
    head = f"{verdict}: {count} of {len(result.criteria_results)} criteria, score {result.score:.2f}."
    lines = [*result.issues, *result.indeterminate, *(f"To mend: {fix}" for fix in result.suggested_fixes)]
    return "\n".join([head, *(f"- {line}" for line in lines)])
