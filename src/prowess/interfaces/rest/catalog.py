"""Routes of the overview: all skills as the rows of a list, thousands at once, with counts by scope and tag, and a summary."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from prowess.engine.skill_overview import MAX_ROWS, OverviewQuery, OverviewSort
from prowess.interfaces.rest.request import Reader, Shape, respond, to_bytes
from prowess.interfaces.rest.traces import FiguresShape
from prowess.skill.model import Scope
from prowess.storage.jobs import JobState

router = APIRouter(tags=["catalog"])


class CatalogMatchShape(Shape):
    """How well a skill fits the search, and why. `score` is null if it only contains the words."""

    score: float | None
    decision: Literal["offer", "maybe", "no"]
    why: str


class OverviewRowShape(Shape):
    """A skill in a list. `address` identifies it, and `match` is there in a search."""

    address: str
    slug: str
    name: str
    description: str
    version: str
    scope: Scope
    source: str
    tags: list[str]
    kinds: list[str]
    content_length: int
    digest: str
    hides: list[str]
    enabled: bool
    people_only: bool
    trust: str
    dangers: int | None
    score: float | None
    match: CatalogMatchShape | None = None


class TagShape(Shape):
    """A tag, and how many of the skills have it."""

    name: str
    count: int


class FacetsShape(Shape):
    """How many skills there are of each kind. `scopes` counts them whatever `scope` asks for, and `dangers` those with severe findings."""

    scopes: dict[str, int]
    tags: list[TagShape]
    kinds: dict[str, int]
    enabled: dict[str, int]
    dangers: int


class OverviewShape(Shape):
    """Rows of a list from `offset` on, and the total number."""

    items: list[OverviewRowShape]
    total: int
    offset: int
    facets: FacetsShape | None


@router.get("/catalog", response_model=OverviewShape, summary="List skills for a screen")
async def read_catalog(
    engine: Reader,
    q: Annotated[
        str, Query(max_length=2_000, description="A search: the matcher's results, then skills with these words.")
    ] = "",
    scope: Annotated[
        list[Scope] | None, Query(description="Only skills of these scopes. Repeat it for several.")
    ] = None,
    tags: Annotated[
        list[str] | None, Query(description="Tags that the skill must have. Repeat it, or separate tags by commas.")
    ] = None,
    enabled: Annotated[bool | None, Query(description="Only skills that are switched on, or off.")] = None,
    sort: Annotated[
        OverviewSort | None, Query(description="Default: best match first in a search, otherwise by slug.")
    ] = None,
    descending: Annotated[bool, Query(description="Reverse the order.")] = False,
    offset: Annotated[int, Query(ge=0, le=10_000_000, description="How many rows to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="How many rows to return.")] = 500,
    facets: Annotated[bool, Query(description="Count the skills of each scope, tag and kind.")] = False,
) -> Response:
    """Return the available skills as rows of a list, with what they hide, how far they are trusted, and their scores.

    Descriptions are shortened. If several scopes have a slug, the nearest one is listed.
    """
    found = await engine.skills.overview(
        OverviewQuery(
            text=q,
            scopes=frozenset(scope or ()),
            tags=frozenset(tag for text in tags or () for tag in text.split(",") if tag),
            enabled=enabled,
            sort=sort,
            descending=descending,
            offset=offset,
            limit=limit,
            facets=facets,
        )
    )
    body = b'{"items":%b,"total":%d,"offset":%d,"facets":%b}'
    content = body % (found.items_json, found.total, offset, to_bytes(found.facets))
    return Response(content, headers={"content-type": "application/json"})


summary_router = APIRouter(tags=["summary"])

_OPEN_JOBS: tuple[JobState, ...] = ("queued", "running", "waiting")


class SkillCountsShape(Shape):
    """Number of skills, in total and by scope."""

    total: int
    scopes: dict[str, int]
    off: int


class SummaryShape(Shape):
    """Counts of skills, and of everything that runs or waits.

    `conversations` and `jobs` count those of the caller by their state. `today` has the runs of the last 24 hours.
    """

    skills: SkillCountsShape
    approvals: int
    optimizations: int
    conversations: dict[str, int]
    jobs: dict[str, int]
    today: FiguresShape


@summary_router.get("/summary", response_model=SummaryShape)
async def read_summary(engine: Reader) -> Response:
    """Return counts for an overview: skills, pending approvals, proposals to accept, running work, and costs."""
    overview, approvals, proposed, conversations, stats = await asyncio.gather(
        engine.skills.overview(OverviewQuery(limit=1, facets=True)),
        engine.approvals.list(("pending",)),
        engine.optimize.count(states=("proposed",)),
        engine.agent.list(),
        engine.traces.stats("model", days=1),
    )
    jobs = {state: await engine.jobs.count(states=(state,)) for state in _OPEN_JOBS}
    facets = overview.facets or {}
    return respond(
        {
            "skills": {"total": overview.total, "scopes": facets["scopes"], "off": facets["enabled"]["off"]},
            "approvals": len(approvals),
            "optimizations": proposed,
            "conversations": dict(Counter(row.state for row in conversations)),
            "jobs": jobs,
            "today": stats.total,
        }
    )
