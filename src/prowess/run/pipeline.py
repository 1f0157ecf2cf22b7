"""The pipeline of a call: its wrappers, and the handler for its kind.

The gate comes before, once for the whole run (engine/runs.py). From the outside in:

    fallback      run the artifact's fallback if it is unavailable
    part          report how the call ended
    record        write the trace row, publish events
    telemetry     open a span
    errors        turn unexpected exceptions into RunFailed, remove secrets and places from messages
    deadline      cancel what takes too long
    assertions    check the output
    handler       run the artifact, or end a dry run before it does anything
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from prowess.errors import Invalid, NoHandler, OutputInvalid, ProwessError, RunFailed, TimedOut, Unavailable
from prowess.redaction.redactor import Redactor
from prowess.run.assertions.evaluation import AssertionRunner, with_assertions
from prowess.run.call import Call, DryRunEnded, Output, make_call, status_of
from prowess.run.handler import Handler, RunArtifact
from prowess.run.record import PublishEvent, with_record
from prowess.run.result import RunPart
from prowess.run.selection import select_artifacts
from prowess.run.telemetry import Telemetry, with_telemetry
from prowess.skill.kinds import Artifact, Kind, kind_info
from prowess.threads import is_interruption
from prowess.traces.trace_recorder import TraceRecorder

log = logging.getLogger(__name__)


def build_pipeline(
    handlers: Mapping[Kind, Handler],
    *,
    assertions: AssertionRunner,
    traces: Callable[[], TraceRecorder],
    publish: PublishEvent,
    redactor: Redactor,
    telemetry: Telemetry,
) -> RunArtifact:
    """Return the whole pipeline. It raises `ProwessError` if the call failed, `DryRunEnded` if a dry run ended early.

    In both cases, and if it returns an output, the run has a part that says so.
    """
    run = run_handler(handlers)
    run = with_assertions(run, assertions)
    run = with_deadline(run)
    run = with_errors(run, redactor)
    run = with_telemetry(run, telemetry)
    run = with_record(run, traces=traces, publish=publish, redactor=redactor)
    run = with_part(run, redactor)
    return with_fallback(run)


def run_handler(handlers: Mapping[Kind, Handler]) -> RunArtifact:
    """Hand a call to the handler of its kind. A dry run ends before a handler that cannot say what it would do."""

    async def handled(call: Call) -> Output:
        kind = call.artifact.kind
        handler = handlers.get(kind)
        if handler is None:
            raise _no_handler(call.artifact, sorted(handlers))
        # A plugin may bring the handler of a dspy_module, and need not know about dry runs; ours does.
        describes = kind_info(kind).describes_dry_run or getattr(handler, "describes_dry_run", False)
        if call.request.dry_run and not describes:
            raise DryRunEnded
        output: object = await handler.run(call)
        if not isinstance(output, Output):  # a plugin may return anything
            raise TypeError(f"The handler of {kind} returned {type(output).__name__}, not an Output.")
        if "." in kind:  # the namespace of a plugin; ours make plain JSON
            try:
                json.dumps([output.data, output.result], allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"The handler of {kind} returned data that is not JSON: {error}.") from None
        # Noted before the assertions run, so that the trace has an output that fails one.
        call.notes.output = output
        return output

    return handled


def _no_handler(artifact: Artifact, known: list[Kind]) -> NoHandler:
    if artifact.kind == "dspy_module":
        return NoHandler(
            f"{artifact.name!r} runs in the DSPy sidecar, which is switched off.",
            hint="Unset PROWESS_SIDECAR to use it. A `fallback` that names a prompt_template runs without it.",
        )
    return NoHandler(
        f"No handler runs artifacts of the kind {artifact.kind}.",
        hint=f"Install a plugin that does (`prowess plugins` lists them). Supported here: {', '.join(known)}.",
    )


def with_deadline(run: RunArtifact) -> RunArtifact:
    """Cancel a call that takes longer than its limit, and raise `TimedOut`."""

    async def limited(call: Call) -> Output:
        # Each call has its own deadline; a fallback starts with the full time.
        deadline = asyncio.timeout(call.run.limits.seconds)
        try:
            async with deadline:
                return await run(call)
        # An error of the handler's own, such as a timeout of its request, is not the deadline of the call.
        except (ProwessError, DryRunEnded):
            raise
        except Exception:
            # A handler may turn its cancellation into any error of its own; the cause is the deadline all the same.
            if deadline.expired():
                raise _timed_out(call) from None
            raise

    return limited


def _timed_out(call: Call) -> TimedOut:
    limits = call.run.limits
    return TimedOut(
        f"{call.artifact.name!r} of {call.skill.slug!r} timed out after {limits.seconds:g} seconds.",
        hint="Raise `timeout_seconds` in the skill's policy."
        if limits.shortened
        else "Allow more time with `--timeout SECONDS` or PROWESS_RUN_SECONDS.",
    )


def with_errors(run: RunArtifact, redactor: Redactor) -> RunArtifact:
    """Let nothing but `ProwessError` escape a handler, and neither a secret nor the place of a database in its message."""

    async def translated(call: Call) -> Output:
        try:
            return await run(call)
        except DryRunEnded:
            raise
        except ProwessError as error:
            # A run has its error in its trace and in answers of servers.
            told = error.without_location()
            _redact(told, redactor)
            if told is error:
                raise
            raise told from None
        except BaseException as error:
            # The handler of a plugin may raise anything, such as `SystemExit`, which would end the server.
            if is_interruption(error):
                raise
            log.exception("The handler of %s failed.", call.artifact.kind)
            failed = RunFailed(
                f"{call.artifact.name!r} of {call.skill.slug!r} failed: {type(error).__name__}.",
                hint="This is a bug in the handler, not in your inputs. The log has the traceback.",
            )
            _redact(failed, redactor)
        # Raised outside the `except` block, so that the unexpected exception is not chained to it: its text was not
        # redacted.
        raise failed

    return translated


def _redact(error: ProwessError, redactor: Redactor) -> None:
    error.message = redactor.text(error.message)
    error.hint = redactor.text(error.hint)
    # `str(error)` and tracebacks show `args`, not `message`.
    error.args = (error.message,)
    if isinstance(error, RunFailed) and error.result:
        error.result = redactor.value(dict(error.result))
    if isinstance(error, (Invalid, OutputInvalid)):
        error.problems = tuple(
            replace(problem, message=redactor.text(problem.message), hint=redactor.text(problem.hint))
            for problem in error.problems
        )


def with_part(run: RunArtifact, redactor: Redactor) -> RunArtifact:
    """Add a part to the run for each call that ended, and hand it to the requester; a cancelled call has none."""

    async def reported(call: Call) -> Output:
        began = time.perf_counter()
        try:
            output = await run(call)
        except (ProwessError, DryRunEnded) as error:
            _report(_part(call, began, error, redactor), call)
            raise
        _report(_part(call, began, None, redactor), call)
        return output

    return reported


def _report(part: RunPart, call: Call) -> None:
    call.run.parts.append(part)
    call.request.on_part(part)


def _part(call: Call, began: float, error: ProwessError | DryRunEnded | None, redactor: Redactor) -> RunPart:
    notes, dry_run = call.notes, call.request.dry_run
    ran = notes.artifact or call.artifact
    status = status_of(error)
    return RunPart(
        artifact=call.artifact.name,
        kind=call.artifact.kind,
        variant=ran.variant,
        status=status,
        trace=call.id,
        traced=notes.traced,
        output=notes.output,
        result=notes.output.result if notes.output else redactor.value(notes.detail.get("result", {})),
        verdicts=notes.verdicts,
        error=None if isinstance(error, DryRunEnded) else error,
        fallback_of=call.replaces.artifact.name if call.replaces else None,
        model=notes.model,
        usage=notes.usage,
        cost=notes.cost,
        duration_ms=round((time.perf_counter() - began) * 1000),
        sent=tuple(notes.sent),
        plan=redactor.text(notes.rendered) if dry_run and not notes.sent else "",
        printed=redactor.text(notes.raw) if kind_info(ran.kind).runs_code else "",
        receipt={} if notes.receipt.is_empty else notes.receipt.as_json(),
        resumable=status != "ok" and notes.detail.get("checkpoint", {}).get("kept") is True,
    )


def with_fallback(run: RunArtifact) -> RunArtifact:
    """If an artifact is unavailable and names a fallback, run that one instead. Both leave a trace and a part."""

    async def replaced(call: Call) -> Output:
        try:
            return await run(call)
        except Unavailable:
            if not call.artifact.fallback:
                raise
        # The fallback is run without this wrapper, so its own fallback is not used: chains and cycles cannot occur.
        [artifact] = select_artifacts(call.skill, [call.artifact.fallback])
        return await run(
            make_call(
                call.run,
                artifact,
                call.inputs,
                handed_on=call.handed_on,
                following=call.following,
                resumes=call.resumes,
                replaces=call,
            )
        )

    return replaced
