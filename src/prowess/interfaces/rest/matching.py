"""Routes of matching: which skills fit a message, why, the index for a prompt, and how much skills are used."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.feed.usage import NEVER_USED, FileUsage, UsageReport
from prowess.interfaces.rest.request import Body, Reader, Shape, WholeNumber, respond, shape_of
from prowess.interfaces.rest.skills import SkillId
from prowess.match.recommendation import Recommendation
from prowess.session.explanation import Explanation, Step
from prowess.skill.model import Scope
from prowess.view import to_json, usage_json

router = APIRouter(tags=["matching"])

MAX_MESSAGE_CHARS = 100_000
_Tags = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
_Limit = Annotated[WholeNumber, Field(ge=1, le=200)]


class EvidenceShape(Shape):
    """The words of a message that were found in one field of a skill."""

    field: str
    count: int
    terms: list[str]


@shape_of(Recommendation, without=("signals",))
class MatchShape(Shape):
    """A skill for a message. `score` estimates from 0 to 1 how likely it fits."""

    evidence: list[EvidenceShape]


class MatchesShape(Shape):
    """The skills for a message, best first."""

    items: list[MatchShape]


@shape_of(Recommendation, without=("signals",))
class SearchHitShape(Shape):
    """A skill that was searched for. `score` and `decision` are null without a query, because then nothing was ranked."""

    evidence: list[EvidenceShape]
    score: float | None
    decision: Literal["offer", "maybe", "no"] | None


class SearchHitsShape(Shape):
    """The skills that were searched for, best first."""

    items: list[SearchHitShape]


@shape_of(Step, without=("signals", "fields"))
class StepShape(Shape):
    """Why one skill was or was not offered, and what enabling it would do."""

    decision: Literal["offer", "maybe", "no"]
    choice: str


@shape_of(Explanation)
class ExplanationShape(Shape):
    """Why each skill was or was not offered for a message."""

    steps: list[StepShape]


class IndexEntryShape(Shape):
    """How a skill is listed."""

    slug: str
    form: Literal["full", "short", "name", "omitted"]
    text: str


class IndexShape(Shape):
    """The list of skills for a system prompt."""

    text: str
    chars: int
    omitted: int
    entries: list[IndexEntryShape]


class SkillUsageShape(Shape):
    """How a skill was used."""

    slug: str
    title: str
    scope: Scope
    loads: int
    runs: int
    last_loaded: str | None
    last_run: str | None
    last_enabled: str | None


@shape_of(FileUsage)
class FileUsageShape(Shape):
    """How often a reference or script was loaded."""


@shape_of(UsageReport)
class UsageShape(Shape):
    """Which skills and files were loaded in the last days, and which were not."""

    files: list[FileUsageShape]
    unused_files: list[FileUsageShape]


class MatchBody(Body):
    """A message. `context` is the earlier conversation, which counts less; `all` returns the whole ranking."""

    message: str = Field(max_length=MAX_MESSAGE_CHARS)
    limit: _Limit = 5
    tags: _Tags = Field(default_factory=list)
    context: str = Field(default="", max_length=MAX_MESSAGE_CHARS)
    all: StrictBool = False
    explain: StrictBool = Field(default=False, description="Add the signals behind each score.")


class SearchBody(Body):
    """A search query; without one, all skills with the tags, by slug."""

    query: str = Field(default="", max_length=MAX_MESSAGE_CHARS)
    limit: _Limit = 20
    tags: _Tags = Field(default_factory=list)
    explain: StrictBool = Field(default=False, description="Add the signals behind each score.")


class WhyBody(Body):
    """A message, and the session in which it was sent."""

    message: str = Field(max_length=MAX_MESSAGE_CHARS)
    session: str = Field(default="", max_length=200)
    limit: _Limit = 10
    skill: str = Field(default="", max_length=200, description="Explain only this skill, by its slug.")


@router.post("/match", response_model=MatchesShape, summary="Match a message")
async def match_message(body: MatchBody, engine: Reader) -> Response:
    """Return the skills that match a message, best first, with reasons. Uses no model."""
    find = engine.skills.rank if body.all else engine.match
    found = await find(body.message, limit=body.limit, tags=body.tags, context=body.context)
    return respond({"items": [item.as_json(explain=body.explain) for item in found]})


@router.post("/search", response_model=SearchHitsShape, summary="Search skills")
async def search_skills(body: SearchBody, engine: Reader) -> Response:
    """Return the skills that match a search query, best first."""
    found = await engine.skills.search(body.query, limit=body.limit, tags=body.tags)
    unranked = {} if body.query.strip() else {"score": None, "decision": None}
    return respond({"items": [{**item.as_json(explain=body.explain), **unranked} for item in found]})


@router.post("/why", response_model=ExplanationShape, summary="Explain a match")
async def explain_match(body: WhyBody, engine: Reader) -> Response:
    """Explain why each skill, or one skill, was or was not offered for a message, and whether it could be enabled. Changes nothing."""
    return respond(await engine.why(body.message, session=body.session, limit=body.limit, skill=body.skill))


@router.get("/index", response_model=IndexShape, summary="Get the index of skills for a prompt")
async def read_index(
    engine: Reader,
    message: Annotated[str, Query(max_length=2_000, description="Skills that match this message come first.")] = "",
    session: Annotated[str, Query(max_length=200, description="The session whose context window is used.")] = "",
    budget: Annotated[int | None, Query(ge=0, le=1_000_000, description="Maximum number of characters.")] = None,
) -> Response:
    """Return the list of available skills for a system prompt, within a budget of characters."""
    plan = await engine.index(message, session=session, budget=budget)
    entries = [{"slug": entry.slug, "form": entry.form, "text": entry.text} for entry in plan.entries]
    return respond({"text": plan.text, "chars": plan.chars, "omitted": plan.omitted, "entries": entries})


@router.get("/skills/{id}/usage", response_model=SkillUsageShape, summary="Get how a skill was used")
async def read_skill_usage(id: SkillId, engine: Reader) -> Response:
    """Return how often a skill was loaded and run, and when it was last used."""
    row = await engine.skills.row(await engine.skills.locate(id))
    usage = dict(await engine.skills.uses()).get(row.slug, NEVER_USED)
    return respond(usage_json(row.slug, row.name, row.scope, usage))


@router.get("/usage", response_model=UsageShape, summary="Get how skills were used")
async def read_usage(
    engine: Reader, days: Annotated[float, Query(gt=0, le=3_650, description="How many days back.")] = 30
) -> Response:
    """Report which skills, references and scripts were loaded, and which can be retired."""
    return respond(to_json(await engine.skills.usage(days=days)))
