"""Routes of jobs: start durable runs and batches, list and show them, read their results, cancel and retry them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

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
from prowess.jobs.job import DEFAULT_CONCURRENCY, MAX_CONCURRENCY, MAX_NAME_CHARS, Job, JobError
from prowess.run.request import RunRequest
from prowess.storage.jobs import JobState

router = APIRouter(prefix="/jobs", tags=["jobs"])

MAX_ITEMS = 100_000
JobId = Annotated[str, Path(max_length=200, description="The id or the name of a job.")]
Concurrency = Annotated[WholeNumber, Field(ge=1, le=MAX_CONCURRENCY)]
Dollars = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class JobBody(Body):
    """The skill to run. With `items`, each of which has the inputs of one run, it is a batch."""

    skill_slug: Name
    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)] = Field(
        "", description="A unique name. If empty, one is generated."
    )
    artifacts: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list[str])
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])
    items: Annotated[list[dict[str, Any]], Field(max_length=MAX_ITEMS)] | None = None
    session: Name = ""
    model: Name = ""
    evaluation_model: Name = ""
    timeout: Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)] | None = None
    concurrency: Concurrency = Field(DEFAULT_CONCURRENCY, description="Items to run in parallel on each worker.")
    max_spend: Dollars | None = Field(None, description="What a batch may cost, in US dollars.")


class RetryBody(Body):
    """Limits of a batch to change before it continues."""

    concurrency: Concurrency | None = None
    max_spend: Dollars | None = None


@shape_of(JobError)
class JobErrorShape(Shape):
    """Why a job failed or stopped."""


@shape_of(Job)
class JobShape(Shape):
    """One job. The numbers count the items of a batch, or the artifacts of a run."""

    error: JobErrorShape | None


class JobResultShape(Shape):
    """The result of one item; `ok` is null if it has not ended."""

    index: int
    ok: bool | None


@router.post("", response_model=JobShape, status_code=201)
async def start_job(body: JobBody, engine: Runner) -> Response:
    """Start a durable run or a batch, and return at once. A job that needs an approval waits for it.

    If a job with the same name and body exists, it is returned, and continues if it was interrupted. Answers 409 if its
    body differs.
    """
    request = RunRequest(
        slug=body.skill_slug,
        artifacts=tuple(body.artifacts),
        inputs=body.inputs,
        session=body.session,
        model=body.model,
        evaluation_model=body.evaluation_model,
        timeout=body.timeout,
    )
    jobs = engine.jobs
    if body.items is None:
        return respond(await jobs.start_run(request, name=body.name), 201)
    items = [{**body.inputs, **item} for item in body.items]
    job = await jobs.start_batch(request, items, name=body.name, concurrency=body.concurrency, max_spend=body.max_spend)
    return respond(job, 201)


@router.get("", response_model=PageShape[JobShape])
async def list_jobs(
    engine: Reader,
    page: Page,
    state: Annotated[
        Literal["queued", "running", "waiting", "succeeded", "failed", "stopped", "cancelled", ""],
        Query(description="Only in this state."),
    ] = "",
) -> Response:
    """Return the caller's jobs without their results, newest first; all of the organization for an administrator."""
    states: tuple[JobState, ...] = (state,) if state else ()
    jobs = engine.jobs
    found = await jobs.list(states=states, limit=page.limit + 1, before=page.after_row)
    return respond(make_page(found, page, lambda job: [job.created_at, job.id], await jobs.count(states=states)))


@router.get("/{id}", response_model=JobShape)
async def get_job(id: JobId, engine: Reader) -> Response:
    """Return one job, with the result of a run that has ended."""
    return respond(await engine.jobs.get(id))


@router.get("/{id}/results", response_model=PageShape[JobResultShape])
async def list_results(
    id: JobId,
    engine: Reader,
    page: Page,
    after: Annotated[
        int, Query(ge=-1, le=MAX_ITEMS, description="Only items after this index, if there is no cursor.")
    ] = -1,
    failed: Annotated[bool, Query(description="Only items that failed.")] = False,
) -> Response:
    """Return the results of the items of a batch, in input order. `total` counts all that there are, or all that failed."""
    jobs = engine.jobs
    job: Job = await jobs.get(id)
    start = page.after_number()
    found = await jobs.results(
        job.id, after=after if start is None else start, limit=page.limit + 1, failed_only=failed
    )
    total = 0 if job.kind != "batch" else job.failed if failed else job.total
    return respond(make_page(found, page, lambda item: item["index"], total))


@router.post("/{id}/cancel", response_model=JobShape)
async def cancel_job(id: JobId, engine: Runner) -> Response:
    """Cancel a job. Results so far are kept. Answers 409 if it has ended."""
    return respond(await engine.jobs.cancel(id))


@router.post("/{id}/retry", response_model=JobShape)
async def retry_job(id: JobId, body: RetryBody, engine: Runner) -> Response:
    """Go on with a job that failed, stopped, was cancelled or interrupted. What succeeded is kept."""
    return respond(await engine.jobs.retry(id, concurrency=body.concurrency, max_spend=body.max_spend))
