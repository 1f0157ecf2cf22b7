"""Scripts at the speed of the machine, each in a process of its own that has given up everything that it does not need."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from prowess.sandbox import frames
from prowess.sandbox.child import Child
from prowess.sandbox.process.zygote import Zygote
from prowess.sandbox.running import Running
from prowess.sandbox.sandbox import DEFAULT_LIMITS, HostFunction, Ran, SandboxLimits
from prowess.sandbox.script import Script, check_python
from prowess.sandbox.turns import Turns

AT_ONCE = 16
"""How many scripts of one event loop are run at a time, besides those that others wait for."""


class ProcessSandbox:
    """Runs scripts in processes that are forked from one that is warm, and confined before they see the script.

    A script can import the standard library and the packages that it brings. It can open nothing else, start no process,
    make no socket, and signal nobody; see `confining.lock`. Where a process cannot be confined so, nothing is run. There is
    no count of instructions: `fuel` is not limited and is 0.
    """

    def __init__(self) -> None:
        self._zygotes = _Zygotes()
        self._turns = Turns(AT_ONCE)
        weakref.finalize(self, self._zygotes.end)

    async def run(
        self, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits = DEFAULT_LIMITS
    ) -> Ran:
        """Run a script to its end."""
        check_python(script)
        async with self._turns.taken():
            zygote = self._zygotes.ready() or await asyncio.to_thread(self._zygotes.start)
            confinement = _confinement(script, limits)
            child = Child(zygote.take(confinement), limits, zygote.confined)
            try:
                return await Running(child, frames.ONLY, script, functions, limits).ended()
            finally:
                zygote.prepare(confinement)

    @property
    def confined(self) -> tuple[str, ...]:
        """By what processes are confined; nothing before the first run."""
        return self._zygotes.confined

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that are ready to fork others."""
        return self._zygotes.pids()

    async def close(self) -> None:
        """End all processes; runs that are on their way end."""
        await asyncio.to_thread(self._zygotes.end)


class _Zygotes:
    """The process that others are forked from, while there is one. That of a process is left alone in one forked from it."""

    def __init__(self) -> None:
        self._zygote: Zygote | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.confined: tuple[str, ...] = ()

    def ready(self) -> Zygote | None:
        """The one there is, if it is alive."""
        self._forget()
        zygote = self._zygote
        return zygote if zygote and zygote.alive else None

    def start(self) -> Zygote:
        """The one there is, or a new one."""
        with self._lock:
            found = self.ready()
            if found is None:
                self._end()
                found = self._zygote = Zygote.start()
                self.confined = found.confined
            return found

    def pids(self) -> list[int]:
        """The number of it."""
        found = self.ready()
        return [found.pid] if found else []

    def end(self) -> None:
        """End it."""
        self._forget()
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._zygote:
            self._zygote.end()
            self._zygote = None

    def _forget(self) -> None:
        if os.getpid() != self._process:
            self._process, self._lock = os.getpid(), threading.Lock()
            if self._zygote:
                self._zygote.forget()
                self._zygote = None


def _confinement(script: Script, limits: SandboxLimits) -> dict[str, Any]:
    packages = [str(script.packages.resolve())] if script.packages else []
    return {
        "read": packages,
        "path": packages,
        "seconds": math.ceil(limits.seconds),
        "memory_bytes": limits.memory_bytes,
    }
