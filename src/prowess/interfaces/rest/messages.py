"""Routes of conversations with the agent: send a message, follow and resume the turn, read what was said and remembered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.agent.agent import Agent
from prowess.agent.conversation import Conversation, ConversationFormat, ConversationMessage, RememberedFact
from prowess.agent.live_turns import LiveTurn, LiveTurns
from prowess.agent.memory import MAX_FACT_CHARS
from prowess.agent.updates import TurnEnded, TurnState, Update
from prowess.errors import Conflict, NotFound, ProwessError
from prowess.interfaces.rest.problems import problem_json
from prowess.interfaces.rest.request import (
    Body,
    Page,
    PageShape,
    Reader,
    Runner,
    Shape,
    caller_of,
    make_page,
    paginate,
    respond,
    shape_of,
)
from prowess.interfaces.rest.sessions import Name, SessionId
from prowess.interfaces.rest.streams import (
    EVENT_STREAM,
    HEARTBEAT_SECONDS,
    STREAM_RESPONSE,
    StreamResponse,
    frame,
    unless_gone,
    wants_stream,
)

router = APIRouter(tags=["conversations"])

MAX_MESSAGE_CHARS = 100_000
MAX_LISTED = 1_000
LOOK_SECONDS = 1.0
"""How often the conversation is looked at while another process works on its turn."""
_NO_MESSAGES = 2**31 - 1


class ResumeBody(Body):
    """The model that continues."""

    model: Name = ""
    background: StrictBool = Field(False, description="Continue the turn if the client disconnects.")


class MessageBody(ResumeBody):
    """The message of the user, and the model that answers."""

    message: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_CHARS)]


class ConversationChange(Body):
    """New values of a conversation; those that are left out stay."""

    title: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    model: Name | None = None


class ModelShape(Shape):
    """A model. `needs` says what is missing before it can answer; '' if it is ready."""

    name: str
    is_default: bool
    needs: str


class ModelListShape(Shape):
    """The models that a conversation can choose, the default first."""

    items: list[ModelShape]


class StoppedShape(Shape):
    """Whether a turn was stopped, and the state of the conversation now."""

    session: str
    stopped: bool
    state: str


class UpdateShape(Shape):
    """Something that happened in the turn; `kind` says what."""

    kind: str


class TurnResultShape(Shape):
    """A whole turn: how it ended, the answer, and everything that happened, in order."""

    session: str
    state: TurnState
    text: str
    approvals: list[str]
    error: dict[str, Any] | None
    updates: list[UpdateShape]


@shape_of(ConversationMessage)
class MessageShape(Shape):
    """One message of a conversation."""

    role: str


@shape_of(Conversation, without=("messages",))
class ConversationShape(Shape):
    """A conversation with the agent. Its id is the id of its session."""

    state: str


_EXPORTED: dict[str, Any] = {
    "description": "The document.",
    "content": {"application/json": {"schema": {"type": "object"}}, "text/markdown": {"schema": {"type": "string"}}},
}
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"description": f"The turn, or with `Accept: {EVENT_STREAM}` a stream of its updates.", **STREAM_RESPONSE}
}


@router.post("/sessions/{id}/messages", response_model=TurnResultShape, responses=_STREAMED)
async def send_message(request: Request, id: SessionId, body: MessageBody, engine: Runner) -> Response:
    """Send a message to the agent, in a session, and return the turn.

    With `Accept: text/event-stream`, the answer is a stream of updates, each an event named by its kind: `decided`, `text`,
    `tool_started`, `tool_ended`, `approval_needed`, `skills_changed`, and at the end `turn_ended` or `error`. A client that
    disconnects stops the turn, unless `background` is true: then `GET /sessions/{id}/messages/stream` follows the rest. What
    was said so far is kept. A turn in the state `waiting` needs its approvals answered, then
    `/sessions/{id}/messages/resume`.
    """
    session, agent = await engine.sessions.get(id), engine.agent
    turn = partial(agent.send, session.id, body.message, model=body.model)
    return await _start(request, agent, session.id, turn, body)


@router.post("/sessions/{id}/messages/resume", response_model=TurnResultShape, responses=_STREAMED)
async def resume_turn(request: Request, id: SessionId, body: ResumeBody, engine: Runner) -> Response:
    """Go on with the last turn, once its approvals are answered or after a failure.

    The answer is that of `/sessions/{id}/messages`. A turn is still `waiting` if approvals are.
    """
    session, agent = await engine.sessions.get(id), engine.agent
    turn = partial(agent.resume, session.id, model=body.model)
    return await _start(request, agent, session.id, turn, body)


@router.get(
    "/sessions/{id}/messages/stream",
    response_class=Response,
    responses={200: STREAM_RESPONSE, 204: {"description": "No turn is running."}},
)
async def follow_turn(request: Request, id: SessionId, engine: Reader) -> Response:
    """Follow the turn that is running, from its beginning; 204 if none is.

    The first event is `following`: `message` is what the user said, and `after` the number of the last message before the
    turn. The updates of the turn follow as in `/sessions/{id}/messages`, first those that were missed, with their text in
    one piece. If another process works on the turn (`here` is false), each message that it stores comes as the event
    `message`, and `ended_elsewhere` is the last.
    """
    session, agent = await engine.sessions.get(id), engine.agent
    live = _turns(request).find(session.id)
    if live is None:
        if await _state_of(agent, session.id) != "running":
            return Response(status_code=204)
        live = _turns(request).find(session.id)  # it may have started here in the meantime
    if live is not None:
        return StreamResponse(_frames(live, intro=True), stop=_nothing, on_shutdown=live.cancel, ping=HEARTBEAT_SECONDS)
    frames = _stored_frames(agent, session.id)
    return StreamResponse(frames, stop=_nothing, on_shutdown=lambda: None, ping=HEARTBEAT_SECONDS)


@router.post("/sessions/{id}/messages/stop", response_model=StoppedShape)
async def stop_turn(request: Request, id: SessionId, engine: Runner) -> Response:
    """Stop the turn that is running. What was said so far is kept, and the turn can be resumed.

    `stopped` is false if none is running. Answers 409 if another process works on it.
    """
    session = await engine.sessions.get(id)
    live = _turns(request).find(session.id)
    if live is None and await _state_of(engine.agent, session.id) == "running":
        live = _turns(request).find(session.id)  # it may have started here in the meantime
        if live is None:
            raise Conflict(
                "Another process of the server is working on this turn.",
                hint="Wait until it has ended, or repeat the request.",
            )
    if live is not None:
        await live.stop()
    state = await _state_of(engine.agent, session.id)
    return respond({"session": session.id, "stopped": live is not None, "state": state})


async def _state_of(agent: Agent, session: str) -> str:
    try:
        return (await agent.get(session, after=_NO_MESSAGES)).state
    except NotFound:
        return "idle"


@router.get("/sessions/{id}/messages", response_model=PageShape[MessageShape])
async def list_messages(
    id: SessionId,
    engine: Reader,
    page: Page,
    order: Annotated[Literal["oldest", "newest"], Query(description="Order of the messages.")] = "oldest",
) -> Response:
    """Return what was said in a session, with tool calls and their results."""
    try:
        found, total = await engine.agent.messages(
            id, limit=page.limit + 1, beyond=page.after_number(), newest_first=order == "newest"
        )
    except NotFound:
        await engine.sessions.get(id)  # a session without a message is no error
        found, total = [], 0
    return respond(make_page(found, page, lambda message: message.number, total))


@router.delete("/sessions/{id}/messages", status_code=204, response_class=Response)
async def delete_conversation(id: SessionId, engine: Runner) -> Response:
    """Delete a conversation with everything that was said in it, and close its session."""
    await engine.agent.delete(id)
    return Response(status_code=204)


@router.get("/sessions/{id}/messages/export", response_class=Response, responses={200: _EXPORTED})
async def export_conversation(
    id: SessionId,
    engine: Reader,
    format: Annotated[ConversationFormat, Query(description="The kind of document.")] = "json",
) -> Response:
    """Return a conversation as a document: JSON with everything, or Markdown to read."""
    text = await engine.agent.export(id, format=format)
    return Response(text, media_type="application/json" if format == "json" else "text/markdown")


@router.get("/conversations", response_model=PageShape[ConversationShape])
async def list_conversations(engine: Reader, page: Page) -> Response:
    """Return the caller's conversations without their messages, last changed first, at most 1,000."""
    found = await engine.agent.list(limit=MAX_LISTED)
    return respond(paginate(found, page, lambda row: f"{row.updated_at} {row.id}", newest_first=True))


