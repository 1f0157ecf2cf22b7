"""Routes of conversations with the agent: send a message and follow the turn, resume one, and read what was said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any, cast

import anyio
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from prowess.agent.agent import Agent
from prowess.agent.conversation import ConversationFormat
from prowess.agent.updates import TurnEnded, TurnState, Update
from prowess.engine.engine import Engine
from prowess.errors import NotFound, ProwessError, TryLater
from prowess.interfaces.rest.problems import problem_json
from prowess.interfaces.rest.request import Body, Page, PageShape, Reader, Runner, Shape, paginate, respond
from prowess.interfaces.rest.sessions import Name, SessionId
from prowess.interfaces.rest.streams import (
    EVENT_STREAM,
    HEARTBEAT_SECONDS,
    STREAM_RESPONSE,
    StreamResponse,
    end_tasks,
    frame,
    unless_gone,
    wants_stream,
)
from prowess.open import Prowess

router = APIRouter(tags=["conversations"])

MAX_MESSAGE_CHARS = 100_000
MAX_LISTED = 1_000
MAX_WAITING = 1_000
"""How many updates wait for a slow client before the turn waits for it, too."""
_log = logging.getLogger(__name__)


class MessageBody(Body):
    """What the user says, and the model that answers."""

    message: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE_CHARS)]
    model: Name = ""


class ResumeBody(Body):
    """The model that goes on."""

    model: Name = ""


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


class MessageShape(Shape):
    """One message of a conversation."""

    number: int
    turn: int
    role: str
    text: str
    calls: list[dict[str, Any]]
    call_id: str
    name: str
    detail: dict[str, Any]
    created_at: str


class ConversationShape(Shape):
    """A conversation with the agent. Its id is the id of its session."""

    id: str
    name: str
    title: str
    state: str
    role: str
    model: str
    turns: int
    approvals: list[str]
    skills: list[str]
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    created_at: str
    updated_at: str


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
    goes away stops the turn; what was said so far is kept. A turn in the state `waiting` needs its approvals answered, then
    `/sessions/{id}/messages/resume`.
    """
    session, agent = await engine.sessions.get(id), _agent(engine)
    return await _play(request, session.id, lambda: agent.send(session.id, body.message, model=body.model))


@router.post("/sessions/{id}/messages/resume", response_model=TurnResultShape, responses=_STREAMED)
async def resume_turn(request: Request, id: SessionId, body: ResumeBody, engine: Runner) -> Response:
    """Go on with the last turn, once its approvals are answered or after a failure.

    The answer is that of `/sessions/{id}/messages`. A turn is still `waiting` if approvals are.
    """
    session, agent = await engine.sessions.get(id), _agent(engine)
    return await _play(request, session.id, lambda: agent.resume(session.id, model=body.model))


@router.get("/sessions/{id}/messages", response_model=PageShape[MessageShape])
async def list_messages(id: SessionId, engine: Reader, page: Page) -> Response:
    """Return what was said in a session, oldest first, with tool calls and their results."""
    try:
        messages = (await _agent(engine).get(id)).messages
    except NotFound:
        await engine.sessions.get(id)  # a session without a message is no error
        messages = ()
    return respond(paginate(messages, page, lambda message: f"{message.number:012d}"))


@router.delete("/sessions/{id}/messages", status_code=204, response_class=Response)
async def delete_conversation(id: SessionId, engine: Runner) -> Response:
    """Delete a conversation with everything that was said in it, and close its session."""
    await _agent(engine).delete(id)
    return Response(status_code=204)


@router.get("/sessions/{id}/messages/export", response_class=Response, responses={200: _EXPORTED})
async def export_conversation(
    id: SessionId,
    engine: Reader,
    format: Annotated[ConversationFormat, Query(description="The kind of document.")] = "json",
) -> Response:
    """Return a conversation as a document: JSON with everything, or Markdown to read."""
    text = await _agent(engine).export(id, format=format)
    return Response(text, media_type="application/json" if format == "json" else "text/markdown")


@router.get("/conversations", response_model=PageShape[ConversationShape])
async def list_conversations(engine: Reader, page: Page) -> Response:
    """Return the caller's conversations without their messages, last changed first, at most 1,000."""
    found = await _agent(engine).list(limit=MAX_LISTED)
    return respond(paginate(found, page, lambda one: f"{one.updated_at} {one.id}", newest_first=True))


@router.get("/conversations/{id}", response_model=ConversationShape)
async def get_conversation(id: SessionId, engine: Reader) -> Response:
    """Return one conversation, without its messages."""
    return respond(replace(await _agent(engine).get(id), messages=()))


def _agent(engine: Engine) -> Agent:
    return cast("Prowess", engine).agent


async def _play(request: Request, session: str, turn: Callable[[], AsyncGenerator[Update]]) -> Response:
    if wants_stream(request):
        return await _TurnStream(turn).respond(request)
    updates = await unless_gone(request, _collect(turn))
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


async def _collect(turn: Callable[[], AsyncGenerator[Update]]) -> list[Update]:
    async with aclosing(turn()) as updates:
        return [update async for update in updates]


class _TurnStream:
    """One turn, as frames for one client. The turn runs in a task of its own, which ends with the client."""

    def __init__(self, turn: Callable[[], AsyncGenerator[Update]]) -> None:
        self._send, self._received = anyio.create_memory_object_stream[Update](MAX_WAITING)
        self._begun = asyncio.Event()
        self._task = asyncio.create_task(self._play(turn))

    async def respond(self, request: Request) -> Response:
        """Return the stream once the turn has begun, or raise the error that prevents it."""
        try:
            await unless_gone(request, self._begun.wait())
            if self._task.done():
                self._task.result()
        except BaseException:
            await self._stop()
            raise
        return StreamResponse(
            self._frames(),
            stop=self._stop,
            # Ends the frames, too: the turn closes its side of the stream.
            on_shutdown=lambda: cast("None", self._task.cancel()),
            ping=HEARTBEAT_SECONDS,
        )

    async def _play(self, turn: Callable[[], AsyncGenerator[Update]]) -> None:
        try:
            with self._send:
                async with aclosing(turn()) as updates:
                    async for update in updates:
                        await self._send.send(update)
                        self._begun.set()
        finally:
            self._begun.set()

    async def _frames(self) -> AsyncGenerator[bytes]:
        async for update in self._received:
            yield frame(update.kind, update)
        await asyncio.wait([self._task])
        if self._task.cancelled():
            yield frame("error", problem_json(TryLater("The server is closing.", hint="Resume the turn later.")))
        elif (error := self._task.exception()) is not None:
            if not isinstance(error, ProwessError):
                _log.error("A turn failed unexpectedly.", exc_info=error)
                error = ProwessError("Internal error.", hint="See the server's log.")
            yield frame("error", problem_json(error))

    async def _stop(self) -> None:
        await end_tasks(self._task)
        self._received.close()
