"""Record a call: its trace row, and the events that subscribers receive while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Literal

from prowess.errors import ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.redaction.known import SHORTEST_SECRET
from prowess.redaction.redactor import Redactor
from prowess.run.allowance import Allowance
from prowess.run.call import Call, Output, Verdict, status_of
from prowess.run.handler import RunArtifact
from prowess.run.request import Step
from prowess.run.result import verdict_json
from prowess.skill.kinds import JsonObject
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.ledger import EventEntry
from prowess.storage.rows import convert_row
from prowess.storage.traces import Trace
from prowess.traces.cleanup import process_identity
from prowess.traces.trace_recorder import OnStored, TraceRecorder, ignore_stored

TRACE_WAIT_SECONDS = 5.0
"""A run waits this long for its trace row to be durable, then returns and reports that the row may be lost."""

_CANCELLED = "The run was cancelled."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a run, for the event recorder."""

    name: Literal["run_started", "run_state_changed", "run_finished"]
    skill: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    session_id: str = ""
    user_id: str = ""
    organization_id: str | None = None
    source: str = ""
    seconds: float | None = None

    def entry(self) -> EventEntry:
        """Return the event as the ledger stores it."""
        return convert_row(self, EventEntry, subject=self.skill)


PublishEvent = Callable[[RunEvent], None]
"""Sends an event to subscribers; never blocks."""


def with_record(
    run: RunArtifact, *, traces: Callable[[], TraceRecorder], publish: PublishEvent, redactor: Redactor
) -> RunArtifact:
    """Write a trace row and publish events for every call, however it ends. A dry run leaves neither."""

    def publish_state(call: Call, step: Step) -> None:
        detail: JsonObject = redactor.value(step.detail) if step.detail else {}
        publish(_event(call, "run_state_changed", state=step.state, **detail))

    async def recorded(call: Call) -> Output:
        if call.request.dry_run:
            return await run(call)

        def close(error: BaseException | None, on_stored: OnStored = ignore_stored) -> None:
            seconds = time.perf_counter() - began
            recorder.finish(finish_row(row, call, error, round(seconds * 1000)), on_stored)
            code = error.code if isinstance(error, ProwessError) else None
            status = status_of(error)
            publish(_event(call, "run_finished", seconds=round(seconds, 6), status=status, error=code))

        async def close_and_wait(error: BaseException | None) -> None:
            stored = _Stored()
            close(error, stored.settle)
            call.notes.traced = await stored.wait()

        began = time.perf_counter()
        recorder = traces()
        row = start_row(call)
        # Written before the run: if the process dies, the row stays, and a later cleanup closes it as interrupted.
        recorder.begin(row)
        publish(_event(call, "run_started"))
        call.notes.on_state = publish_state
        try:
            output = await run(call)
        except ProwessError as error:
            await close_and_wait(error)
            raise
        except BaseException as error:
            close(error)  # a cancelled run does not wait for anything
            raise
        await close_and_wait(None)
        return output

    return recorded


