"""The `Sandbox` protocol: what runs untrusted scripts and functions, its limits, and the outcome of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from prowess.sandbox.script import Script
from prowess.skill.limits import MIB

HostFunction = Callable[..., Awaitable[Any]]
"""What a script can call: it takes and gives plain JSON."""

CONTEXT_FUNCTIONS = ("fetch", "read_file", "write_file", "log")
"""The host functions that a function has on its context; the others are in the module that it imports."""

EndReason = Literal[
    "done", "raised", "fuel", "time", "memory", "stack", "output", "result", "calls", "forbidden", "crashed"
]
"""How a run ended: it came to its end, or its script raised an error, or a limit was met, or it tried what no script may,
or the interpreter gave up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Caps on one run."""

    fuel: int = 20_000_000_000
    """How many instructions, where the sandbox counts them; the same script with the same answers then takes the same."""
    seconds: float = 10.0
    """How long it may compute or sleep; time in which the host works for it is not counted."""
    memory_bytes: int = 256 * MIB
    output_chars: int = 256 * 1024
    """How much may be printed."""
    result_bytes: int = MIB
    calls: int = 100
    """How often host functions may be called."""
    call_bytes: int = MIB
    """How much one call may say."""
    answer_bytes: int = 4 * MIB
    """How much one call may be answered with."""
    traffic_bytes: int = 64 * MIB
    """How much all calls and their answers may say."""


DEFAULT_LIMITS = SandboxLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptError:
    """What a script raised, and the line of it, counted from 1, where known."""

    type: str
    message: str
    line: int | None = None
    trace: str = ""
    of_host: bool = False
    """Whether it is a host function's answer that the script did not catch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOutcome:
    """What came of a run. The result is what a script submits or a function returns; what is printed never is."""

    ended: EndReason
    submitted: bool = False
    """Whether there is a result, which may be None."""
    result: Any = None
    stdout: str = ""
    error: ScriptError | None = None
    detail: str = ""
    """What else is known about why it ended."""
    fuel: int = 0
    """How many instructions it took; 0 where the sandbox does not count them."""
    calls: int = 0
    """How often it called its host."""
    confined: tuple[str, ...] = ()
    """By what the process was confined in which it ran, besides the engine."""


class Sandbox(Protocol):
    """Runs scripts so that they can do nothing but compute and call the host's functions.

    A script sees no network, no environment but that of its context, no file but those of its interpreter and of the packages
    that it brings, and nothing of another run; it is ended when it meets a limit, whatever it catches. How it ended is
    returned, not raised. A `ProwessError` of a host function is raised in the script; any other exception of one ends the
    script and is raised here. `Invalid` is raised where the sandbox does not know the language, `Refused` where runs lie too
    deep within each other, `Unavailable` where nothing can be run at all, `RunFailed` where the sandbox itself broke. A
    cancelled run has ended when the cancellation comes back.
    """

    async def run(
        self, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits = DEFAULT_LIMITS
    ) -> ScriptOutcome:
        """Run a script to its end."""
        ...

    async def close(self) -> None:
        """Give back what is held; a later run takes it again."""
        ...
