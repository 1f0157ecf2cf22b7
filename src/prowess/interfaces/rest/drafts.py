"""Routes of the editor: what a document would be, which messages it would be offered for, and the kinds of artifact."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from prowess.engine.engine import Engine
from prowess.interfaces.rest.packages import FindingShape
from prowess.interfaces.rest.request import Body, Reader, Runner, Shape, respond, shape_of
from prowess.interfaces.rest.skills import FileTexts, ProblemShape, SkillId, WritableScope, file_pairs
from prowess.skill.draft import SkillDraft
from prowess.skill.kinds import KINDS
from prowess.skill.needs import Reach
from prowess.skill.positions import Position

router = APIRouter(tags=["editor"])

MAX_MESSAGES = 50
_Message = Annotated[str, Field(min_length=1, max_length=20_000)]


@shape_of(Position)
class PositionShape(Shape):
    """A part of a line. Lines and columns are counted from 1; columns in UTF-16 code units, as editors count them."""


class PlacedProblemShape(ProblemShape):
    """A problem of a draft, and where it is."""

    place: PositionShape


class ArtifactShape(Shape):
    """An artifact with its text. `content` is null for a file that is not text. `variables` are those of a template."""

    kind: str
    name: str
    ordinal: int
    content: str | None
    path: str | None
    variant: str | None
    fallback: str | None
    assertions: list[dict[str, Any]]
    metadata: dict[str, Any]
    size: int
    variables: list[str]
    runs: bool = Field(description="True if it is part of a run of the skill.")


class ReachShape(Shape):
    """The permissions that a skill requests, and what its runs can access."""

    requests: list[str]
    reach: Reach = Field(
        description="`machine`; or `outside`: declared hosts, variables and folders. Empty if a run stays in the sandbox."
    )
    sends_out: bool = Field(description="True if a run reaches hosts as well as files, pages or variables.")


class BudgetEffectShape(Shape):
    """The budget of a session, or of a new one, in characters: now, and once the draft is enabled."""

    session: str
    used: int
    max: int
    after: int
    fits: bool


class DraftShape(ReachShape):
    """A document as a draft. `slug` is the one in the document, or a suggestion.

    `block` is the text that it would put into a prompt; `content_length` is its number of characters, and `tokens` an estimate.
    """

    frontmatter: dict[str, Any]
    body: str
    body_line: int
    slug: str
    name: str
    description: str
    version: str
    author: str | None
    tags: list[str]
    content_length: int
    ok: bool
    form: str
    digest: str
    problems: list[PlacedProblemShape]
    artifacts: list[ArtifactShape]
    block: str
    tokens: int
    budget: BudgetEffectShape
    findings: list[FindingShape]


class RivalShape(Shape):
    """A skill in the ranking of a message; `draft` is true for the draft itself."""

    place: int
    slug: str
    title: str
    score: float
    decision: Literal["offer", "maybe", "no"]
    why: str
    draft: bool


class TrialShape(Shape):
    """Whether the draft would be offered for a message. `place` is null if it is not near the top of the ranking."""

    message: str
    decision: Literal["offer", "maybe", "no"]
    score: float | None
    place: int | None
    why: str
    evidence: list[dict[str, Any]]
    ranking: list[RivalShape]


class TrialsShape(Shape):
    """One trial for each message, in the same order."""

    items: list[TrialShape]


class KindShape(Shape):
    """A kind of artifact: where its files are, and what a run of it does."""

    name: str
    folder: str
    suffix: str
    root_files: list[str]
    in_prompt: bool
    runs: bool
    is_tool: bool
    reaches: str
    runs_code: bool
    gives: str


class KindsShape(Shape):
    """All kinds of artifact."""

    items: list[KindShape]


class ArtifactsShape(ReachShape):
    """The artifacts of a skill, and what it may reach. `parameters` is the JSON Schema of its inputs, if it has one."""

    slug: str
    digest: str
    parameters: dict[str, Any] | None
    artifacts: list[ArtifactShape]


class DraftBody(Body):
    """A skill that is being written: its document, other files of it, and the stored skill that it changes."""

    content: str = Field(max_length=2_000_000, description="Markdown with frontmatter.")
    files: FileTexts = None
    skill: str = Field(default="", max_length=250, description="The stored skill that it changes: id or address.")


class ParseBody(DraftBody):
    """A draft to read, and the session in which it would be enabled."""

    scope: WritableScope = Field(default="org", description="The scope of a new skill.")
    session: str = Field(default="", max_length=300, description="The session whose budget is used.")


class TrialBody(DraftBody):
    """A draft, and messages to try it with."""

    messages: Annotated[list[_Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    context: str = Field(
        default="", max_length=100_000, description="Earlier messages. They count less than the message itself."
    )


class RenderBody(DraftBody):
    """A draft, one of its templates by name, and the inputs."""

    artifact: Annotated[str, Field(min_length=1, max_length=500)]
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])


class RenderedShape(Shape):
    """The prompt that would be sent."""

    artifact: str
    text: str
    chars: int


@router.post("/skills/parse", response_model=DraftShape, summary="Preview a document")
async def parse_skill(body: ParseBody, engine: Reader) -> Response:
    """Read a document as a draft: its fields, artifacts, prompt block and budget, and every problem with its place.

    With `skill`, `content` and `files` replace files of that skill, and the others stay. Nothing is stored or run.
    """
    preview = await engine.skills.drafts.preview(
        _draft(body), skill=await _find_skill(engine, body), scope=body.scope, session=body.session
    )
    return respond(preview)


@router.post("/skills/trigger-test", response_model=TrialsShape, summary="Test the triggers of a document")
async def test_triggers(body: TrialBody, engine: Reader) -> Response:
    """Return for each message whether the draft would be offered, in competition with the stored skills. Uses no model."""
    skill = await _find_skill(engine, body)
    trials = await engine.skills.drafts.try_messages(_draft(body), body.messages, skill=skill, context=body.context)
    return respond({"items": trials})


@router.post("/skills/render", response_model=RenderedShape, summary="Render a template of a document")
async def render_template(body: RenderBody, engine: Runner) -> Response:
    """Return the prompt that a template of the draft makes of some inputs. Nothing is stored or sent to a model."""
    skill = await _find_skill(engine, body)
    return respond(await engine.skills.drafts.render(_draft(body), body.artifact, body.inputs, skill=skill))


@router.get("/kinds", response_model=KindsShape, summary="List the kinds of artifact")
async def list_kinds(engine: Reader) -> Response:  # noqa: ARG001  (takes the permission)
    """Return every kind of artifact, with those of plugins: where its files are, and what running it does."""
    rows = [
        {
            "name": kind.name,
            "folder": kind.folder,
            "suffix": kind.writes,
            "root_files": list(kind.root_files),
            "in_prompt": kind.in_prompt,
            "runs": kind.in_run == "work",
            "is_tool": kind.is_tool,
            "reaches": kind.reaches,
            "runs_code": kind.runs_code,
            "gives": kind.gives,
        }
        for kind in KINDS.values()
    ]
    return respond({"items": rows})


@router.get("/skills/{id}/artifacts", response_model=ArtifactsShape, summary="List the artifacts of a skill")
async def list_artifacts(id: SkillId, engine: Reader) -> Response:
    """Return the artifacts of a skill with their texts and settings, and what the skill can access."""
    return respond(await engine.skills.drafts.artifacts(await engine.skills.locate(id)))


async def _find_skill(engine: Engine, body: DraftBody) -> str:
    """Return the address of the stored skill that a draft changes; '' for a new one."""
    return await engine.skills.locate(body.skill) if body.skill else ""


def _draft(body: DraftBody) -> SkillDraft:
    return SkillDraft(content=body.content, files=file_pairs(body.files))
