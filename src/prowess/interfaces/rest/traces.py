"""Routes of runs that were recorded: list, show, export and count them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypedDict

from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import Response, StreamingResponse

from prowess.errors import Invalid
from prowess.interfaces.rest.request import (
    Page,
    PageQuery,
    PageShape,
    Reader,
    Shape,
    invalid_cursor,
    make_page,
    respond,
    shape_of,
    to_bytes,
)
from prowess.storage.trace_stats import Bucket, GroupBy
from prowess.storage.traces import RunStatus, Trace, TracePosition, TraceSort, sort_position
from prowess.traces.export import ExportFormat
from prowess.traces.report import Chart, Series, SeriesBy
from prowess.view import TRACE_TEXTS, to_json, trace_json

router = APIRouter(tags=["traces"])

_DAY_SECONDS = 86_400
_CHUNK_BYTES = 64 * 1024
_LARGEST = 2**31
"""More than any duration in milliseconds or cost in dollars; PostgreSQL refuses larger integers."""
Slug = Annotated[str, Query(max_length=500, description="Only runs of this skill.")]
Days = Annotated[float | None, Query(ge=0, le=36_500, description="Only runs of this number of days.")]
Since = Annotated[str, Query(max_length=40, description="Only runs that started at this time (ISO 8601) or later.")]
Status = Annotated[RunStatus | Literal[""], Query(description="Only runs with this status.")]
Text = Annotated[str, Query(max_length=500)]
Kind = Annotated[
    str, Query(max_length=500, description="Only runs of artifacts of this kind, such as `prompt_template`.")
]


class TraceFilters(TypedDict):
    """The filters that routes of traces share, as the engine takes them."""

    skill: str
    artifact: str
    status: RunStatus | Literal[""]
    session: str
    model: str
    run: str
    kind: str
    days: float | None


# Asynchronous, because FastAPI hands everything else to a thread.
async def _read_filters(
    skill: Slug = "",
    artifact: Text = "",
    status: Status = "",
    session: Text = "",
    model: Text = "",
    run: Text = "",
    kind: Kind = "",
    since: Since = "",
    days: Days = None,
) -> TraceFilters:
    return TraceFilters(
        skill=skill,
        artifact=artifact,
        status=status,
        session=session,
        model=model,
        run=run,
        kind=kind,
        days=_count_days(since, days),
    )


Filters = Annotated[TraceFilters, Depends(_read_filters)]


@shape_of(Trace, without=(*TRACE_TEXTS, "created_at", "process"))
class TraceShape(Shape):
    """One run of one artifact, without its texts."""


class WholeTraceShape(TraceShape):
    """One run with its inputs and texts. Secrets were removed when it was written."""

    detail: dict[str, Any]
    inputs: dict[str, Any]
    rendered_input: str | None
    raw_output: str | None
    resumable: bool


class FiguresShape(Shape):
    """Figures of one group of runs. Rates are null if there are no runs to divide by."""

    name: str
    runs: int
    failures: int
    failure_rate: float | None
    assertions_run: int
    assertions_passed: int
    assertion_rate: float | None
    input_tokens: int
    output_tokens: int
    cost: float | None
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    replaced: int
    statuses: dict[str, int]


class StatsShape(Shape):
    """Figures of each group and of all runs together."""

    by: GroupBy
    since: str | None
    rows: list[FiguresShape]
    total: FiguresShape


@shape_of(Series)
class SeriesShape(Shape):
    """The runs of one group: one number for each bucket. Costs and durations are null where they are unknown."""


@shape_of(Chart)
class ChartShape(Shape):
    """Series over the same buckets of time. `buckets` has their start times, such as `2026-03-01` or `2026-03-01T09` (UTC)."""

    since: str | None
    series: list[SeriesShape]


@router.get("/traces", response_model=PageShape[TraceShape])
async def list_traces(
    engine: Reader,
    filters: Filters,
    page: Page,
    sort: Annotated[TraceSort, Query(description="Sort by this column, highest values first.")] = "started_at",
) -> Response:
    """Return the runs that the caller may see, newest first unless sorted otherwise, without inputs and texts."""
    found = await engine.traces.list(**filters, sort=sort, limit=page.limit + 1, after=_position(page, sort))
    total = await engine.traces.count(**filters)
    listed = make_page(found, page, lambda trace: sort_position(getattr(trace, sort), trace.id), total, show=trace_json)
    return respond(listed)


@router.get(
    "/traces/export",
    response_class=Response,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def export_traces(engine: Reader, filters: Filters, format: ExportFormat = "jsonl") -> Response:
    """Stream every run as a line of JSON, oldest first: all its columns, or an example for an evaluation data set."""
    rows = engine.traces.export(format, **filters)
    # The first row is read before the response starts, so that an error still has its status.
    first = await anext(rows, None)
    return StreamingResponse(_lines(first, rows), media_type="application/x-ndjson")


@router.get("/traces/{id}", response_model=WholeTraceShape)
async def get_trace(
    id: Annotated[str, Path(max_length=200, description="The id, or at least its first four characters.")],
    engine: Reader,
) -> Response:
    """Return one run with its inputs, texts and verdicts."""
    trace = await engine.traces.get(id)
    return respond({**to_json(trace), "resumable": await engine.runs.can_resume(trace.id)})


@router.get("/stats", response_model=StatsShape)
async def read_stats(
    engine: Reader, by: GroupBy = "skill", skill: Slug = "", since: Since = "", days: Days = None
) -> Response:
    """Return runs, failures, assertions, tokens, cost and durations per skill, artifact, model, user or day, and in total."""
    return respond(await engine.traces.stats(by, skill=skill, days=_count_days(since, days)))


@router.get("/stats/series", response_model=ChartShape)
async def read_series(
    engine: Reader,
    by: SeriesBy = "skill",
    bucket: Annotated[Bucket, Query(description="Length of each bucket.")] = "day",
    skill: Slug = "",
    artifact: Text = "",
    status: Status = "",
    session: Text = "",
    model: Text = "",
    since: Since = "",
    days: Days = None,
    top: Annotated[int, Query(ge=1, le=50, description="Number of groups with their own series.")] = 8,
) -> Response:
    """Return runs, failures, costs, durations and failed assertions over time, for charts.

    The groups with most runs come first, and the rest together as `others`. All lists of a series are as long as
    `buckets`. Without `days` or `since`, the chart starts with the first run.
    """
    chart = await engine.traces.chart(
        by,
        bucket=bucket,
        skill=skill,
        artifact=artifact,
        status=status,
        session=session,
        model=model,
        days=_count_days(since, days),
        top=top,
    )
    return respond(chart)


async def _lines(first: dict[str, Any] | None, rest: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[bytes]:
    chunk = [] if first is None else [to_bytes(first), b"\n"]
    size = sum(map(len, chunk))
    async for row in rest:
        line = to_bytes(row)
        chunk += (line, b"\n")
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    yield b"".join(chunk)


def _count_days(since: str, days: float | None) -> float | None:
    """Return how many days back to look: since a time, or the given number."""
    if not since:
        return days
    try:
        parsed = datetime.fromisoformat(since)
    except ValueError as error:
        raise Invalid(f"Invalid time {since!r}.", hint="Use a time such as 2026-03-01T09:30:00Z.") from error
    start = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    # Further back than any run, and not so far that the subtraction would leave the calendar.
    return min(36_500.0, max(0.0, (datetime.now(UTC) - start).total_seconds() / _DAY_SECONDS))


def _position(page: PageQuery, sort: TraceSort) -> TracePosition | None:
    match page.after:
        case None:
            return None
        case [str(started), str(last)] if sort == "started_at":
            return started, last
        case [int() | float() as value, str(last)] if sort != "started_at" and abs(value) < _LARGEST:
            return value, last
        case _:
            raise invalid_cursor()