class _Stored:
    """Waits on an event loop for a row that another thread writes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._result: asyncio.Future[bool] = self._loop.create_future()

    def settle(self, result: bool) -> None:
        """Receive the result, in any thread."""
        with suppress(RuntimeError):  # the loop was closed in the meantime
            self._loop.call_soon_threadsafe(self._set, result)

    async def wait(self) -> bool:
        """Return the result; False if there is none in time."""
        # By hand: `asyncio.timeout` costs three times as much, and every run waits here.
        timer = self._loop.call_later(TRACE_WAIT_SECONDS, self._set, False)
        try:
            return await self._result
        finally:
            timer.cancel()

    def _set(self, result: bool) -> None:
        if not self._result.done():
            self._result.set_result(result)


def _event(
    call: Call,
    name: Literal["run_started", "run_state_changed", "run_finished"],
    *,
    seconds: float | None = None,
    **data: object,
) -> RunEvent:
    skill, actor = call.skill, call.actor
    return RunEvent(
        name=name,
        skill=skill.slug,
        data={"run": call.run.id, "trace": call.id, "skill": skill.slug, "artifact": call.artifact.name, **data},
        session_id=call.run.session,
        user_id=actor.user,
        organization_id=actor.organization,
        source=skill.scope,
        seconds=seconds,
    )


def start_row(call: Call) -> Trace:
    """Return the row of a call that starts."""
    run, skill, artifact = call.run, call.skill, call.artifact
    moment = now()
    return Trace(
        id=call.id,
        run_id=run.id,
        organization_id=run.actor.organization,
        user_id=run.actor.user,
        actor=run.actor.label,
        session_id=run.session,
        skill_id=skill.id or skill.slug,
        skill_slug=skill.slug,
        skill_digest=skill.digest,
        artifact_id=artifact.id or artifact.name,
        artifact_name=artifact.name,
        artifact_kind=artifact.kind,
        fallback_of=call.replaces.id if call.replaces else None,
        started_at=moment,
        deadline_at=seconds_from_now(run.limits.seconds),
        process=process_identity(),
        inputs=call.notes.secrets.redact_json(run.limits.kept_inputs(call.inputs, call.handed_on)),
        created_at=moment,
    )


def finish_row(row: Trace, call: Call, error: BaseException | None, duration_ms: int) -> Trace:
    """Return the row of a call that has ended, with all its notes that may be stored."""
    notes, limits = call.notes, call.run.limits
    status = status_of(error)
    has_usage = notes.usage.requests > 0
    ran = notes.artifact or call.artifact
    raw = notes.raw or (notes.output.text if notes.output else "")
    code, message = (error.code, error.message) if isinstance(error, ProwessError) else (None, None)
    if status == "cancelled":
        code, message = "cancelled", _CANCELLED
    # The message of an error may quote the output.
    elif not limits.log_output:
        message = code
    secrets = notes.secrets
    finished = replace(
        row,
        artifact_id=ran.id or row.artifact_id,
        status=status,
        completed_at=now(),
        duration_ms=duration_ms,
        model_id=notes.model or None,
        input_tokens=notes.usage.input_tokens if has_usage else None,
        output_tokens=notes.usage.output_tokens if has_usage else None,
        estimated_cost=notes.cost,
        assertions_run=len(notes.verdicts),
        assertions_passed=sum(verdict.passed for verdict in notes.verdicts),
        error_code=code,
        error=message and secrets.redact_text(message),
        verdicts=secrets.redact_json([_stored_verdict(verdict, limits) for verdict in notes.verdicts]),
        # Secrets may have been granted after the row was started.
        inputs=secrets.redact_json(row.inputs),
        detail=secrets.redact_json(_stored_detail(call)),
        rendered_input=secrets.redact_text(notes.rendered) or None if _may_store_prompt(call) else None,
        raw_output=secrets.redact_text(raw) or None if limits.log_output else None,
    )
    withheld = limits.withheld_texts(call.inputs) if limits.withheld else []
    return _without(finished, withheld) if withheld else finished


def _without(row: Trace, values: list[str]) -> Trace:
    """Return the row without the values of withheld inputs.

    A value that is too short cannot be found reliably in other texts, so then the row loses its texts altogether.
    """
    if any(len("".join(value.split())) < SHORTEST_SECRET for value in values):
        verdicts = [{**verdict, "explanation": ""} for verdict in row.verdicts]
        return replace(row, rendered_input=None, raw_output=None, verdicts=verdicts, detail={}, error=row.error_code)
    withheld = Redactor(values)
    return replace(
        row,
        rendered_input=row.rendered_input and withheld.text(row.rendered_input),
        raw_output=row.raw_output and withheld.text(row.raw_output),
        error=row.error and withheld.text(row.error),
        verdicts=withheld.value(row.verdicts),
        inputs=withheld.value(row.inputs),
        detail=withheld.value(row.detail),
    )


def _may_store_prompt(call: Call) -> bool:
    """True if the prompt may be stored: it contains the inputs, and with them outputs of earlier artifacts."""
    limits = call.run.limits
    return limits.log_input and (limits.log_output or not call.handed_on)


def _stored_verdict(verdict: Verdict, limits: Allowance) -> dict[str, object]:
    """Return a verdict as JSON; without its explanation, which may quote the output, if outputs are not stored."""
    stored = verdict_json(verdict)
    return stored if limits.log_output else {**stored, "explanation": ""}


def _stored_detail(call: Call) -> JsonObject:
    notes = call.notes
    detail: JsonObject = dict(notes.detail)
    if not notes.receipt.is_empty:
        detail["receipt"] = _list_names(notes.receipt.as_json())
    if notes.output is not None and notes.output.result:
        detail["result"] = notes.output.result
    if not call.run.limits.log_output:
        for name in ("result", "log"):
            detail.pop(name, None)
    return detail


def _list_names(receipt: JsonObject) -> JsonObject:
    """Return the receipt with lists of names and counts instead of objects.

    The redactor drops whatever is stored under the name of a secret, and a receipt's keys are such names.
    """
    listed = dict(receipt)
    for what in ("touched", "refused"):
        listed[what] = {
            kind: [{"name": name, "times": times} for name, times in names.items()]
            for kind, names in receipt.get(what, {}).items()
        }
    return listed