@router.get("/models", response_model=ModelListShape)
async def list_models(engine: Reader) -> Response:
    """Return the models that a conversation can choose: those that are configured or on the server's machine, the default first.

    Another name of a [provider](models.md) can be chosen, too.
    """
    return respond({"items": await engine.agent.models()})


@router.patch("/conversations/{id}", response_model=ConversationShape)
async def change_conversation(id: SessionId, body: ConversationChange, engine: Runner) -> Response:
    """Rename a conversation, or choose the model that answers in it from the next turn on; '' is the default."""
    agent = engine.agent
    changed = await agent.get(id, after=_NO_MESSAGES)
    # The model first: it may be refused, and then nothing should have changed.
    if body.model is not None:
        changed = await agent.choose_model(changed.id, body.model)
    if body.title is not None:
        changed = await agent.rename(changed.id, body.title)
    return respond(changed)


@router.get("/conversations/{id}", response_model=ConversationShape)
async def get_conversation(id: SessionId, engine: Reader) -> Response:
    """Return one conversation, without its messages. `error` says why its last turn failed."""
    return respond(await engine.agent.get(id, after=_NO_MESSAGES))


def _turns(request: Request) -> LiveTurns:
    return request.app.state.turns


async def _start(
    request: Request, agent: Agent, session: str, turn: Callable[[], AsyncGenerator[Update]], body: ResumeBody
) -> Response:
    """Start a turn, and answer with its updates or its result."""
    message = body.message if isinstance(body, MessageBody) else ""
    owner, after = caller_of(request).actor.owner, await agent.count_messages(session)
    live = _turns(request).start(session, turn, owner=owner, message=message, after=after)
    stop = _nothing if body.background else live.stop
    try:
        await unless_gone(request, live.begin())
        if wants_stream(request):
            # Ends the frames, too.
            return StreamResponse(_frames(live), stop=stop, on_shutdown=live.cancel, ping=HEARTBEAT_SECONDS)
        updates = await unless_gone(request, _collect(live))
    except BaseException:
        await stop()
        raise
    ended = updates[-1]
    assert isinstance(ended, TurnEnded)  # noqa: S101  (every turn ends with this update)
    return respond(
        {
            "session": session,
            "state": ended.state,
            "text": ended.text,
            "approvals": list(ended.approvals),
            "error": ended.error,
            "updates": updates,
        }
    )


