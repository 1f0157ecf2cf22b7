"""Run commands in confined processes, each started and watched by a launcher that the command cannot see."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from prowess.child.process import ChildProcess
from prowess.errors import Invalid, NotFound, ProwessError, RunFailed, Unavailable
from prowess.sandbox.commands.command import (
    DEFAULT_COMMAND_LIMITS,
    Command,
    CommandEndReason,
    CommandLimits,
    CommandOutcome,
)
from prowess.sandbox.commands.pipes import ExitWatcher, PipeReader, PipeWriter
from prowess.sandbox.folders import new_folder, remove_folder, sweep_folders
from prowess.sandbox.programs import (
    DATA_PATHS,
    PROGRAM_FOLDERS,
    SEARCH_PATH,
    WRITABLE_DEVICES,
    Program,
    existing_paths,
    find_program,
)
from prowess.sandbox.roots import Root, find_private
from prowess.sandbox.script_process import program_command
from prowess.skill.json_values import is_encodable
from prowess.threads import offload


def write_files(folder: Path, files: Mapping[str, bytes], links: Mapping[str, str], *, executable: bool) -> None:
    """Write files into a folder, and links by name unless a file has it; raise `ValueError` for paths outside the folder."""
    for path, content in files.items():
        target = folder / _relative_path(path)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(content)
        target.chmod(0o700 if executable else 0o600)
    for name in sorted(links):  # one that holds another comes before it, and shows it
        target = folder / _relative_path(name)
        if not os.path.lexists(target) and target.parent.resolve() == target.parent:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.symlink_to(links[name])


def _relative_path(path: str) -> PurePosixPath:
    plain = PurePosixPath(path)
    if plain.is_absolute() or ".." in plain.parts or not plain.parts:
        raise ValueError(f"{path!r} is not a relative path inside the folder.")
    return plain


OUTCOME_BYTES = 1 << 16
GRACE_SECONDS = 10.0
"""How long the launcher may take to start and to clean up, before it is killed too."""

MAX_LINKS = 1_000
# Below the limits of Linux, 128 KiB for one argument and by default 2 MiB for all, even with four bytes for each
# character.
MAX_ARGUMENT_CHARS, MAX_ARGUMENTS_CHARS = 30_000, 250_000
"""Characters of one argument or environment variable, and of all together."""

# git runs hooks and the program named in `core.fsmonitor`, and takes any folder that looks like a bare repository for
# one; Python imports from the current folder.
GUARD_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "core.hooksPath",
    "GIT_CONFIG_VALUE_0": os.devnull,
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "safe.bareRepository",
    "GIT_CONFIG_VALUE_2": "explicit",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",
}
"""The environment of programs that must not execute files of the folder in which they run."""

_WORK, _HOME, _COVER = "files", "home", "cover"
_HINT = (
    "Commands need Linux with Landlock, seccomp and namespaces. Run `prowess doctor` to see what this machine supports."
)
_EXCEEDED = ("memory", "processes", "files")


class LockedCommandSandbox:
    """Runs commands confined by Landlock, seccomp, limits and namespaces; raise `Unavailable` if the system has too little of it.

    Programs are looked for in the folders `searched` only. The first command also removes what killed processes have left.
    """

    def __init__(self, *, searched: Sequence[str] = SEARCH_PATH) -> None:
        self._searched = tuple(searched)
        self._swept = False

    async def run(self, command: Command, limits: CommandLimits = DEFAULT_COMMAND_LIMITS) -> CommandOutcome:
        """Run a command and return its outcome."""
        # Shielded: a thread cannot be cancelled, and what it starts must be ended.
        starting = asyncio.ensure_future(offload(self._start, command, limits))
        try:
            launched = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _end_when_started(starting)
            raise
        try:
            return await launched.completed()
        finally:
            await launched.end()

    def _start(self, command: Command, limits: CommandLimits) -> LaunchedCommand:
        _check_command(command)
        if not self._swept:
            self._swept = True
            sweep_folders()
        folder = new_folder()
        try:
            for name in (_WORK, _HOME, _COVER):
                (folder / name).mkdir(mode=0o700)
            write_files(folder / _WORK, command.files, _root_links(command.roots), executable=command.executable)
            return LaunchedCommand(self._task(command, limits, folder), command.stdin, limits)
        except BaseException as error:
            remove_folder(folder)
            if isinstance(error, ValueError):
                raise Invalid(str(error)) from error
            raise

    def _task(self, command: Command, limits: CommandLimits, folder: Path) -> dict[str, Any]:
        program = self._program(command.argv[0], folder / _WORK)
        made_of = (*PROGRAM_FOLDERS, *program.made_of)
        roots = [str(root.path) for root in command.roots]
        writable = [str(root.path) for root in command.roots if root.writable]
        brought = sum(map(len, command.files.values()))
        return {
            "program": program.path,
            "argv": list(command.argv),
            "env": self._environment(command, folder),
            "folder": str(folder),
            "work": str(folder / _WORK),
            "roots": existing_paths(writable),
            "seconds": limits.seconds,
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes,
            # Its own files may be there twice, for instance while they are rewritten or unpacked.
            "folder_bytes": 2 * brought + limits.file_bytes,
            "lock": {
                "read": existing_paths((*made_of, *DATA_PATHS, *roots)),
                "write": existing_paths((*WRITABLE_DEVICES, str(folder), *writable)),
                "execute": existing_paths((*made_of, str(folder)) if command.executable else made_of),
                "seconds": math.ceil(limits.seconds) + 1,  # CPU time, for when the launcher does not get to watch
                "memory_bytes": limits.memory_bytes,
                "file_bytes": limits.file_bytes,
                # A folder that is itself a root was allowed by name.
                "mask": [
                    path for root in command.roots if not root.whole for path in find_private(root) if path not in roots
                ],
                "cover": str(folder / _COVER),
                # Another program may have put a link in the place of a folder since it was granted.
                "exact": [str(folder), *roots],
            },
        }

    def _program(self, name: str, folder: Path) -> Program:
        if "/" in name and not name.startswith("/"):
            name = str(folder / name)
        return find_program(name, self._searched)

    def _environment(self, command: Command, folder: Path) -> dict[str, str]:
        home = str(folder / _HOME)
        plain = {"PATH": os.pathsep.join(self._searched), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        # The guards come last, so that a skill cannot override them.
        return {**plain, **command.env, **({} if command.executable else GUARD_ENVIRONMENT)}


class LaunchedCommand:
    """A command that was started, with the launcher that watches it; for one event loop."""

    def __init__(self, task: dict[str, Any], stdin: bytes, limits: CommandLimits) -> None:
        self._folder = Path(task["folder"])
        self._limits = limits
        self._stdin = stdin
        self._child = _start_launcher()
        with suppress(OSError):  # a broken launcher is noticed when its outcome is awaited
            self._child.channel.sendall(json.dumps(task).encode() + b"\n")

    async def completed(self) -> CommandOutcome:
        """Wait for the end and return the outcome."""
        pipes, most = self._child.pipes, self._limits.output_bytes
        outcome = PipeReader(self._child.channel.fileno(), OUTCOME_BYTES, self._stop)
        stdout = PipeReader(pipes[1].fileno(), most, self._stop)
        stderr = PipeReader(pipes[2].fileno(), most, self._stop)
        stdin = PipeWriter(pipes[0], self._stdin)
        try:
            async with asyncio.timeout(self._limits.seconds + GRACE_SECONDS):
                await asyncio.gather(outcome.ended, stdout.ended, stderr.ended)
        except TimeoutError:
            raise RunFailed("The command could not be stopped in time.", hint="Try again.") from None
        finally:
            for one in (stdin, stdout, stderr, outcome):
                one.close()
        ended, detail, report = _parse_outcome(outcome.read)
        return CommandOutcome(
            ended="output" if stdout.full or stderr.full else ended,
            exit_code=os.waitstatus_to_exitcode(report.get("status", signal.SIGKILL)),
            stdout=stdout.read,
            stderr=stderr.read,
            detail=detail,
            confined=tuple(report.get("confined", ())),
        )

    async def end(self) -> None:
        """End it with everything that it started, and remove its folder; a cancellation waits until that is done."""
        # Shielded: when the cancellation returns, nothing of the command may be left.
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise

    async def _end(self) -> None:
        self._stop()
        exited = ExitWatcher(self._child.pid)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await exited.ended
        except TimeoutError:
            self._child.kill()
        finally:
            exited.close()
        await offload(self._clear_up)

    def _clear_up(self) -> None:
        self._child.wait()  # it is exiting or was killed; the launcher kills all others before it exits
        self._child.end()
        remove_folder(self._folder)

    def _stop(self) -> None:
        """Tell the launcher to end the command; it still reports the outcome."""
        with suppress(OSError):
            # The launcher sees the end of its input; the other direction stays open for the outcome.
            self._child.channel.shutdown(socket.SHUT_WR)


def _root_links(roots: Sequence[Root]) -> dict[str, str]:
    """Return the links for roots with relative names; `.` stands for every entry of its folder."""
    links: dict[str, str] = {}
    for root in roots:
        if root.name == ".":
            links |= {entry.name: str(entry) for entry in islice(root.path.iterdir(), MAX_LINKS)}
        elif not Path(root.name).is_absolute():
            links[root.name] = str(root.path)
    return links


async def _end_when_started(starting: asyncio.Future[LaunchedCommand]) -> None:
    """End a command that was cancelled while it was starting."""
    with suppress(ProwessError):
        await (await starting).end()


def _start_launcher() -> ChildProcess:
    """Start a launcher, which waits for its task."""
    try:
        return ChildProcess.start(program_command("launcher", package="sandbox.commands.inside"), channel="argument")
    except OSError as error:
        raise Unavailable(f"The command failed to start: {error.strerror}.") from error


def _parse_outcome(data: bytes) -> tuple[CommandEndReason, str, dict[str, Any]]:
    """Return how a command ended, from the report of the launcher. Commands cannot forge it, because they do not have the socket."""
    if not data:
        raise RunFailed("The supervisor process of the command crashed.", hint="Try again.")
    report = json.loads(data)
    if "failed" in report:
        raise Unavailable(f"The command cannot be run: {report['failed']}.", hint=_HINT)
    if "not_started" in report:
        raise NotFound(
            f"The program failed to start: {report['not_started']}.",
            hint="Check that it is an executable for this system.",
        )
    reason, status = report["reason"], report.get("status")
    if reason in _EXCEEDED:
        return "killed", reason, report
    # The kernel ends a command at its CPU limit if the launcher did not get to it first.
    if reason == "time" or status == signal.SIGXCPU:
        return "time", "", report
    if status == signal.SIGXFSZ:
        return "killed", "files", report
    return "killed" if status in (None, signal.SIGKILL) else "done", "", report


def _check_command(command: Command) -> None:
    """Raise `Invalid` for arguments that no program can be started with."""
    if not command.argv or not command.argv[0]:
        raise Invalid("The command has no program.")
    texts = (*command.argv, *command.env, *command.env.values())
    if any("\0" in text or not is_encodable(text) for text in texts):
        raise Invalid("An argument of the command contains a NUL or an invalid character.")
    if max(map(len, texts)) > MAX_ARGUMENT_CHARS or sum(map(len, texts)) > MAX_ARGUMENTS_CHARS:
        raise Invalid(
            f"The arguments of the command are too long: the limits are {MAX_ARGUMENT_CHARS:,} characters each and {MAX_ARGUMENTS_CHARS:,} in total.",
            hint="Pass long texts through stdin.",
        )
