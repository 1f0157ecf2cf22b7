"""function: call a skill's `execute(args, ctx)` in a sandbox; what it returns is the output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from prowess.errors import Invalid, ProwessError, RunFailed, TimedOut, Unavailable
from prowess.handlers.function_context import FunctionContext
from prowess.handlers.host_functions import HostModule, Refusals
from prowess.handlers.requirements import (
    GrantLookup,
    InstallPackages,
    explain_missing_env,
    explain_missing_import,
    explain_undeclared_env,
    grant_env,
    install_packages,
)
from prowess.handlers.sandbox_failures import CodeLabel, explain_failure
from prowess.net.request import HttpClient
from prowess.policy.grants import Grants
from prowess.run.allowance import MAX_SECONDS
from prowess.run.call import Call, Output
from prowess.run.schema_checks import check_inputs, check_output
from prowess.sandbox.protocol import Sandbox, SandboxLimits, ScriptOutcome
from prowess.sandbox.script import Script, script_from_function
from prowess.skill.kinds import Function, JsonObject, Kind
from prowess.skill.limits import MIB
from prowess.skill.needs import Needs
from prowess.threads import offload

RuntimeName = Literal["wasm", "native", "deno"]

MAX_CALLS = 1_000
FUEL_PER_SECOND = 10_000_000_000
"""More than a second can use up, so that the time limit decides."""
MEMORY_BYTES: dict[RuntimeName, int] = {"wasm": 256 * MIB, "native": 1024 * MIB, "deno": 512 * MIB}
GRACE_SECONDS = 0.4
"""The sandbox enforces its own limit first; this covers functions that still wait for a host call."""
_ERROR_CHARS = 4_000


class FunctionHandler:
    """Calls the function with the inputs, completed by the defaults of the skill's parameters, and with a context.

    The language and the skill's runtime decide the sandbox. A returned object with a boolean `success` is unwrapped to its
    `result` or `error`; anything else is the result. Raise `RunFailed` for an exception or a limit, and `TimedOut` at the
    time limit, which does not include installing packages. If a host function refused, and the function did not catch
    that, raise that error instead. The log is kept in any case.
    """

    kind: Kind = "function"

    def __init__(
        self,
        *,
        sandboxes: Mapping[RuntimeName, Sandbox],
        outbound: HttpClient,
        grants_of: GrantLookup,
        provision: InstallPackages,
        host: HostModule,
    ) -> None:
        self._sandboxes = sandboxes
        self._outbound = outbound
        self._grants_of = grants_of
        self._provision = provision
        self._host = host

    async def run(self, call: Call) -> Output:
        """Call the function and return its result."""
        function = _function(call)
        runtime = choose_runtime(function, call.run.needs)
        values = check_inputs(call.inputs, call.skill.parameters)
        call.plan(f"{function.handler}({json.dumps(values, ensure_ascii=False)})")
        grants = await self._grants_of(call)
        script = script_from_function(
            function.content,
            values,
            entry=function.handler,
            env={**dict.fromkeys(call.run.needs.env), **grant_env(call, grants)},
            language=function.language,
            file=function_file(function),
            packages=await install_packages(call, self._provision) if runtime == "native" else None,
        )
        secrets = call.notes.secrets
        try:
            return await self._called(call, function, script, grants)
        except ProwessError as error:
            # An exception of the function may quote an environment value that it was granted.
            error.message, error.hint = secrets.redact_text(error.message), secrets.redact_text(error.hint)
            error.args = (error.message,)
            raise

    async def _called(self, call: Call, function: Function, script: Script, grants: Grants) -> Output:
        """Call the function within its limits; note its log if it fails."""
        runtime = choose_runtime(function, call.run.needs)
        limits, secrets = _limits(function, runtime), call.notes.secrets
        calls = self._host.calls_of(call)
        served = FunctionContext(call, grants, outbound=self._outbound, refusals=calls.refusals)
        facts: JsonObject = {"runtime": runtime}
        call.notes.detail["sandbox"] = facts
        try:
            # The context closes last: at the deadline, a file operation in progress ends before the call's folder is
            # removed.
            async with served.opened(), _within(limits.seconds + GRACE_SECONDS, function):
                functions = {**calls.functions(), **served.functions()}
                ran = await self._sandbox(runtime).run(script, functions, limits)
            facts |= {"ended": ran.ended, "fuel": ran.fuel, "host_calls": ran.calls, "confined": list(ran.confined)}
            call.notes.raw = secrets.redact_text(ran.stdout)
            _check_end(call, function, ran, limits, calls.refusals, grants)
            returned = await offload(secrets.redact_output, ran.result) if secrets.env else ran.result
            result = _result(returned, function, call.id)
            check_output(call, result)
        except BaseException:  # also when the call is cancelled: its log says how far it came
            # After success the log is part of the result instead.
            call.notes.detail["log"] = served.log_lines
            raise
        metadata = {"success": True, "log": served.log_lines, "runtime": runtime, "confined": list(ran.confined)}
        return Output(kind=self.kind, text=_to_text(result), data=result, result=metadata)

    def _sandbox(self, runtime: RuntimeName) -> Sandbox:
        found = self._sandboxes.get(runtime)
        if found is None:
            raise Unavailable(f"Functions for the runtime {runtime!r} are not supported here.")
        return found


def choose_runtime(function: Function, needs: Needs) -> RuntimeName:
    """Return what runs a function: Deno for its languages, a process if the skill needs one, else the WASM sandbox."""
    if function.language != "python":
        return "deno"
    return "native" if needs.runtime == "native" else "wasm"


def function_file(function: Function) -> str:
    """Return the file name of a function."""
    suffix = {"python": "py", "typescript": "ts", "javascript": "js"}[function.language]
    return function.path or f"{function.name}.{suffix}"


def _function(call: Call) -> Function:
    artifact = call.artifact
    if not isinstance(artifact, Function):
        raise Invalid(f"{artifact.name!r} is a {artifact.kind}, not a function.")
    if not artifact.content.strip():
        raise Unavailable(
            f"{call.skill.slug!r} declares the function {artifact.handler[:80]!r} but does not contain it.",
            hint="Add it to execute.py or execute.ts next to the manifest.",
        )
    if not artifact.handler.isidentifier():
        raise Invalid(
            f"Invalid function name {artifact.handler[:80]!r}.",
            hint="Use a valid function name; the default is `execute`.",
        )
    if not 0 < artifact.timeout_seconds < float("inf"):
        raise Invalid(
            f"Invalid timeout of {artifact.timeout_seconds} seconds for a function.",
            hint="Set `timeout_seconds` to a number above 0.",
        )
    return artifact


def _limits(function: Function, runtime: RuntimeName) -> SandboxLimits:
    seconds = min(function.timeout_seconds, MAX_SECONDS)
    return SandboxLimits(
        fuel=round(seconds * FUEL_PER_SECOND) + FUEL_PER_SECOND,
        seconds=seconds,
        memory_bytes=MEMORY_BYTES[runtime],
        calls=MAX_CALLS,
        call_bytes=8 * MIB,
        answer_bytes=8 * MIB,
    )


@asynccontextmanager
async def _within(seconds: float, function: Function) -> AsyncGenerator[None]:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        # A `TimeoutError` of something else inside the block.
        if not limit.expired():
            raise
        raise TimedOut(
            f"The function {function_file(function)!r} timed out after {seconds - GRACE_SECONDS:g} s.",
            hint="Do less work per run, or raise `timeout_seconds` of the artifact in the manifest.",
        ) from None


def _check_end(
    call: Call, function: Function, ran: ScriptOutcome, limits: SandboxLimits, refusals: Refusals, grants: Grants
) -> None:
    """Raise the error of a failed function, with a hint about what is missing."""
    if ran.ended == "done":
        return
    label = CodeLabel(called=f"the function {function_file(function)!r}", gave="returned", give="Return")
    error = explain_failure(label, ran, limits, refusals)
    # A refusal of a host function or a timeout has a better hint of its own.
    if ran.error is not None and type(error) is RunFailed:
        needs = call.run.needs
        error.hint = (
            explain_missing_import(ran.error, call.skill, needs)
            or explain_undeclared_env(ran.error, call.skill, needs)
            or explain_missing_env(call, grants)
            or error.hint
        )
    raise error


def _result(returned: Any, function: Function, trace: str) -> Any:
    """Return the result in what the function returned; raise `RunFailed` if it reports a failure itself."""
    if not isinstance(returned, dict):
        return returned
    response = cast("JsonObject", returned)
    success = response.get("success")
    if not isinstance(success, bool):
        return response
    if success:
        rest = {name: value for name, value in response.items() if name not in ("success", "error")}
        return rest.get("result") if "result" in rest or not rest else rest
    error = response.get("error")
    words = error if isinstance(error, str) else "" if error is None else json.dumps(error, ensure_ascii=False)
    raise RunFailed(
        words.strip()[:_ERROR_CHARS]
        or f"The function {function_file(function)!r} reported a failure without a reason.",
        hint=f"The function returned this error. Run `prowess traces show {trace[:8]}` to see its log.",
    )


def _to_text(result: Any) -> str:
    if result is None or isinstance(result, str):
        return result or ""
    return json.dumps(result, ensure_ascii=False, indent=2)
