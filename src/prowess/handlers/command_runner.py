"""Run a program for a call: with the skill's files and grants, confined, with its failure explained."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from prowess.errors import NotFound, ProwessError, Refused, RunFailed, TimedOut, Unavailable
from prowess.handlers.requirements import GrantLookup, explain_missing_env, grant_env
from prowess.lazy_dataclass import dataclass
from prowess.policy.grants import Grants
from prowess.run.call import Call
from prowess.sandbox.commands.command import (
    DEFAULT_COMMAND_LIMITS,
    Command,
    CommandLimits,
    CommandOutcome,
    CommandSandbox,
)
from prowess.sandbox.commands.write_guard import WriteGuard
from prowess.sandbox.roots import Root
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.threads import offload, offload_to_completion

ReadFiles = Callable[[Skill], Awaitable[Mapping[str, bytes]]]
"""Reads all files of a skill, by path."""

MAX_PATHS_SHOWN = 3
MAX_ERROR_CHARS = 2_000
"""Characters of a program's error output that are part of our error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """The output of a successful program, without the secrets that it was granted."""

    stdout: str
    facts: JsonObject


class CommandRunner:
    """Runs programs in the sandbox for cli_command and script."""

    def __init__(
        self,
        sandbox: CommandSandbox,
        files: ReadFiles,
        grants_of: GrantLookup,
        limits: CommandLimits = DEFAULT_COMMAND_LIMITS,
    ) -> None:
        self._sandbox = sandbox
        self._files = files
        self.granted = grants_of
        """Returns what a call may reach."""
        self._limits = limits

    async def files_of(self, call: Call) -> Mapping[str, bytes]:
        """Return the files of the skill."""
        return await self._files(call.skill)

    async def run(
        self,
        call: Call,
        grants: Grants,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes],
        called: str,
        stdin: str = "",
        seconds: float | None = None,
        success: Collection[int] = (0,),
        packages: Path | None = None,
        executable: bool = True,
    ) -> CommandOutput:
        """Run a program to its end; raise `RunFailed` if its exit code is not in `success` or it hits a limit.

        Remove hidden files, skills and files such as AGENTS.md that it leaves in a granted folder, and raise `Refused`: other
        tools would run or follow them.
        """
        limits = self._limits if seconds is None else replace(self._limits, seconds=seconds)
        grant_env(call, grants)
        for root in grants.roots:
            # A program opens files itself, unseen, so every granted folder counts as used.
            call.notes.receipt.touch("written" if root.writable else "read", root.name)
        env = {**grants.env, **({"PYTHONPATH": str(packages)} if packages else {})}
        command = Command(
            argv=argv,
            stdin=stdin.encode(errors="replace"),
            files=files,
            executable=executable,
            env=env,
            roots=(*grants.roots, *((Root(name=str(packages), path=packages, whole=True),) if packages else ())),
        )
        completed = await self._run_guarded(call, command, limits)
        secrets = call.notes.secrets
        stdout, stderr = secrets.redact_text(_text(completed.stdout)), secrets.redact_text(_text(completed.stderr))
        facts: JsonObject = {"exit_code": completed.exit_code, "stderr": stderr, "confined": list(completed.confined)}
        call.notes.raw = stdout
        call.notes.detail["command"] = {**facts, "ended": completed.ended}
        if completed.ended != "done" or completed.exit_code not in success:
            raise _failure(call, called, completed, limits, stderr or stdout, grants)
        return CommandOutput(stdout=stdout, facts=facts)

    async def _run_guarded(self, call: Call, command: Command, limits: CommandLimits) -> CommandOutcome:
        """Run a command and clean up the granted folders after it."""
        if not any(root.writable for root in command.roots):
            return await self._completed(command, limits)
        guard = await offload(WriteGuard, command.roots)
        removed: list[str] = []
        try:
            completed = await self._completed(command, limits)
        finally:
            # Also after a failure or a cancellation: what the program has left could be run by other tools.
            removed = await offload_to_completion(guard.clear)
            for path in removed:
                call.notes.receipt.refuse("written", path)
        if removed:
            raise Refused(
                "The program left hidden files, skills or instructions for agents in a folder, which is not allowed: "
                f"{', '.join(removed[:MAX_PATHS_SHOWN])}.",
                hint="They were removed. Write files under other names.",
            )
        return completed

    async def _completed(self, command: Command, limits: CommandLimits) -> CommandOutcome:
        try:
            return await self._sandbox.run(command, limits)
        # A program that is not installed is a case for the artifact's fallback.
        except NotFound as error:
            raise Unavailable(error.message, hint=error.hint) from None


def _text(output: bytes) -> str:
    return output.decode(errors="replace")


def _failure(
    call: Call, called: str, completed: CommandOutcome, limits: CommandLimits, reason: str, grants: Grants
) -> ProwessError:
    """Return the error of a failed program, with its error output and what it was not granted."""
    less = "Do less work per run."
    met = {
        "memory": f"exceeded the memory limit of {limits.memory_bytes >> 20} MiB",
        "processes": f"exceeded the limit of {limits.processes} processes",
        "files": f"exceeded the file size limit of {limits.file_bytes >> 20} MiB",
        "": "was killed, possibly because it ran out of memory",
    }
    if completed.ended == "time":
        return TimedOut(f"{called} timed out after {limits.seconds:g} s.", hint=less)
    if completed.ended == "output":
        return RunFailed(f"{called} exceeded the output limit of {limits.output_bytes:,} bytes.", hint="Print less.")
    if completed.ended == "killed":
        return RunFailed(f"{called} {met[completed.detail]}.", hint=less)
    ended = (
        f"exited with code {completed.exit_code}"
        if completed.exit_code >= 0
        else f"was killed by signal {-completed.exit_code}"
    )
    # The end says most: a traceback closes with its exception.
    words = reason.strip()[-MAX_ERROR_CHARS:]
    return RunFailed(
        f"{called} {ended}{f': {words}' if words else '.'}",
        hint=explain_missing_env(call, grants)
        or "Check its inputs. A command has no network and sees only its own files.",
    )
