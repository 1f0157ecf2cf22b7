"""code_template: run a Python script in the sandbox; what it submits is the output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prowess.handlers.host_functions import HostFunctions, HostModule
from prowess.handlers.sandbox_failures import CodeLabel, explain_failure
from prowess.run.call import Call, Output
from prowess.run.checkpoints import Checkpoints
from prowess.run.schema_checks import check_inputs
from prowess.sandbox.protocol import DEFAULT_LIMITS, Sandbox, SandboxLimits, ScriptOutcome
from prowess.sandbox.script import Script, script_from_template
from prowess.skill.kinds import Kind


class CodeTemplateHandler:
    """Runs the script with the inputs instead of `{{ name }}`. The output is what it submits, or else what it prints.

    Raise `RunFailed` if the script fails, with the line and message of its exception, and `TimedOut` at its time limit. If a
    host function refused or was unavailable, and the script did not catch that, raise that error instead. What the script
    printed is noted in any case. With `checkpoints`, a run that is interrupted after `checkpoint()` can be resumed.
    """

    kind: Kind = "code_template"

    def __init__(
        self,
        sandbox: Sandbox,
        host: HostModule,
        limits: SandboxLimits = DEFAULT_LIMITS,
        *,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._host = host
        self._limits = limits
        self._checkpoints = checkpoints

    async def run(self, call: Call) -> Output:
        """Run the script and return what it submits or prints."""
        values = check_inputs(call.inputs, call.skill.parameters)
        # Values are passed separately from the code and are never inserted into its text: an input could otherwise run as code.
        script = script_from_template(call.artifact.content, values)
        call.plan(_rendered(call.artifact.content, values))
        calls = self._host.calls_of(call)
        ran = await self._run_journaled(call, script, calls)
        facts: dict[str, Any] = {"ended": ran.ended, "fuel": ran.fuel, "host_calls": ran.calls}
        call.notes.raw = ran.stdout
        call.notes.detail["sandbox"] = facts
        if ran.ended != "done":
            raise explain_failure(
                CodeLabel(called=f"the script {call.artifact.name!r}"), ran, self._limits, calls.refusals
            )
        return _output(ran, {**facts, "stdout": ran.stdout})

    async def _run_journaled(self, call: Call, script: Script, calls: HostFunctions) -> ScriptOutcome:
        """Run the script. Its host calls go into a journal, stored at each checkpoint and deleted after success."""
        checkpoints = self._checkpoints
        if checkpoints is None:
            return await self._sandbox.run(script, calls.functions(), self._limits)
        journal = await checkpoints.begin(call)
        functions = journal.over(calls.functions(), lambda: checkpoints.keep(call, journal))
        ran = await self._sandbox.run(replace(script, seed=journal.seed), functions, self._limits)
        if journal.replayed:
            call.notes.detail["resumed"] = {"trace": call.resumes, "calls": journal.replayed}
        if ran.ended == "done":
            await checkpoints.forget(call)
        return ran


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    """Return the script and its inputs for the trace; they also travel to the sandbox separately."""
    return f"{template}\n\n# inputs: {json.dumps(values, ensure_ascii=False)}" if values else template


def _output(ran: ScriptOutcome, facts: dict[str, Any]) -> Output:
    kind: Kind = "code_template"
    if not ran.submitted:
        return Output(kind=kind, text=ran.stdout, result=facts)
    if isinstance(ran.result, str):
        return Output(kind=kind, text=ran.result, result=facts)
    return Output(kind=kind, text=json.dumps(ran.result, ensure_ascii=False, indent=2), data=ran.result, result=facts)
