"""Build the trace row of a call: when it starts, and when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prowess.errors import ProwessError
from prowess.redaction.known import SHORTEST_SECRET
from prowess.redaction.redactor import Redactor
from prowess.run.allowance import Allowance
from prowess.run.call import Call, Output, SecretFilter, Verdict
from prowess.run.result import verdict_json
from prowess.skill.kinds import JsonObject
from prowess.storage.clock import now, seconds_from_now
from prowess.traces.cleanup import process_identity
from prowess.traces.trace import RunStatus, Trace

_NOBODY_KNOWS = "It was cancelled."


def start_trace(call: Call, run_id: str, allowance: Allowance, *, fallback_of: str | None) -> Trace:
    """The row of a run that begins."""
    moment = now()
    return Trace(
        id=call.id,
        run_id=run_id,
        organization_id=call.actor.organization,
        user_id=call.actor.user,
        actor=call.actor.label,
        session_id=call.session,
        skill_id=call.skill.id or call.skill.slug,
        skill_slug=call.skill.slug,
        skill_digest=call.skill.digest,
        artifact_id=call.artifact.id or call.artifact.name,
        artifact_name=call.artifact.name,
        artifact_kind=call.artifact.kind,
        fallback_of=fallback_of,
        started_at=moment,
        deadline_at=seconds_from_now(allowance.seconds),
        process=process_identity(),
        inputs=call.notes.hiding.told(allowance.kept_inputs(call.inputs, call.handed_on)),
        created_at=moment,
    )


def finish_trace(
    trace: Trace,
    call: Call,
    allowance: Allowance,
    *,
    status: RunStatus,
    output: Output | None,
    verdicts: Sequence[Verdict],
    error: ProwessError | None,
    duration_ms: int,
) -> Trace:
    """The row of a run that has ended, with all that was noted in it."""
    notes = call.notes
    used = notes.usage.requests > 0
    ran = notes.artifact or call.artifact
    raw = notes.raw or (output.text if output else "")
    code, words = (error.code, error.message) if error else (None, None)
    if status == "cancelled":
        code, words = "cancelled", _NOBODY_KNOWS
    elif not allowance.log_output:
        words = code
    row = replace(
        trace,
        artifact_id=ran.id or trace.artifact_id,
        status=status,
        completed_at=now(),
        duration_ms=duration_ms,
        model_id=notes.model or None,
        input_tokens=notes.usage.input_tokens if used else None,
        output_tokens=notes.usage.output_tokens if used else None,
        estimated_cost=notes.cost,
        assertions_run=len(verdicts),
        assertions_passed=sum(verdict.passed for verdict in verdicts),
        error_code=code,
        error=words,
        verdicts=[_kept_verdict(verdict, allowance) for verdict in verdicts],
        detail=_detail(call, allowance, output),
        rendered_input=(notes.rendered or None) if _may_keep_prompt(call, allowance) else None,
        raw_output=(raw or None) if allowance.log_output else None,
    )
    row = _told(row, call.notes.hiding)
    withheld = allowance.withheld_texts(call.inputs) if allowance.withheld else []
    return _without(row, withheld) if withheld else row


def _told(row: Trace, hiding: SecretFilter) -> Trace:
    """The row without what the run was given in confidence."""
    return replace(
        row,
        rendered_input=row.rendered_input and hiding.text(row.rendered_input),
        raw_output=row.raw_output and hiding.text(row.raw_output),
        error=row.error and hiding.text(row.error),
        verdicts=hiding.told(row.verdicts),
        inputs=hiding.told(row.inputs),
        detail=hiding.told(row.detail),
    )


def _without(row: Trace, values: list[str]) -> Trace:
    """The row without the values of inputs that are withheld; where one is too short to be found for sure, without texts."""
    if any(len("".join(value.split())) < SHORTEST_SECRET for value in values):
        told = [{**verdict, "explanation": ""} for verdict in row.verdicts]
        return replace(row, rendered_input=None, raw_output=None, verdicts=told, detail={}, error=row.error_code)
    hide = Redactor(values)
    return replace(
        row,
        rendered_input=row.rendered_input and hide.text(row.rendered_input),
        raw_output=row.raw_output and hide.text(row.raw_output),
        error=row.error and hide.text(row.error),
        verdicts=hide.value(row.verdicts),
        inputs=hide.value(row.inputs),
        detail=hide.value(row.detail),
    )


def _may_keep_prompt(call: Call, allowance: Allowance) -> bool:
    """A prompt has the inputs in it, and with them what earlier artifacts gave."""
    return allowance.log_input and (allowance.log_output or not call.handed_on)


def _kept_verdict(verdict: Verdict, allowance: Allowance) -> dict[str, object]:
    """A verdict; where the output is not kept, without the explanation, which may quote it."""
    told = verdict_json(verdict)
    return told if allowance.log_output else {**told, "explanation": ""}


def _detail(call: Call, allowance: Allowance, output: Output | None) -> JsonObject:
    detail: JsonObject = dict(call.notes.detail)
    if not call.notes.receipt.is_empty:
        detail["receipt"] = _listed(call.notes.receipt.as_json())
    if output is not None and output.result:
        detail["result"] = output.result
    if not allowance.log_output:
        for written in ("result", "log"):
            detail.pop(written, None)
    return detail


def _listed(receipt: JsonObject) -> JsonObject:
    """The receipt with a list of names and times in the place of each object.

    What stands under a secret's name is not kept, and the names of a receipt are those of secrets.
    """
    told = dict(receipt)
    for what in ("touched", "refused"):
        told[what] = {
            sort: [{"name": name, "times": times} for name, times in names.items()]
            for sort, names in receipt.get(what, {}).items()
        }
    return told
