"""Routes of evaluations: start one as a job, list them, read one with its results, and compare two."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.authoring.evals.plan import MAX_CONCURRENCY, MAX_MODELS, MAX_REPEATS, EvalPlan
from prowess.authoring.evals.results import EvalRun
from prowess.authoring.evals.statistics import Verdict
from prowess.interfaces.rest.jobs import Dollars, JobShape
from prowess.interfaces.rest.request import (
    Body,
    Page,
    PageShape,
    Reader,
    Runner,
    Shape,
    WholeNumber,
    make_page,
    respond,
    shape_of,
)
from prowess.interfaces.rest.sessions import Name
from prowess.jobs.job import MAX_NAME_CHARS

router = APIRouter(prefix="/evals", tags=["evals"])

EvalId = Annotated[str, Path(max_length=200, description="The id of an evaluation.")]


class EvalBody(Body):
    """The evaluation of a skill with the cases that it ships."""

    skill_slug: Annotated[Name, Field(min_length=1)]
    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)] = Field("", description="A unique name of the job.")
    models: Annotated[list[Name], Field(max_length=MAX_MODELS)] = Field(default_factory=list[str])
    evaluation_model: Name = ""
    repeats: Annotated[WholeNumber, Field(ge=1, le=MAX_REPEATS)] | None = None
    without: StrictBool = Field(False, description="Compare with the same model without the skill.")
    against: Name = Field("", description="Compare with this version: a number or a digest.")
    split: Literal["train", "validation", "held_out"] | None = None
    cases: Annotated[list[Name], Field(max_length=2_000)] = Field(default_factory=list[str])
    timeout: Annotated[float, Field(strict=True, gt=0, le=3_600, allow_inf_nan=False)] | None = None
    concurrency: Annotated[WholeNumber, Field(ge=1, le=MAX_CONCURRENCY)] | None = None
    max_spend: Dollars | None = None
    cache: StrictBool = Field(True, description="Reuse results of earlier runs.")


@shape_of(EvalRun)
class EvalShape(Shape):
    """One evaluation. `results` is empty in lists."""

    arms: list[dict[str, Any]]
    results: list[dict[str, Any]]
    ok: bool


class IntervalShape(Shape):
    """A mean difference and its 95% interval. Numbers that cannot be computed, for example from a single case, are null."""

    mean: float | None
    low: float | None
    high: float | None


class DifferenceShape(IntervalShape):
    """A difference, the probability `p` that two equal runs would show it, and the verdict."""

    p: float
    verdict: Verdict


class ArmComparisonShape(Shape):
    """How one arm of a run differs from one of another, on the cases that both have. The verdict is about the score."""

    before: str
    after: str
    verdict: Verdict
    cases: int
    left_out: int
    score: DifferenceShape
    pass_rate: DifferenceShape
    cost_usd: IntervalShape
    seconds: IntervalShape


class ComparedRunShape(Shape):
    """A run that was compared."""

    id: str
    skill: str
    digest: str


class EvalComparisonShape(Shape):
    """The differences between two evaluations."""

    before: ComparedRunShape
    after: ComparedRunShape
    comparisons: list[ArmComparisonShape]


@router.post("", response_model=JobShape, status_code=201)
async def start_eval(body: EvalBody, engine: Runner) -> Response:
    """Start an evaluation as a job, and return the job at once. The `result` of the job has the id as `run`.

    A skill without cases is an error. A job that needs an approval waits for it. If a job with the same name and
    body exists, it is returned, and continues if it was interrupted.
    """
    options = body.model_dump(mode="json", exclude={"skill_slug", "name"})
    plan = EvalPlan(target=body.skill_slug, **options)
    await engine.skills.row(body.skill_slug)  # a plan may also name a path, which is not for callers over HTTP
    await engine.evals.cases(plan)  # a job that fails at once is easy to miss
    job = await engine.jobs.start_task("eval", plan.model_dump(mode="json"), skill=body.skill_slug, name=body.name)
    return respond(job, 201)


@router.get("", response_model=PageShape[EvalShape])
async def list_evals(
    engine: Reader, page: Page, skill: Annotated[Name, Query(description="Only optimizations of this skill.")] = ""
) -> Response:
    """Return the caller's evaluations without their results, newest first; all of the organization for an administrator."""
    evals = engine.evals
    found = await evals.list(skill=skill, limit=page.limit + 1, before=page.after_row)
    return respond(make_page(found, page, lambda run: [run.created_at, run.id], await evals.count(skill=skill)))


@router.get("/{id}", response_model=EvalShape)
async def get_eval(id: EvalId, engine: Reader) -> Response:
    """Return one evaluation with its results."""
    return respond(await engine.evals.get(id))


@router.get("/{id}/compare/{other}", response_model=EvalComparisonShape)
async def compare_evals(id: EvalId, other: EvalId, engine: Reader) -> Response:
    """Return how `id` differs from the earlier evaluation `other`, on the cases that both have.

    Differences are means over the cases with a 95% bootstrap interval of pairs. The verdict is `better` or `worse` only if the
    interval excludes zero and a sign-flip test agrees.
    """
    return respond(await engine.evals.compare(other, id))
