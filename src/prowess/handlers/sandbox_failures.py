"""Explain why code that ran in a sandbox returned nothing."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.errors import ProwessError, Refused, RunFailed, TimedOut, Unavailable
from prowess.handlers.host_functions import Refusals
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
    return RunFailed(f"In {at}{label.called}: {what}", hint=f"Correct {noun}, or the inputs that it was given.")


def _describe_limit(label: CodeLabel, ran: ScriptOutcome, limits: SandboxLimits) -> tuple[str, str]:
    """Return the limit that it hit, and what to do about it."""
    less = "Do less in one run, or in smaller steps."
    table: dict[EndReason, tuple[str, str]] = {
        "fuel": (f"took more than the {limits.fuel:,} instructions that a run may take", less),
        "time": (f"took more than the {limits.seconds:g} s that a run may compute", less),
        "memory": (f"needed more than the {limits.memory_bytes >> 20} MiB of memory that a run may use", less),
        "stack": ("nested deeper than the interpreter can", "Use a loop in the place of recursion."),
        "output": (
            f"printed more than {limits.output_chars:,} characters",
            f"{label.give} what counts, and print less.",
        ),
        "result": (
            f"{label.gave} what cannot be taken{_why(ran)}",
            f"{label.give} plain JSON of at most {limits.result_bytes:,} bytes.",
        ),
        "calls": (
            f"called its host more than {limits.calls:,} times, or for more than {limits.traffic_bytes >> 20} MiB",
            "Use the functions that take several at once.",
        ),
        "forbidden": (f"tried what no script may{_why(ran)}", "A script has no files, no network and no processes."),
    }
    return table.get(ran.ended, (f"made the interpreter give up{_why(ran)}", "Correct it."))


def _why(ran: ScriptOutcome) -> str:
    return f": {ran.detail}" if ran.detail else ""
