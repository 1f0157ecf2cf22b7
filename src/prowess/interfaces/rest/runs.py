"""Routes that run skills: the answer as JSON, or the progress and the answer as server-sent events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.rest.problems import problem_json, problem_response
from prowess.interfaces.rest.request import Body, Runner, Shape, respond, shape_of
from prowess.interfaces.rest.sessions import Name, SessionId
from prowess.interfaces.rest.skills import SkillId
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
from prowess.run.request import RunRequest, Step
from prowess.run.result import ProducedFile, RunResult

router = APIRouter(tags=["runs"])

MAX_WAITING_CHARS = 256 * 1024
"""How much text of a model waits for a slow client; the rest is left out, and the answer at the end has all of it."""


class RunBody(Body):
    """Inputs, artifacts and limits of a run. Without artifacts, the whole skill runs."""

    artifacts: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list[str])
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])
    model: Name = ""
    evaluation_model: Name = ""
    timeout: Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)] | None = Field(
        None, description="Time limit for each artifact, in seconds."
    )
    dry_run: StrictBool = Field(False, description="Return what would be sent or executed, without doing it.")
    resume: Name = Field("", description="The trace of an interrupted run, to resume it from its last checkpoint.")


class SessionRunBody(RunBody):
    """A skill to run in a session."""

    skill_slug: Name


class RunErrorShape(Shape):
    """Why a run, or one artifact of it, failed."""

    code: str
    message: str


class VerdictShape(Shape):
    """The verdict of one assertion."""

    type: str
    description: str
    passed: bool
    severity: str
    explanation: str


class RunPartShape(Shape):
    """One artifact that ran."""

    artifact: str
    kind: str
    variant: str | None
    status: str
    trace: str
    traced: bool
    output: Any
    result: dict[str, Any]
    verdicts: list[VerdictShape]
    error: RunErrorShape | None
    fallback_of: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    duration_ms: int
    receipt: dict[str, Any] | None
    resumable: bool


@shape_of(ProducedFile)
class ProducedShape(Shape):
    """A file that the run produced."""


class RunShape(Shape):
    """The result of a run: its last output, and each artifact that ran."""

    run_id: str
    skill: str
    ok: bool
    output: Any
    parts: list[RunPartShape]
    produced: list[ProducedShape]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    error: RunErrorShape | None


_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"description": f"The result, or with `Accept: {EVENT_STREAM}` a stream of events.", **STREAM_RESPONSE}
}


@router.post("/skills/{id}/run", response_model=RunShape, responses=_STREAMED)
async def run_skill(
    request: Request,
    id: SkillId,
    body: RunBody,
    engine: Runner,
) -> Response:
    """Run a skill outside any session. If the run fails, the response has the error, and the result in `run`.

    With `Accept: text/event-stream` the answer is a stream of the events `step` and `text`, and at the end `result` or
    `error`. If the client disconnects, the run is cancelled.
    """
    return await _run(request, engine, _make_request(await engine.skills.locate(id), body))


@router.post("/sessions/{id}/run", response_model=RunShape, responses=_STREAMED)
async def run_in_session(request: Request, id: SessionId, body: SessionRunBody, engine: Runner) -> Response:
    """Run a skill in a session, with its role and model. The response is the same as that of `/skills/{id}/run`."""
    session = await engine.sessions.get(id)
    return await _run(request, engine, _make_request(body.skill_slug, body, session=session.id))


def _make_request(slug: str, body: RunBody, *, session: str = "") -> RunRequest:
    options = body.model_dump(exclude={"skill_slug", "artifacts", "inputs"})
    return RunRequest(slug=slug, artifacts=tuple(body.artifacts), inputs=body.inputs, session=session, **options)


async def _run(request: Request, engine: Engine, run_request: RunRequest) -> Response:
    if wants_stream(request):
        return await _RunStream(engine, run_request).respond(request)
    result = await unless_gone(request, engine.runs.attempt(run_request))
    if result.error is not None:
        return problem_response(result.error, {"run": result.as_json()})
    return respond(result)


class _RunStream:
    """One run and its progress, as frames for one client."""

    def __init__(self, engine: Engine, run_request: RunRequest) -> None:
        self._steps: deque[Step] = deque()
        self._waiting_chars = 0
        self._changed = asyncio.Event()
        watched = replace(run_request, on_step=self._add, on_setup=self._add_setup)
        self._task = asyncio.create_task(engine.runs.attempt(watched))
        self._task.add_done_callback(lambda _: self._changed.set())

    async def respond(self, request: Request) -> Response:
        """Return the stream once the run has started, or raise the error that prevents it."""
        try:
            await unless_gone(request, self._changed.wait())
            if self._task.done():
                self._task.result()
        except BaseException:
            await end_tasks(self._task)
            raise
        return StreamResponse(self._send(), stop=lambda: end_tasks(self._task), ping=HEARTBEAT_SECONDS)

    def _add_setup(self, message: str) -> None:
        self._add(Step(artifact="", state=message))

    def _add(self, step: Step) -> None:
        if step.text:
            room = MAX_WAITING_CHARS - self._waiting_chars
            step = replace(step, text=step.text[: max(0, room)])
            self._waiting_chars += len(step.text)
            last = self._steps[-1] if self._steps else None
            # Pieces that wait for the client are sent together.
            if last is not None and last.text and last.artifact == step.artifact:
                step = replace(step, text=self._steps.pop().text + step.text)
        if step.text or step.state:
            self._steps.append(step)
            self._changed.set()

    async def _send(self) -> AsyncGenerator[bytes]:
        while not self._task.done() or self._steps:
            self._changed.clear()
            while self._steps:
                step = self._steps.popleft()
                self._waiting_chars -= len(step.text)
                yield _step_frame(step)
            if not self._task.done():
                await self._changed.wait()
        yield _end_frame(self._task)


def _step_frame(step: Step) -> bytes:
    if step.text:
        return frame("text", {"artifact": step.artifact, "text": step.text})
    return frame("step", {"artifact": step.artifact, "state": step.state, "detail": step.detail})


def _end_frame(task: asyncio.Task[RunResult]) -> bytes:
    try:
        result = task.result()
    except ProwessError as error:
        return frame("error", problem_json(error))
    if result.error is not None:
        return frame("error", {**problem_json(result.error), "run": result.as_json()})
    return frame("result", result)
