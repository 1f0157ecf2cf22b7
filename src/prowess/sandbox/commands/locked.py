"""Commands in processes of their own, each started and watched over by a launcher that it cannot see."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from prowess.errors import Invalid, NotFound, ProwessError, RunFailed, Unavailable
from prowess.sandbox.commands.command import DEFAULT_COMMAND_LIMITS, Command, CommandEnded, CommandLimits, Completed
from prowess.sandbox.commands.filling import fill
from prowess.sandbox.commands.finding import DATA, PROGRAMS, SEARCHED, WRITTEN, Program, existing, find_program
from prowess.sandbox.commands.pipes import Exit, Intake, Outflow
from prowess.sandbox.folders import new_folder, remove_folder, sweep_folders
from prowess.sandbox.programs import command as program_command
from prowess.sandbox.roots import Root

OUTCOME_BYTES = 1 << 16
GRACE_SECONDS = 10.0
"""How long the launcher may take to begin and to clear up, before it is ended too."""

MOST_LINKS = 1_000
MOST_ARGUMENT, MOST_ARGUMENTS = 30_000, 250_000
"""Characters of one argument or environment variable, and of all together."""

GUARDS = {
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
"""What programs are told that are not to execute what lies where they run."""

_WORK, _HOME = "files", "home"
_HINT = "Commands need Linux with Landlock, seccomp and namespaces; `prowess doctor` says what this machine has."
_EXCESSES = ("memory", "processes", "files")


class LockedCommands:
    """Runs commands confined by what the system offers: Landlock, seccomp, limits, namespaces; `Unavailable` where that is too little.

    Programs are `searched` for in these folders alone. The first command also removes what killed processes left behind.
    """

    def __init__(self, *, searched: Sequence[str] = SEARCHED) -> None:
        self._searched = tuple(searched)
        self._swept = False

    async def run(self, command: Command, limits: CommandLimits = DEFAULT_COMMAND_LIMITS) -> Completed:
        """Run a command to its end."""
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, command, limits))
        try:
            launched = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _end_started(starting)
            raise
        try:
            return await launched.completed()
        finally:
            await launched.end()

    def _start(self, command: Command, limits: CommandLimits) -> Launched:
        _check(command)
        if not self._swept:
            self._swept = True
            sweep_folders()
        folder = new_folder()
        try:
            for name in (_WORK, _HOME):
                (folder / name).mkdir(mode=0o700)
            fill(folder / _WORK, command.files, _links(command.roots), executable=command.executable)
            return Launched(self._task(command, limits, folder), command.stdin, limits)
        except BaseException as error:
            remove_folder(folder)
            if isinstance(error, ValueError):
                raise Invalid(str(error)) from error
            raise

    def _task(self, command: Command, limits: CommandLimits, folder: Path) -> dict[str, Any]:
        program = self._program(command.argv[0], folder / _WORK)
        made_of = (*PROGRAMS, *program.made_of)
        roots = [str(root.path) for root in command.roots]
        writable = [str(root.path) for root in command.roots if root.writable]
        brought = sum(map(len, command.files.values()))
        return {
            "program": program.path,
            "argv": list(command.argv),
            "env": self._environment(command, folder),
            "folder": str(folder),
            "work": str(folder / _WORK),
            "roots": existing(writable),
            "seconds": limits.seconds,
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes,
            "folder_bytes": 2 * brought + limits.file_bytes,
            "lock": {
                "read": existing((*made_of, *DATA, *roots)),
                "write": existing((*WRITTEN, str(folder), *writable)),
                "execute": existing((*made_of, str(folder)) if command.executable else made_of),
                "seconds": math.ceil(limits.seconds) + 1,
                "memory_bytes": limits.memory_bytes,
                "file_bytes": limits.file_bytes,
            },
        }

    def _program(self, name: str, folder: Path) -> Program:
        if "/" in name and not name.startswith("/"):
            name = str(folder / name)
        return find_program(name, self._searched)

    def _environment(self, command: Command, folder: Path) -> dict[str, str]:
        home = str(folder / _HOME)
        plain = {"PATH": os.pathsep.join(self._searched), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        return {**plain, **command.env, **({} if command.executable else GUARDS)}


class Launched:
    """A command that has been started, with the launcher that watches over it; for one event loop."""

    def __init__(self, task: dict[str, Any], stdin: bytes, limits: CommandLimits) -> None:
        self._folder = Path(task["folder"])
        self._limits = limits
        self._stdin = stdin
        self._line, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _started(theirs)
        except BaseException:
            self._line.close()
            raise
        with suppress(OSError):  # that it has broken is seen when it is waited for
            self._line.sendall(json.dumps(task).encode() + b"\n")

    async def completed(self) -> Completed:
        """What has come of it, once it has ended."""
        process, most = self._process, self._limits.output_bytes
        pipes = cast("tuple[IO[bytes], IO[bytes], IO[bytes]]", (process.stdin, process.stdout, process.stderr))
        outcome = Intake(self._line.fileno(), OUTCOME_BYTES, self._stop)
        stdout = Intake(pipes[1].fileno(), most, self._stop)
        stderr = Intake(pipes[2].fileno(), most, self._stop)
        stdin = Outflow(pipes[0], self._stdin)
        try:
            async with asyncio.timeout(self._limits.seconds + GRACE_SECONDS):
                await asyncio.gather(outcome.ended, stdout.ended, stderr.ended)
        except TimeoutError:
            raise RunFailed("The command could not be ended in time.", hint="Try again.") from None
        finally:
            for one in (stdin, stdout, stderr, outcome):
                one.close()
        ended, detail, told = _outcome(outcome.read)
        return Completed(
            ended="output" if stdout.full or stderr.full else ended,
            exit_code=os.waitstatus_to_exitcode(told.get("status", signal.SIGKILL)),
            stdout=stdout.read,
            stderr=stderr.read,
            detail=detail,
            confined=tuple(told.get("confined", ())),
        )

    async def end(self) -> None:
        """End it, with all that it has started, and remove what it leaves; a cancellation waits until that is done."""
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise

    async def _end(self) -> None:
        self._stop()
        exited = Exit(self._process.pid)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await exited.ended
        except TimeoutError:
            self._process.kill()
        finally:
            exited.close()
        await asyncio.to_thread(self._clear_up)

    def _clear_up(self) -> None:
        with self._process, self._line:
            self._process.wait()
        remove_folder(self._folder)

    def _stop(self) -> None:
        """Have the launcher end the command; it still says what came of it."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)


