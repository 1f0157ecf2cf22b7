"""The route of the summary: what is there, what is running, what it costs, and what waits for the caller."""

from __future__ import annotations

import asyncio
from collections import Counter

from fastapi import APIRouter
from starlette.responses import Response

from prowess.engine.skill_overview import OverviewQuery
from prowess.interfaces.rest.request import Reader, Shape, respond
from prowess.interfaces.rest.traces import FiguresShape
from prowess.storage.jobs import JobState

router = APIRouter(tags=["summary"])

_OPEN_JOBS: tuple[JobState, ...] = ("queued", "running", "waiting")


class SkillCountsShape(Shape):
    """How many skills there are, also by scope."""

    total: int
    scopes: dict[str, int]
    off: int


class SummaryShape(Shape):
    """What is there and what waits.

    `conversations` and `jobs` count those of the caller by their state. `today` has the runs of the last 24 hours.
    """

    skills: SkillCountsShape
    approvals: int
    optimizations: int
    conversations: dict[str, int]
    jobs: dict[str, int]
    today: FiguresShape


@router.get("/summary", response_model=SummaryShape)
async def read_summary(engine: Reader) -> Response:
    """Return counts for a first look: skills, pending approvals, proposals to accept, what is running, and what it cost."""
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
