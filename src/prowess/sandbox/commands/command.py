"""The `CommandSandbox` protocol for running programs of skills in processes that reach only what they were given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol

from prowess.lazy_dataclass import dataclass
from prowess.sandbox.roots import Root
from prowess.skill.limits import MIB

CommandEndReason = Literal["done", "time", "output", "killed"]
"""How a command ended: by itself, at its time limit, because it wrote too much, or killed, for instance at its memory limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program and its arguments; no shell is involved.

    It runs in a temporary folder that contains `files` and nothing else, and has another, empty one as its home. It can write
    to both; they are removed afterwards. `roots` are the only other folders with data of users that it can reach.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """By path within the folder."""
    executable: bool = True
    """True if files in the folder may be executed. If not, common programs are also configured to ignore everything that would make
    them execute something: configuration, hooks, modules in the current folder."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    roots: tuple[Root, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """Limits of one command."""

    seconds: float = 30.0
    memory_bytes: int = 1024 * MIB
    output_bytes: int = MIB
    """For stdout and stderr each."""
    file_bytes: int = 64 * MIB
    processes: int = 64


DEFAULT_COMMAND_LIMITS = CommandLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """The outcome of a command. `exit_code` is negative if a signal ended it."""

    ended: CommandEndReason
    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    detail: str = ""
    """The limit that it exceeded, if it was killed for that: `memory`, `processes` or `files`."""
    confined: tuple[str, ...] = ()
    """How it was confined."""


class CommandSandbox(Protocol):
    """Runs commands without network and without the environment and files of this process.

    When a command ends, everything that it started is killed. How it ended is returned, not raised. Raise `NotFound` if there
    is no such program, and `Unavailable` if nothing can be run safely here. When a cancellation returns, the command has ended.
    """

    async def run(self, command: Command, limits: CommandLimits = DEFAULT_COMMAND_LIMITS) -> CommandOutcome:
        """Run a command and return its outcome."""
        ...