def _links(roots: Sequence[Root]) -> dict[str, str]:
    """Where the names of roots lead that are no places by themselves; `.` stands for all that lies in its folder."""
    links: dict[str, str] = {}
    for root in roots:
        if root.name == ".":
            links |= {entry.name: str(entry) for entry in islice(root.path.iterdir(), MOST_LINKS)}
        elif not Path(root.name).is_absolute():
            links[root.name] = str(root.path)
    return links


async def _end_started(starting: asyncio.Future[Launched]) -> None:
    """End what was being started when it was no longer wanted."""
    with suppress(ProwessError):
        await (await starting).end()


def _started(line: socket.socket) -> subprocess.Popen[bytes]:
    """The launcher, which waits for its task."""
    try:
        return subprocess.Popen(  # noqa: S603  (our own program)
            program_command("launcher", package="commands.inside", line=line.fileno()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(line.fileno(),),
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"Commands cannot be started: {error.strerror}.") from error


def _outcome(said: bytes) -> tuple[CommandEnded, str, dict[str, Any]]:
    """How a command ended, by the launcher's word, which no command can forge."""
    if not said:
        raise RunFailed("What watches over the command broke.", hint="Try again.")
    told = json.loads(said)
    if "failed" in told:
        raise Unavailable(f"The command cannot be run: {told['failed']}.", hint=_HINT)
    if "not_started" in told:
        raise NotFound(
            f"The program cannot be started: {told['not_started']}.", hint="See that it is a program of this system."
        )
    reason, status = told["reason"], told.get("status")
    if reason in _EXCESSES:
        return "killed", reason, told
    if reason == "time" or status == signal.SIGXCPU:
        return "time", "", told
    if status == signal.SIGXFSZ:
        return "killed", "files", told
    return "killed" if status in (None, signal.SIGKILL) else "done", "", told


def _check(command: Command) -> None:
    """Refuse what no program can be started with."""
    if not command.argv or not command.argv[0]:
        raise Invalid("A command needs a program.")
    given = (*command.argv, *command.env, *command.env.values())
    if any("\0" in text or not _is_text(text) for text in given):
        raise Invalid("An argument of a command has a character that no argument can have.")
    if max(map(len, given)) > MOST_ARGUMENT or sum(map(len, given)) > MOST_ARGUMENTS:
        raise Invalid(
            f"The arguments of a command are too long: {MOST_ARGUMENT:,} characters each, {MOST_ARGUMENTS:,} together.",
            hint="Give long texts by stdin.",
        )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
