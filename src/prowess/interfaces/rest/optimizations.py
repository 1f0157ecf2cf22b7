"""Routes of optimizations: start one as a job, list and show them, see the candidate, approve, reject and stop."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.authoring.optimize.optimizations import ProposalDiff
from prowess.authoring.optimize.proposal import (
    DEFAULT_CALLS,
    DEFAULT_MINUTES,
    MAX_REPEATS,
    Budget,
    Method,
    OptimizationRequest,
    Proposal,
)
from prowess.interfaces.rest.request import (
    Body,
    Page,
    PageShape,
    Reader,
    Runner,
    Shape,
    WholeNumber,
    Writer,
    make_page,
    respond,
    shape_of,
)
from prowess.interfaces.rest.sessions import Name
from prowess.storage.proposals import ProposalState

router = APIRouter(prefix="/optimizations", tags=["optimizations"])

ProposalId = Annotated[str, Path(max_length=200, description="The id, or at least its first four characters.")]


class OptimizationBody(Body):
    """The skill to optimize, the measure, and the limits of cost."""

    skill_slug: Name
    artifact: Name = ""
    method: Method = "bootstrap_few_shot"
    metric: Annotated[str, Field(max_length=200)] = Field("assertions", description="assertions, exact or rubric:ID.")
    budget_usd: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    max_calls: Annotated[WholeNumber, Field(ge=1, le=1_000_000)] = DEFAULT_CALLS
    minutes: Annotated[float, Field(strict=True, gt=0, le=1_440, allow_inf_nan=False)] = DEFAULT_MINUTES
    repeats: Annotated[WholeNumber, Field(ge=1, le=MAX_REPEATS)] = 1
    model: Name = ""
    evaluation_model: Name = ""
    template: Name = "predict"
    traces: StrictBool = Field(True, description="Use the inputs of live runs as cases.")


class ApproveProposalBody(Body):
    """The candidate that the person was shown: its `candidate_digest`."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    note: Annotated[str, Field(max_length=4_000)] = ""


class RejectBody(Body):
    """Why it is rejected."""

    note: Annotated[str, Field(max_length=4_000)] = ""


@shape_of(Proposal)
class OptimizationShape(Shape):
    """One optimization: what it tried, what it measured, and what became of it."""


@shape_of(ProposalDiff)
class CandidateShape(Shape):
    """The changes of a candidate: the parts that a person compares, and the difference of the files."""


@router.post("", response_model=OptimizationShape, status_code=201)
async def start_optimization(body: OptimizationBody, engine: Runner) -> Response:
    """Start an optimization as a durable job, and return at once. Nothing changes before a person approves the result."""
    budget = Budget(usd=body.budget_usd, calls=body.max_calls, minutes=body.minutes)
    options = body.model_dump(exclude={"skill_slug", "budget_usd", "max_calls", "minutes"})
    request = OptimizationRequest(skill=body.skill_slug, budget=budget, **options)
    prepared = await engine.optimize.prepare(request)
    await engine.jobs.start_task(
        "optimize",
        {"proposal": prepared.id},
        skill=f"{prepared.scope}:{prepared.skill}",
        name=f"optimize-{prepared.id[:8]}",
    )
    return respond(prepared, 201)


@router.get("", response_model=PageShape[OptimizationShape])
async def list_optimizations(
    engine: Reader,
    page: Page,
    skill: Annotated[str, Query(max_length=200, description="Only optimizations of this skill.")] = "",
    state: Annotated[ProposalState | None, Query(description="Only in this state.")] = None,
) -> Response:
    """Return the caller's optimizations, newest first; all of the organization for an administrator."""
    part = engine.optimize
    states = () if state is None else (state,)
    found = await part.list(skill=skill, states=states, limit=page.limit + 1, before=page.after_row)
    total = await part.count(skill=skill, states=states)
    return respond(make_page(found, page, lambda row: [row.created_at, row.id], total))


@router.get("/{id}", response_model=OptimizationShape)
async def get_optimization(id: ProposalId, engine: Reader) -> Response:
    """Return one optimization with its figures."""
    return respond(await engine.optimize.get(id))


@router.get("/{id}/diff", response_model=CandidateShape)
async def get_candidate(id: ProposalId, engine: Reader) -> Response:
    """Return what the candidate changes. Only for a person: nobody has accepted it. Answers 409 if the skill has changed."""
    return respond(await engine.optimize.diff(id))


@router.post("/{id}/approve", response_model=OptimizationShape)
async def approve_optimization(id: ProposalId, body: ApproveProposalBody, engine: Writer) -> Response:
    """Make the candidate the next version of its skill. Only a person can do this. Answers 409 if the skill has changed."""
    return respond(await engine.optimize.approve(id, digest=body.digest, note=body.note))


@router.post("/{id}/reject", response_model=OptimizationShape)
async def reject_optimization(id: ProposalId, body: RejectBody, engine: Writer) -> Response:
    """Reject a proposal. Only a person can do this. Answers 409 unless it is proposed."""
    return respond(await engine.optimize.reject(id, note=body.note))


@router.post("/{id}/cancel", response_model=OptimizationShape)
async def cancel_optimization(id: ProposalId, engine: Runner) -> Response:
    """End the search; the best so far is tested. Answers 409 if it has ended."""
    return respond(await engine.optimize.cancel(id))
