"""Run one artifact: find its handler, keep its deadline, check its output, record its trace, publish its events.

If the artifact is unavailable and names a fallback, the fallback runs instead; both leave a trace.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from prowess.errors import (
    AssertionFailed,
    Invalid,
    NoHandler,
    OutputInvalid,
    ProwessError,
    Refused,
    RunFailed,
    TimedOut,
    Unavailable,
)
from prowess.redaction.redactor import Redactor
from prowess.run.allowance import Allowance
from prowess.run.assertions.evaluation import AssertionRunner
from prowess.run.call import Call, DryRunEnded, Notes, Output, Step, Verdict
from prowess.run.handler import Handler
from prowess.run.result import RunPart
from prowess.run.selection import select_artifacts
from prowess.run.telemetry import Telemetry
from prowess.run.trace_rows import finish_trace, start_trace
from prowess.skill.kinds import JsonObject, Kind
from prowess.skill.needs import CODE_KINDS, read_needs
from prowess.storage.ledger import EventEntry
from prowess.traces.trace import RunStatus, Trace
from prowess.traces.trace_recorder import TraceRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a run, to be written down by the recorder of events."""

    name: Literal["run_started", "run_state_changed", "run_finished"]
    skill: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    session_id: str = ""
    user_id: str = ""
    organization_id: str | None = None
    source: str = ""
    seconds: float | None = None

    def entry(self) -> EventEntry:
        """The event that it becomes."""
        return EventEntry(
            name=self.name,
            data=self.data,
            session_id=self.session_id,
            user_id=self.user_id,
            subject=self.skill,
            source=self.source,
            seconds=self.seconds,
        )


log = logging.getLogger(__name__)

TRACE_WAIT_SECONDS = 5.0
"""So long an answer waits for its trace to be kept; then it goes out, and says that the trace may be lost."""

DRY_RUN_KINDS: frozenset[Kind] = frozenset(
    {
        *("description", "instructions", "approach", "example", "reference", "asset"),
        *("prompt_template", "json_generation", "review"),
        *("code_template", "function", "http_call", "cli_command", "script"),
    }
)
"""The kinds whose handlers end a dry run by themselves, where they would first send or run something."""

_STATUSES: tuple[tuple[type[ProwessError], RunStatus], ...] = (
    (TimedOut, "timed_out"),
    (Refused, "refused"),
    (Unavailable, "unavailable"),
)


PublishEvent = Callable[[RunEvent], None]
"""Tells whoever follows what happens in a run; never waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How a run ended."""

    status: RunStatus
    output: Output | None = None
    verdicts: tuple[Verdict, ...] = ()
    error: ProwessError | None = None


