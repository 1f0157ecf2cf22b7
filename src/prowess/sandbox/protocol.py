"""The `Sandbox` protocol for running untrusted scripts and functions, its limits, and the outcome of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from prowess.lazy_dataclass import dataclass
from prowess.sandbox.script import Script
from prowess.skill.limits import MIB

HostFunction = Callable[..., Awaitable[Any]]
"""A function that a script can call: it takes and returns JSON values."""

CONTEXT_FUNCTIONS = ("fetch", "read_file", "write_file", "log")
"""The host functions on the context of a function; the others are in the module that it imports."""

EndReason = Literal[
    "done", "raised", "fuel", "time", "memory", "stack", "output", "result", "calls", "forbidden", "crashed"
]
"""How a run ended: normally, with an error of the script, at a limit, by a forbidden operation, or by a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of one run."""

    # About three seconds of CPU: 5 to 9 billion instructions per second were measured.
    fuel: int = 20_000_000_000
    """How many instructions, where the sandbox counts them; the count is the same for the same script and answers."""
    seconds: float = 10.0
    """How long it may compute or sleep; time in which the host answers a call does not count."""
    memory_bytes: int = 256 * MIB
    output_chars: int = 256 * 1024
    """How many characters it may print."""
    result_bytes: int = MIB
    calls: int = 100
    """How many calls of host functions."""
    call_bytes: int = MIB
    """The size of the arguments of one call."""
    answer_bytes: int = 4 * MIB
    """The size of the answer to one call."""
    traffic_bytes: int = 64 * MIB
    """The size of all calls and answers together."""


DEFAULT_LIMITS = SandboxLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptError:
    """An error that a script raised, with its line, counted from 1, if known."""

    type: str
    message: str
    line: int | None = None
    trace: str = ""
    of_host: bool = False
    """True if a host function raised it and the script did not catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOutcome:
    """The outcome of a run. The result is what a script submits or a function returns, never what is printed."""

    ended: EndReason
    submitted: bool = False
    """True if there is a result (the result itself may be None)."""
    result: Any = None
    stdout: str = ""
    error: ScriptError | None = None
    detail: str = ""
    """More about why it ended."""
    fuel: int = 0
    """How many instructions it took; 0 if the sandbox does not count them."""
    calls: int = 0
    """How many calls of host functions it made."""
    confined: tuple[str, ...] = ()
    """How its process was confined, besides by the engine."""


class Sandbox(Protocol):
    """Runs scripts that can do nothing but compute and call host functions.

    A script sees no network, no environment except that of its context, no files except those of its interpreter and its
    packages, and nothing of other runs. At a limit it is ended, whatever exceptions it catches. How it ended is returned, not
    raised.

    A `ProwessError` of a host function is raised in the script; any other exception of one ends the script and is raised here.
    Raise `Invalid` for a language that the sandbox does not know, `Refused` if runs are nested too deeply, `Unavailable` if
    nothing can be run here, and `RunFailed` if the sandbox itself broke. When a cancellation returns, the run has ended.
    """

    async def run(
        self, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits = DEFAULT_LIMITS
    ) -> ScriptOutcome:
        """Run a script and return its outcome."""
        ...

    async def close(self) -> None:
        """Release processes and memory; a later run acquires them again."""
        ...