async def _nothing() -> None:
    pass


async def _collect(live: LiveTurn) -> list[Update]:
    return [update async for update in live.follow()]


async def _frames(live: LiveTurn, *, intro: bool = False) -> AsyncGenerator[bytes]:
    if intro:
        about = {"session": live.session, "here": True, "message": live.message, "after": live.after}
        yield frame("following", {**about, "started_at": live.started_at})
    try:
        async for update in live.follow():
            yield frame(update.kind, update)
    except ProwessError as error:
        yield frame("error", problem_json(error))


async def _stored_frames(agent: Agent, session: str) -> AsyncGenerator[bytes]:
    """Yield the messages of a turn that runs in another process as they are stored, and how it ended."""
    seen = await agent.count_messages(session)
    yield frame("following", {"session": session, "here": False, "message": "", "after": seen, "started_at": ""})
    while True:
        now = await agent.get(session, after=seen)
        for message in now.messages:
            seen = message.number
            yield frame("message", message)
        if now.state != "running":
            yield frame("ended_elsewhere", {"session": session, "state": now.state, "approvals": list(now.approvals)})
            return
        await asyncio.sleep(LOOK_SECONDS)


memory_router = APIRouter(prefix="/memory", tags=["memory"])


@shape_of(RememberedFact)
class FactShape(Shape):
    """A fact that is remembered for the caller."""


class FactBody(Body):
    """A fact, best as one short sentence."""

    text: Annotated[str, Field(min_length=1, max_length=MAX_FACT_CHARS)]


@memory_router.get("", response_model=PageShape[FactShape])
async def list_facts(engine: Reader, page: Page) -> Response:
    """Return the remembered facts of the caller, newest first."""
    facts = await engine.agent.memories()
    return respond(paginate(facts, page, lambda fact: f"{fact.created_at} {fact.id}", newest_first=True))


@memory_router.post("", status_code=201, response_model=FactShape)
async def remember_fact(body: FactBody, engine: Runner) -> Response:
    """Remember a fact for the caller's later conversations. Only a person can do this."""
    return respond(await engine.agent.remember(body.text), 201)


@memory_router.delete("/{id}", response_model=FactShape)
async def forget_fact(id: Annotated[str, Path(min_length=1, max_length=200)], engine: Runner) -> Response:
    """Forget a fact, and return it. Only a person can do this."""
    return respond(await engine.agent.forget(id))
