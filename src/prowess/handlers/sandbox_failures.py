"""Explain why code that ran in a sandbox returned nothing."""

from __future__ import annotations

from prowess.errors import ProwessError, Refused, RunFailed, TimedOut, Unavailable
from prowess.handlers.host_functions import Refusals
from prowess.lazy_dataclass import dataclass
from prowess.sandbox.protocol import EndReason, SandboxLimits, ScriptError, ScriptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLabel:
    """How messages name the code, and the verb for returning its result."""

    called: str
    gave: str = "submitted"
    give: str = "Submit"


def explain_failure(label: CodeLabel, ran: ScriptOutcome, limits: SandboxLimits, refusals: Refusals) -> ProwessError:
    """Return the error of code that failed: the error of a host function, its own exception, or the limit that it hit."""
    if ran.ended == "raised" and ran.error:
        # Code can raise an exception with the same text; only one that a host function raised counts.
        refusal = refusals.get(ran.error.message) if ran.error.of_host else None
        return refusal if isinstance(refusal, Unavailable | Refused) else _raised(label, ran.error)
    kind = TimedOut if ran.ended == "time" else RunFailed
    met, hint = _describe_limit(label, ran, limits)
    return kind(f"{label.called[0].upper()}{label.called[1:]} {met}.", hint=hint)


def _raised(label: CodeLabel, error: ScriptError) -> RunFailed:
    at = f"line {error.line} of " if error.line else ""
    what = f"{error.type}: {error.message}" if error.message else error.type
    noun = label.called.partition(" '")[0]
    return RunFailed(f"In {at}{label.called}: {what}", hint=f"Fix {noun} or its inputs.")


def _describe_limit(label: CodeLabel, ran: ScriptOutcome, limits: SandboxLimits) -> tuple[str, str]:
    """Return the limit that it hit, and what to do about it."""
    less = "Do less work per run."
    table: dict[EndReason, tuple[str, str]] = {
        "fuel": (f"exceeded the limit of {limits.fuel:,} instructions", less),
        "time": (f"exceeded the time limit of {limits.seconds:g} s", less),
        "memory": (f"exceeded the memory limit of {limits.memory_bytes >> 20} MiB", less),
        "stack": ("exceeded the recursion limit", "Use a loop instead of recursion."),
        "output": (
            f"exceeded the output limit of {limits.output_chars:,} characters",
            f"{label.give} only the result, and print less.",
        ),
        "result": (
            f"{label.gave} an invalid result{_why(ran)}",
            f"{label.give} plain JSON of at most {limits.result_bytes:,} bytes.",
        ),
        "calls": (
            f"exceeded the limit of {limits.calls:,} host calls or {limits.traffic_bytes >> 20} MiB of traffic",
            "Use the functions that take several items at once.",
        ),
        "forbidden": (f"tried a forbidden operation{_why(ran)}", "Scripts cannot use files, the network or processes."),
    }
    return table.get(ran.ended, (f"crashed the interpreter{_why(ran)}", "Fix the code."))


def _why(ran: ScriptOutcome) -> str:
    return f": {ran.detail}" if ran.detail else ""
