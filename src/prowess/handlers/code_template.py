"""code_template: a Python script, run in the sandbox; what it submits is the output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from prowess.errors import ProwessError, Refused, RunFailed, TimedOut, Unavailable
from prowess.handlers.host_module import HostCalls, HostModule
from prowess.run.call import Call, Output
from prowess.run.inputs import checked_inputs
from prowess.sandbox.sandbox import DEFAULT_LIMITS, Ended, Ran, Sandbox, SandboxLimits, ScriptError
from prowess.sandbox.script import script_of
from prowess.skill.kinds import Kind


class CodeTemplateHandler:
    """Runs the script with the inputs in place of `{{ name }}`. The output is what it submits, or else what it prints.

    A script that ends early gives `RunFailed`, with its line and its own message where it raised an error, and `TimedOut`
    where its time was over. What it printed is noted in any case. Where a host function could not serve, or said no, and the
    script did not catch that, it is the error of the run.
    """

    kind: Kind = "code_template"

    def __init__(self, sandbox: Sandbox, host: HostModule, limits: SandboxLimits = DEFAULT_LIMITS) -> None:
        self._sandbox = sandbox
        self._host = host
        self._limits = limits

    async def run(self, call: Call) -> Output:
        """Run it."""
        values = checked_inputs(call.inputs, call.skill.parameters)
        script = script_of(call.artifact.content, values)
        call.notes.rendered = _rendered(call.artifact.content, values)
        calls = self._host.calls_of(call)
        ran = await self._sandbox.run(script, calls.functions(), self._limits)
        facts = {"ended": ran.ended, "fuel": ran.fuel, "host_calls": ran.calls}
        call.notes.raw = ran.stdout
        call.notes.detail["sandbox"] = facts
        if ran.ended != "done":
            raise _failure(call.artifact.name, ran, self._limits, calls)
        return _output(ran, {**facts, "stdout": ran.stdout})


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    """The script as it was given, and the inputs beside it, as they travel."""
    return f"{template}\n\n# inputs: {json.dumps(values, ensure_ascii=False)}" if values else template


def _output(ran: Ran, facts: dict[str, Any]) -> Output:
    kind: Kind = "code_template"
    if not ran.submitted:
        return Output(kind=kind, text=ran.stdout, result=facts)
    if isinstance(ran.result, str):
        return Output(kind=kind, text=ran.result, result=facts)
    return Output(kind=kind, text=json.dumps(ran.result, ensure_ascii=False, indent=2), data=ran.result, result=facts)


def _failure(name: str, ran: Ran, limits: SandboxLimits, calls: HostCalls) -> ProwessError:
    if ran.ended == "raised" and ran.error:
        refusal = calls.refusals.get(ran.error.message) if ran.error.of_host else None
        return refusal if isinstance(refusal, Unavailable | Refused) else _raised(name, ran.error)
    kind = TimedOut if ran.ended == "time" else RunFailed
    told, hint = _met(ran, limits)
    return kind(f"The script {name!r} {told}.", hint=hint)


def _raised(name: str, error: ScriptError) -> RunFailed:
    at = f"line {error.line} of " if error.line else ""
    what = f"{error.type}: {error.message}" if error.message else error.type
    return RunFailed(f"In {at}the script {name!r}: {what}", hint="Correct the script, or the inputs that it was given.")


def _met(ran: Ran, limits: SandboxLimits) -> tuple[str, str]:
    """What a script met, and what to do about it."""
    less = "Do less in one run, or in smaller steps."
    table: dict[Ended, tuple[str, str]] = {
        "fuel": (f"took more than the {limits.fuel:,} instructions that a run may take", less),
        "time": (f"took more than the {limits.seconds:g} s that a run may compute", less),
        "memory": (f"needed more than the {limits.memory_bytes >> 20} MiB of memory that a run may use", less),
        "stack": ("nested deeper than the interpreter can", "Use a loop in the place of recursion."),
        "output": (f"printed more than {limits.output_chars:,} characters", "Submit what counts, and print less."),
        "result": (
            f"submitted what cannot be taken{_why(ran)}",
            f"Submit plain JSON of at most {limits.result_bytes:,} bytes.",
        ),
        "calls": (f"called its host more than {limits.calls} times", "Use the functions that take several at once."),
        "forbidden": (f"tried what no script may{_why(ran)}", "A script has no files, no network and no processes."),
    }
    return table.get(ran.ended, (f"made the interpreter give up{_why(ran)}", "Correct the script."))


def _why(ran: Ran) -> str:
    return f": {ran.detail}" if ran.detail else ""
