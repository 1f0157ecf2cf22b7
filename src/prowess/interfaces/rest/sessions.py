"""Routes of sessions: what is enabled in a conversation, its prompt, and single texts of skills."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import Response

from prowess.interfaces.rest.request import Body, Page, PageShape, Reader, Shape, make_page, respond
from prowess.session.prompt import join_blocks, replace_blocks
from prowess.session.turn import TurnAction, TurnDecision
from prowess.view import session_json, turn_json

router = APIRouter(prefix="/sessions", tags=["sessions"])

SessionId = Annotated[str, Path(max_length=300, description="The id of a session, or its conversation.")]
Text = Annotated[str, Field(max_length=2_000_000)]
Name = Annotated[str, Field(max_length=500)]
Number = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]


class EnabledShape(Shape):
    """A skill whose text is in the prompt."""

    name: str
    slug: str
    content_length: int
    source_type: Literal["catalog", "registry"]
    digest: str
    scope: str
    tokens: int
    enabled_at: str
    by: str
    trust: str
    approval_id: str | None


class SessionShape(Shape):
    """A conversation, the skills enabled in it, and its budget."""

    id: str
    organization_id: str
    user_id: str
    conversation: str
    actor: str
    role: str
    model: str
    window: int | None
    enabled_skills: list[EnabledShape]
    budget_used_chars: int
    budget_max_chars: int
    budget_used_tokens: int
    created_at: str
    updated_at: str


class SessionBody(Body):
    """A conversation to open. Without a name, a new one is always created."""

    conversation: Name = ""
    role: Name = ""
    model: Name = ""
    window: Number | None = Field(None, description="The context window of the model, in tokens.")
    budget: Number | None = Field(None, description="Prompt budget, in characters. Default: the organization's.")


class SessionChange(Body):
    """New values of a session. Values that are left out do not change."""

    model: Name | None = None
    window: Number | None = None
    budget: Number | None = None


class PromptBody(Body):
    """Texts that come before the skills in the prompt, and the prompt in which older blocks are replaced."""

    policies: Text = ""
    memory: Text = ""
    graph_context: Text = ""
    into: Text = ""


class PromptShape(Shape):
    """The system prompt: as one text, and as blocks in order."""

    text: str
    blocks: list[str]


class EnableBody(Body):
    """The skill to enable, and the reason, which is shown to the approver."""

    skill_slug: Name
    reason: Annotated[str, Field(max_length=4_000)] = ""


class DisableBody(Body):
    """The skill to disable."""

    skill_slug: Name


class LoadBody(Body):
    """The skill to load: its instructions, or a reference, a script or both by name."""

    skill_slug: Name
    reference: Name | None = None
    script: Name | None = None


class LoadShape(Shape):
    """A loaded text of a skill."""

    name: str
    body: str | None
    available_references: list[str]
    available_scripts: list[str]
    reference_content: str | None
    script_content: str | None
    error: None


class DecideBody(Body):
    """A message, and what an orchestrator decided about it. Without an action, the ranking decides."""

    message: Annotated[str, Field(max_length=100_000)]
    context: Annotated[
        str, Field(max_length=400_000, description="Earlier messages. They count less than the message itself.")
    ] = ""
    limit: Annotated[int, Field(strict=True, ge=1, le=50)] = 5
    action: TurnAction | None = None
    skill: Name = ""
    artifacts: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list[str])
    reason: Annotated[str, Field(max_length=4_000)] = ""


class DecisionShape(Shape):
    """The decision about a message."""

    action: TurnAction
    skill: str | None
    artifacts: list[str]
    reason: str


class TurnShape(Shape):
    """The context of a message, the decision about it, and the resulting prompt."""

    context: dict[str, Any]
    decision: DecisionShape
    text: str
    artifacts: list[dict[str, Any]]
    session: SessionShape


@router.post("", response_model=SessionShape)
async def open_session(body: SessionBody, engine: Reader) -> Response:
    """Return the open session of a conversation, or create it."""
    session = await engine.sessions.open(
        body.conversation, role=body.role, model=body.model, window=body.window, budget=body.budget
    )
    return respond(session_json(session))


@router.get("", response_model=PageShape[SessionShape])
async def list_sessions(engine: Reader, page: Page) -> Response:
    """Return the open sessions, last changed first."""
    found = await engine.sessions.list(limit=page.limit + 1, after=page.after_row)
    total = await engine.sessions.count()
    return respond(make_page(found, page, lambda session: session.position, total, show=session_json))


@router.get("/{id}", response_model=SessionShape)
async def get_session(id: SessionId, engine: Reader) -> Response:
    """Return one session."""
    return respond(session_json(await engine.sessions.get(id)))


@router.patch("/{id}", response_model=SessionShape)
async def change_session(id: SessionId, body: SessionChange, engine: Reader) -> Response:
    """Change the budget, the model or the context window. A budget below the current use does not remove skills."""
    changed = await engine.sessions.change(id, budget=body.budget, model=body.model, window=body.window)
    return respond(session_json(changed))


@router.delete("/{id}", status_code=204, response_class=Response)
async def close_session(id: SessionId, engine: Reader) -> Response:
    """Close a session and disable everything in it."""
    await engine.sessions.close(id)
    return Response(status_code=204)


@router.get("/{id}/prompt", response_model=PromptShape)
async def read_prompt(id: SessionId, engine: Reader) -> Response:
    """Return the system prompt: the text of each enabled skill, as it was admitted."""
    blocks = await engine.sessions.blocks(id)
    return respond({"text": join_blocks(blocks), "blocks": blocks})


@router.post("/{id}/prompt", response_model=PromptShape)
async def build_prompt(id: SessionId, body: PromptBody, engine: Reader) -> Response:
    """Return the system prompt with policies, memory and graph context before the skills, or merged into a prompt."""
    blocks = await engine.sessions.blocks(
        id, policies=body.policies, memory=body.memory, graph_context=body.graph_context
    )
    text = replace_blocks(body.into, blocks) if body.into else join_blocks(blocks)
    return respond({"text": text, "blocks": blocks})


@router.post("/{id}/enable", response_model=SessionShape)
async def enable_skill(id: SessionId, body: EnableBody, engine: Reader) -> Response:
    """Put a skill's text into the prompt. Answers 403 with `approval_id` or `budget` if that is not possible now."""
    return respond(session_json(await engine.enable(body.skill_slug, session=id, reason=body.reason)))


@router.post("/{id}/disable", response_model=SessionShape)
async def disable_skill(id: SessionId, body: DisableBody, engine: Reader) -> Response:
    """Take a skill's text out of the prompt, and free its budget."""
    return respond(session_json(await engine.disable(body.skill_slug, session=id)))


@router.post("/{id}/load", response_model=LoadShape)
async def load_skill(id: SessionId, body: LoadBody, engine: Reader) -> Response:
    """Return the instructions, a reference or a script of a skill once, without enabling it."""
    loaded = await engine.sessions.load(body.skill_slug, session=id, reference=body.reference, script=body.script)
    return respond(loaded)


@router.post("/{id}/decide", response_model=TurnShape)
async def decide(id: SessionId, body: DecideBody, engine: Reader) -> Response:
    """Carry out a decision about a message and record it: activate a skill, answer, do research, or ask the user."""
    package = await engine.turns.context(body.message, session=id, limit=body.limit, before=body.context)
    if body.action is None:
        decision = await engine.turns.suggest(package)
    else:
        decision = TurnDecision(
            action=body.action, skill=body.skill, artifacts=tuple(body.artifacts), reason=body.reason
        )
    turn = await engine.turns.decide(package, decision)
    return respond(turn_json(package, turn))
