"""Run scripts natively, each in its own confined process, forked from a warm one."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import socket
import sys
import sysconfig
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prowess.child import frames
from prowess.child.process import ChildProcess, Children
from prowess.errors import RunFailed, Unavailable
from prowess.sandbox.confine.lockdown import NEEDED
from prowess.sandbox.protocol import DEFAULT_LIMITS, HostFunction, SandboxLimits, ScriptOutcome
from prowess.sandbox.script import Script, require_python
from prowess.sandbox.script_process import ScriptProcess, program_command
from prowess.sandbox.script_run import RunSlots, ScriptRun
from prowess.threads import offload

START_SECONDS, FORK_SECONDS = 60.0, 30.0
SPARES = 2
"""How many processes wait for the next runs."""
BUBBLEWRAP = "bubblewrap"
_WRAPPED = "--unshare-all --new-session --clearenv --cap-drop ALL --ro-bind / / --dev /dev --chdir / --"
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/usr/share/zoneinfo")
_MESSAGE_BYTES = 1 << 16
_HINT = "Native runs need Linux 5.13 or later with Landlock and seccomp, on x86_64 or aarch64. Run `prowess doctor` for details."


class Zygote:
    """A process that is ready to fork others. It ends with this process."""

    def __init__(self, child: ChildProcess, confined: tuple[str, ...]) -> None:
        self._child = child
        self._turn = threading.Lock()
        self._spares: list[socket.socket] = []
        self._confinement = b""
        self.confined = confined
        """How each process that it forks is confined."""

    @classmethod
    def start(cls) -> Zygote:
        """Start one; raise `Unavailable` if the processes that it forks could not be confined. Blocking."""
        if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
            raise Unavailable("Native runs are not available: this system cannot confine processes.", hint=_HINT)
        # bubblewrap adds PID and user namespaces. It is not needed, and fails in many containers: then it is left out.
        wrapping = shutil.which("bwrap")
        started = (_start_zygote([wrapping, *_WRAPPED.split()], (BUBBLEWRAP,)) if wrapping else None) or _start_zygote(
            [], ()
        )
        if started is None:
            raise Unavailable("Native runs failed to start.", hint=_HINT)
        missing = [word for word in NEEDED if word not in started.confined]
        if missing:
            started.end()
            raise Unavailable(
                f"Native runs are not available: this system cannot limit {' and '.join(missing)}.", hint=_HINT
            )
        return started

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True if it can fork."""
        return self._child.alive

    def take(self, confinement: dict[str, Any]) -> socket.socket:
        """Return the socket of an unused process, which will report over it that it has started."""
        encoded = json.dumps(confinement).encode()
        with self._turn:
            # A spare has already confined itself, which cannot be undone, so it fits only these limits and packages.
            if self._confinement != encoded:
                self._drop_spares()
            if self._spares:
                return self._spares.pop(0)
        return self._fork(encoded)

    def prepare(self, confinement: dict[str, Any]) -> None:
        """Have processes waiting for the next runs with the same confinement.

        This is called when a run has ended, not when it starts: forking during a run slows it down where cores are few. With
        two spares a run that follows at once finds one, and the fork that it causes continues in parallel.
        """
        encoded = json.dumps(confinement).encode()
        with self._turn, contextlib.suppress(RunFailed):
            if self._confinement != encoded:
                self._drop_spares()
                self._confinement = encoded
            while len(self._spares) < SPARES and self.alive:
                self._spares.append(self._fork(encoded))

    def _fork(self, confinement: bytes) -> socket.socket:
        own_end, child_end = socket.socketpair()
        try:
            # Our copy is closed once the message holds one: otherwise the end of the process would not be seen.
            with child_end:
                socket.send_fds(self._child.channel, [confinement], [child_end.fileno()])
        except OSError as error:
            own_end.close()
            raise RunFailed("The parent process of native runs crashed.", hint="Try again.") from error
        return own_end

    def end(self) -> None:
        """Kill it; all that it forked dies with it."""
        self._child.end()
        self._drop_spares()

    def abandon(self) -> None:
        """Let go of it without ending it, in a process that was forked from the one that it belongs to."""
        self._child.abandon()
        self._drop_spares()

    def _drop_spares(self) -> None:
        while self._spares:
            self._spares.pop().close()


