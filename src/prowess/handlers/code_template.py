"""code_template: a Python script, run in the sandbox; what it submits is the output."""

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
    """Runs the script with the inputs in place of `{{ name }}`. The output is what it submits, or else what it prints.

    A script that ends early gives `RunFailed`, with its line and its own message where it raised an error, and `TimedOut`
    where its time was over. What it printed is noted in any case. Where a host function could not serve, or said no, and the
    script did not catch that, it is the error of the run. With `checkpoints`, a run that did not come to its end after the
    script called `checkpoint` can be resumed.
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
        """Run it."""
        values = check_inputs(call.inputs, call.skill.parameters)
        script = script_from_template(call.artifact.content, values)
        call.plan(_rendered(call.artifact.content, values))
        calls = self._host.calls_of(call)
        ran = await self._ran(call, script, calls)
        facts: dict[str, Any] = {"ended": ran.ended, "fuel": ran.fuel, "host_calls": ran.calls}
        call.notes.raw = ran.stdout
        call.notes.detail["sandbox"] = facts
        if ran.ended != "done":
            raise explain_failure(
                CodeLabel(called=f"the script {call.artifact.name!r}"), ran, self._limits, calls.refusals
            )
        return _output(ran, {**facts, "stdout": ran.stdout})

    async def _ran(self, call: Call, script: Script, calls: HostFunctions) -> ScriptOutcome:
        """What came of the script; its calls are in a journal, which is kept at each checkpoint until it has ended well."""
        kept = self._checkpoints
        if kept is None:
            return await self._sandbox.run(script, calls.functions(), self._limits)
        journal = await kept.begin(call)
        functions = journal.over(calls.functions(), lambda: kept.keep(call, journal))
        ran = await self._sandbox.run(replace(script, seed=journal.seed), functions, self._limits)
        if journal.replayed:
            call.notes.detail["resumed"] = {"trace": call.resumes, "calls": journal.replayed}
        if ran.ended == "done":
            await kept.forget(call)
        return ran


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    """The script as it was given, and the inputs beside it, as they travel."""
    return f"{template}\n\n# inputs: {json.dumps(values, ensure_ascii=False)}" if values else template


def _output(ran: ScriptOutcome, facts: dict[str, Any]) -> Output:
    kind: Kind = "code_template"
    if not ran.submitted:
        return Output(kind=kind, text=ran.stdout, result=facts)
    if isinstance(ran.result, str):
        return Output(kind=kind, text=ran.result, result=facts)
    return Output(kind=kind, text=json.dumps(ran.result, ensure_ascii=False, indent=2), data=ran.result, result=facts)