class Dispatcher:
    """Hands artifacts to their handlers."""

    def __init__(
        self,
        handlers: Mapping[Kind, Handler],
        *,
        assertions: AssertionRunner,
        traces: Callable[[], TraceRecorder],
        announce: PublishEvent,
        redactor: Redactor,
        telemetry: Telemetry,
    ) -> None:
        self._handlers = handlers
        self._assertions = assertions
        self._traces = traces
        self._announce = announce
        self._redactor = redactor
        self._telemetry = telemetry

    async def dispatch(self, call: Call, *, run_id: str, allowance: Allowance) -> AsyncGenerator[RunPart]:
        """Run one artifact. The parts are those that ran: one, or two where a fallback took its place; none raises."""
        part = await self._run(call, run_id, allowance, fallback_of=None)
        yield part
        if isinstance(part.error, Unavailable) and call.artifact.fallback:
            fallback = select_artifacts(call.skill, [call.artifact.fallback])[0]
            stand_in = replace(call, id=str(uuid.uuid4()), artifact=fallback, notes=Notes())
            stand_in.confide(call.notes.hiding.env)
            yield await self._run(stand_in, run_id, allowance, fallback_of=part)

    async def _run(self, call: Call, run_id: str, allowance: Allowance, *, fallback_of: RunPart | None) -> RunPart:
        began = time.perf_counter()
        call.notes.receipt.needs = read_needs(call.skill)
        trace = start_trace(call, run_id, allowance, fallback_of=fallback_of.trace if fallback_of else None)
        heard = call if call.dry else replace(call, announce=self._announcing(call, run_id))
        if not call.dry:
            self._traces().begin(trace)
            self._tell(call, "run_started", run_id)
        try:
            with self._telemetry.span_of_run(call) as span:
                ending = await self._ending(heard, allowance)
                span.ended(ending.status, call.notes)
        except BaseException as ended:
            status = "cancelled" if isinstance(ended, asyncio.CancelledError) else "failed"
            self._close(call, trace, run_id, allowance, _Ending(status=status), began)
            raise
        kept = await self._kept(self._close(call, trace, run_id, allowance, ending, began))
        ran = call.notes.artifact or call.artifact
        return RunPart(
            artifact=call.artifact.name,
            kind=call.artifact.kind,
            variant=ran.variant,
            status=ending.status,
            trace=call.id,
            traced=kept,
            output=ending.output,
            verdicts=ending.verdicts,
            error=ending.error,
            fallback_of=fallback_of.artifact if fallback_of else None,
            model=call.notes.model,
            usage=call.notes.usage,
            cost=call.notes.cost,
            duration_ms=round((time.perf_counter() - began) * 1000),
            sent=tuple(call.notes.sent),
            plan=self._redactor.text(call.notes.rendered) if call.dry and not call.notes.sent else "",
            printed=self._redactor.text(call.notes.raw) if ran.kind in CODE_KINDS else "",
            receipt={} if call.notes.receipt.is_empty else call.notes.receipt.as_json(),
            resumable=_is_resumable(call, ending),
        )

    async def _ending(self, call: Call, allowance: Allowance) -> _Ending:
        """Run and check within the time there is. Whatever goes wrong is an ending; only cancellation is raised."""
        output: Output | None = None
        verdicts: tuple[Verdict, ...] = ()
        limit = asyncio.timeout(allowance.seconds)
        try:
            async with limit:
                output = await self._handler(call).run(call)
                verdicts = await self._assertions.check(call, output)
        except DryRunEnded:
            return _Ending(status="ok")
        except ProwessError as raised:
            error = raised
        except Exception as raised:  # noqa: BLE001  (whatever a handler does, its run ends and is traced)
            error = _overdue(call, allowance) if limit.expired() else _handler_failed(call, raised)
        else:
            failed = [verdict for verdict in verdicts if not verdict.passed and verdict.severity == "hard"]
            if not failed:
                return _Ending(status="ok", output=output, verdicts=verdicts)
            error = _assertion_failed(call, failed, len(verdicts))
        self._redact(error)
        return _Ending(status=_status(error), output=output, verdicts=verdicts, error=error)

    def _handler(self, call: Call) -> Handler:
        """The handler of a call; a dry run ends before one that does more than read and ask."""
        kind = call.artifact.kind
        handler = self._handlers.get(kind)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            raise NoHandler(f"Nothing here runs artifacts of the kind {kind}.", hint=f"These are run: {known}.")
        if call.dry and kind not in DRY_RUN_KINDS:
            raise DryRunEnded
        return handler

    def _close(
        self, call: Call, trace: Trace, run_id: str, allowance: Allowance, ending: _Ending, began: float
    ) -> asyncio.Future[bool] | None:
        if call.dry:
            return None
        seconds = time.perf_counter() - began
        row = finish_trace(
            trace,
            call,
            allowance,
            status=ending.status,
            output=ending.output,
            verdicts=ending.verdicts,
            error=ending.error,
            duration_ms=round(seconds * 1000),
        )
        kept = self._traces().finish(row)
        error = ending.error.code if ending.error else None
        self._tell(call, "run_finished", run_id, seconds=round(seconds, 6), status=ending.status, error=error)
        return asyncio.wrap_future(kept)

    @staticmethod
    async def _kept(future: asyncio.Future[bool] | None) -> bool:
        if future is None:
            return False
        try:
            async with asyncio.timeout(TRACE_WAIT_SECONDS):
                return await future
        except TimeoutError:
            return False

    def _announcing(self, call: Call, run_id: str) -> Callable[[Step], None]:
        def announce(step: Step) -> None:
            detail: JsonObject = self._redactor.value(step.detail) if step.detail else {}
            self._tell(call, "run_state_changed", run_id, state=step.state, **detail)

        return announce

    def _tell(self, call: Call, name: str, run_id: str, *, seconds: float | None = None, **data: object) -> None:
        told = {"run": run_id, "trace": call.id, "skill": call.skill.slug, "artifact": call.artifact.name, **data}
        self._announce(
            RunEvent(
                name=name,  # pyright: ignore[reportArgumentType]
                skill=call.skill.slug,
                data=told,
                session_id=call.session,
                user_id=call.actor.user,
                organization_id=call.actor.organization,
                source=call.skill.scope,
                seconds=seconds,
            )
        )

    def _redact(self, error: ProwessError) -> None:
        """No secret leaves in the words of an error."""
        error.message = self._redactor.text(error.message)
        error.hint = self._redactor.text(error.hint)
        error.args = (error.message,)
        if isinstance(error, (Invalid, OutputInvalid)):
            error.problems = tuple(
                replace(one, message=self._redactor.text(one.message), hint=self._redactor.text(one.hint))
                for one in error.problems
            )


def _is_resumable(call: Call, ending: _Ending) -> bool:
    """Whether a checkpoint of the run was kept, and it did not come to its end."""
    return ending.status != "ok" and call.notes.detail.get("checkpoint", {}).get("kept") is True


def _status(error: ProwessError) -> RunStatus:
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return "failed"


def _overdue(call: Call, allowance: Allowance) -> TimedOut:
    return TimedOut(
        f"{call.artifact.name!r} of {call.skill.slug!r} was not done after {allowance.seconds:g} seconds.",
        hint="The skill's own policy allows no more: timeout_seconds."
        if allowance.shortened
        else "Give it more time with --timeout, or PROWESS_RUN_SECONDS.",
    )


def _handler_failed(call: Call, raised: Exception) -> RunFailed:
    log.error("The handler of %s failed.", call.artifact.kind, exc_info=raised)
    return RunFailed(
        f"{call.artifact.name!r} of {call.skill.slug!r} failed: {type(raised).__name__}.",
        hint="This is a fault of the handler, not of your inputs; the log has its traceback.",
    )


def _assertion_failed(call: Call, failed: list[Verdict], count: int) -> AssertionFailed:
    first = failed[0]
    more = f" (and {len(failed) - 1} more of {count})" if len(failed) > 1 else ""
    return AssertionFailed(
        f"The output of {call.artifact.name!r} did not pass: {first.description}: {first.explanation}{more}",
        hint=f"`prowess traces show {call.id}` has the output and every verdict.",
    )
