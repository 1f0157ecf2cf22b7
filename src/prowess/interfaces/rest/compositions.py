"""Routes of compositions: draft a skill with a model, refine it, look at its rounds, and approve it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.authoring.compose.composer import MAX_CHARS
from prowess.authoring.compose.composition import Composition
from prowess.interfaces.rest.request import Body, Page, PageShape, Reader, Shape, WholeNumber, Writer, paginate, respond
from prowess.interfaces.rest.sessions import Name
from prowess.open import Prowess
from prowess.skill.model import Skill
from prowess.storage.compositions import CompositionState
from prowess.view import files_json

router = APIRouter(prefix="/compositions", tags=["compositions"])

CompositionId = Annotated[str, Path(max_length=200, description="The id of a composition, or its beginning.")]
RoundNumber = Annotated[int, Query(ge=1, description="Show this round (default: the current one).")]
Words = Annotated[str, Field(max_length=MAX_CHARS)]
MAX_LISTED = 1_000


class StartBody(Body):
    """The purpose of the skill, and the skill to change instead of creating a new one."""

    request: Words
    skill: Name = ""
    model: Name = ""


class RefineBody(Body):
    """The change to make. Leave it empty only to retry a first draft that failed."""

    feedback: Words = ""
    model: Name = ""


class BackBody(Body):
    """The round to go back to."""

    round: Annotated[WholeNumber, Field(ge=1)]


class ApproveCompositionBody(Body):
    """Exactly which files are approved, by their digest, and where the skill is saved."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    scope: Literal["workspace", "user", "org", "account"] | None = None
    allow_collision: StrictBool = Field(False, description="Save it even if another skill matches most of its queries.")


class ProposeBody(Body):
    """Where the skill is saved once a person has approved it."""

    scope: Literal["workspace", "user", "org", "account"] | None = None


class CompositionShape(Shape):
    """A skill that is being drafted. An agent gets no text that nobody has accepted."""

    id: str
    state: CompositionState


class RoundShape(Shape):
    """One draft, with what was found about it."""

    number: int
    digest: str
    ok: bool


class RoundFilesShape(Shape):
    """The files of a round, and what it changed."""

    files: list[dict[str, Any]]
    diff: str


class SavedShape(Shape):
    """The skill that was saved."""

    id: str
    slug: str
    scope: str
    digest: str


@router.post("", response_model=CompositionShape, status_code=201)
async def start_composition(body: StartBody, engine: Writer) -> Response:
    """Draft a skill, or a change of one, and return it with everything that was found about it. Needs `skills.run` too.

    Answers 502 if the model did not write a usable draft. The composition is kept, and can be refined without feedback.
    """
    composition = await engine.compose.start(body.request, skill=body.skill, model=body.model)
    return respond(_view(engine, composition), 201)


@router.get("", response_model=PageShape[CompositionShape])
async def list_compositions(
    engine: Reader,
    page: Page,
    state: Annotated[
        Literal["open", "saved", "discarded", ""], Query(description="Only compositions in this state.")
    ] = "",
) -> Response:
    """Return the caller's compositions without their rounds, the last changed first, at most 1,000."""
    found = await engine.compose.list(state=state or None, limit=MAX_LISTED)
    show = partial(_view, engine)
    return respond(paginate(found, page, lambda row: f"{row.updated_at} {row.id}", newest_first=True, show=show))


@router.get("/{id}", response_model=CompositionShape)
async def get_composition(id: CompositionId, engine: Reader, round: RoundNumber | None = None) -> Response:
    """Return one composition with its current round, or another one."""
    return respond(_view(engine, await engine.compose.show(id, round=round)))


@router.get("/{id}/rounds", response_model=list[RoundShape])
async def list_rounds(id: CompositionId, engine: Reader) -> Response:
    """Return all rounds, oldest first. Only a person sees them."""
    return respond(await engine.compose.rounds(id))


@router.get("/{id}/files", response_model=RoundFilesShape)
async def get_round_files(id: CompositionId, engine: Reader, round: RoundNumber | None = None) -> Response:
    """Return the files of a round, and what it changed. Only a person sees them."""
    composer = engine.compose
    package = await composer.files(id, round=round)
    return respond({"files": files_json(package), "diff": await composer.diff(id, round=round)})


@router.post("/{id}/refine", response_model=CompositionShape)
async def refine_composition(id: CompositionId, body: RefineBody, engine: Writer) -> Response:
    """Write the next round after feedback. Needs `skills.run` too. Answers 409 if someone else wrote one in the meantime."""
    return respond(_view(engine, await engine.compose.refine(id, body.feedback, model=body.model)))


@router.post("/{id}/back", response_model=CompositionShape)
async def go_back(id: CompositionId, body: BackBody, engine: Writer) -> Response:
    """Make an earlier round the current one. Later rounds are kept."""
    return respond(_view(engine, await engine.compose.back(id, body.round)))


@router.post("/{id}/approve", response_model=SavedShape)
async def approve_composition(id: CompositionId, body: ApproveCompositionBody, engine: Writer) -> Response:
    """Save the current round as a skill that the caller accepts. Only a person can do this. Answers 409 for other files."""
    saved = await engine.compose.approve(id, digest=body.digest, scope=body.scope, allow_collision=body.allow_collision)
    return respond(_saved_json(saved))


@router.post("/{id}/propose", response_model=SavedShape)
async def propose_composition(id: CompositionId, body: ProposeBody, engine: Writer) -> Response:
    """Ask a person to approve the current round; once they have, the same request saves it. For agents."""
    saved = await engine.compose.propose(id, scope=body.scope)
    return respond(_saved_json(saved))


def _saved_json(skill: Skill) -> dict[str, str]:
    return {"id": skill.id, "slug": skill.slug, "scope": skill.scope, "digest": skill.digest}


@router.post("/{id}/discard", response_model=CompositionShape)
async def discard_composition(id: CompositionId, engine: Writer) -> Response:
    """End a composition without saving anything."""
    return respond(_view(engine, await engine.compose.discard(id)))


def _view(engine: Prowess, composition: Composition) -> dict[str, Any]:
    """Return a composition as the caller may see it."""
    return composition.as_json() if engine.actor.is_person else composition.as_agent_json()
