"""What runs programs that skills bring or name, in a process that can reach nothing it was not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from prowess.sandbox.roots import Root
from prowess.skill.limits import MIB

CommandEndReason = Literal["done", "time", "output", "killed"]
"""How a command ended: by itself, or because its time was over, or it wrote too much, or something killed it, such as the
limit on memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program and its arguments, which are never read by a shell.

    It runs in a temporary folder with these `files` in it and nothing else, and has an empty one for its home; both are removed
    afterwards. They can be written and belong to this run alone. `roots` are the only other folders of people that it sees.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """By path within the folder."""
    executable: bool = True
    """Whether files in the folder can be executed. Where they cannot, common programs also leave alone what would have them
    execute something: settings of other people, hooks, modules that lie in the current folder."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    roots: tuple[Root, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """Caps on one command."""

    seconds: float = 30.0
    memory_bytes: int = 1024 * MIB
    output_bytes: int = MIB
    """Of each of stdout and stderr."""
    file_bytes: int = 64 * MIB
    processes: int = 64


DEFAULT_COMMAND_LIMITS = CommandLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """What came of a command. `exit_code` is negative where a signal ended it."""

    ended: CommandEndReason
    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    detail: str = ""
    """What it had too much of, where that is why it was killed: `memory`, `processes` or `files`."""
    confined: tuple[str, ...] = ()
    """By what it was confined."""


class CommandSandbox(Protocol):
    """Runs commands without network, without this process's environment and files, and ends all they started with them.

    `NotFound` where there is no such program, `Unavailable` where nothing can be run safely here. How a command ended is
    returned, not raised. A cancelled command has ended when the cancellation comes back.
    """

    async def run(self, command: Command, limits: CommandLimits = DEFAULT_COMMAND_LIMITS) -> CommandOutcome:
        """Run a command to its end."""
        ...