def readable_paths() -> list[str]:
    """Return what every native run may read: the standard library, and the libraries and time zones of the system.

    Links are resolved and folders within others left out: each path costs every process a Landlock rule, and a rule holds for
    a folder by whatever name it is reached.
    """
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["platstdlib"], f"{sys.base_prefix}/lib", *_LIBRARIES]
    real = {Path(path).resolve() for path in found if Path(path).exists()}
    return sorted(str(path) for path in real if real.isdisjoint(path.parents))


def _start_zygote(wrapping: list[str], confined: tuple[str, ...]) -> Zygote | None:
    """Start a process and wait until it has said how it can confine; None if it ended before."""
    command = [*wrapping, *program_command("zygote", package="sandbox.process.inside", read=readable_paths())]
    try:
        # Packets keep their boundaries: each is one request with its descriptor.
        child = ChildProcess.start(command, kind=socket.SOCK_SEQPACKET)
    except OSError as error:
        raise Unavailable(f"Native runs failed to start: {error.strerror}.") from error
    child.channel.settimeout(START_SECONDS)
    try:
        reached: list[str] = json.loads(child.channel.recv(_MESSAGE_BYTES))
        child.channel.settimeout(FORK_SECONDS)
    except (OSError, ValueError):
        child.end()
        return None
    return Zygote(child, (*confined, *reached))


MAX_CONCURRENT = 16
"""How many scripts of one event loop run at a time, besides nested ones."""


class ProcessSandbox:
    """Runs scripts in processes that are forked from a warm one, and confined before they receive the script.

    A script can import the standard library and its packages. It can open nothing else, start no process, make no socket, and
    signal nobody; see `lock_down`. If a process cannot be confined like that, nothing is run. Instructions are not counted:
    `fuel` has no limit and is 0.
    """

    def __init__(self) -> None:
        self._zygotes = _ZygotePool()
        self._slots = RunSlots(MAX_CONCURRENT)
        # The pool, not `self.close`: a reference to `self` would keep the sandbox alive.
        weakref.finalize(self, self._zygotes.end)

    async def run(
        self, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits = DEFAULT_LIMITS
    ) -> ScriptOutcome:
        """Run a script and return its outcome."""
        require_python(script)
        async with self._slots.hold():
            # The usual case needs no thread; only starting a zygote blocks.
            zygote = self._zygotes.ready() or await offload(self._zygotes.start)
            confinement = _confinement(script, limits)
            process = ScriptProcess(zygote.take(confinement), limits, zygote.confined)
            try:
                return await ScriptRun(process, frames.ONLY, script, functions, limits).ended()
            finally:
                zygote.prepare(confinement)

    @property
    def confined(self) -> tuple[str, ...]:
        """How processes are confined; empty before the first run."""
        return self._zygotes.confined

    @property
    def pids(self) -> list[int]:
        """The process ids of the processes that fork others."""
        return self._zygotes.pids()

    async def close(self) -> None:
        """End all processes, and with them their runs."""
        await offload(self._zygotes.end)


class _ZygotePool:
    """The process that others are forked from, while there is one."""

    def __init__(self) -> None:
        self._zygotes: Children[Zygote] = Children()
        self.confined: tuple[str, ...] = ()

    def ready(self) -> Zygote | None:
        """Return the one there is, if it is alive."""
        return _live(self._zygotes.snapshot())

    def start(self) -> Zygote:
        """Return the one there is, or start one. Blocking."""
        with self._zygotes as zygotes:
            # Looked up again under the lock: another thread may have started one.
            found = _live(zygotes)
            if found is None:
                while zygotes:
                    zygotes.pop().end()
                found = Zygote.start()
                zygotes.append(found)
                self.confined = found.confined
            return found

    def pids(self) -> list[int]:
        """Return its process id."""
        found = self.ready()
        return [found.pid] if found else []

    def end(self) -> None:
        """End it."""
        self._zygotes.end()


def _live(zygotes: list[Zygote]) -> Zygote | None:
    return next((zygote for zygote in zygotes if zygote.alive), None)


def _confinement(script: Script, limits: SandboxLimits) -> dict[str, Any]:
    packages = [str(script.packages.resolve())] if script.packages else []
    return {
        "read": packages,
        "path": packages,
        "seconds": math.ceil(limits.seconds),
        "memory_bytes": limits.memory_bytes,
    }
