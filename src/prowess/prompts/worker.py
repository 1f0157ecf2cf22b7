"""Start render worker processes, send them requests, and kill those that take too long."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prowess.child import frames
from prowess.child.process import ChildProcess, FrameChannel, package_folders, python_command
from prowess.errors import RunFailed, TimedOut, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.skill.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderLimits:
    """Limits of one rendering, generous for honest templates, and the number of workers."""

    seconds: float = 2.0
    memory_bytes: int = 256 * MIB
    output_bytes: int = MIB
    values_bytes: int = 4 * MIB
    depth: int = 64
    """Nesting depth of the values."""
    steps: int = 5_000_000
    """Instructions of a MiniJinja template."""
    workers: int = 2
    start_seconds: float = 30.0
    """Seconds until a new worker must be ready."""


DEFAULT_RENDER_LIMITS = RenderLimits()


_PROGRAM = Path(__file__).with_name("worker_program.py")
_PACKAGES = ("minijinja", "combustache")
_FAULT_BYTES = 1 << 16
"""Size of a fault's description, which does not count as output."""
_ENDED_BY_OTHERS = {0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGKILL, -signal.SIGTERM}
"""Exit codes for which no template is to blame: the worker was ended from outside, or its input ended."""


RenderAnswer = str | dict[str, Any]
"""The text, or the fault of the template."""


class WorkerDied(Exception):
    """The worker was killed from outside before it answered; the request can be sent to another worker."""


class RenderWorker:
    """A worker process. It serves one request at a time; each may come from another event loop."""

    def __init__(self, child: ChildProcess, limits: RenderLimits) -> None:
        self._limits = limits
        self._child = child
        buffer = frames.FrameBuffer(limits.output_bytes + _FAULT_BYTES, run=frames.ONLY)
        self._channel = FrameChannel(child.channel, buffer, self._take, self._lose)
        self._reply: asyncio.Future[RenderAnswer] | None = None

    @classmethod
    async def start(cls, limits: RenderLimits) -> RenderWorker:
        """Start a worker, and return it when it is ready; raise `Unavailable` if it does not become ready in time."""
        worker = cls(_start_process(limits), limits)
        try:
            await worker._receive(asyncio.get_running_loop().time() + limits.start_seconds)
        except BaseException as error:
            worker.end()
            if isinstance(error, RunFailed | WorkerDied):
                raise Unavailable(f"The template worker failed to start: {error}", hint="Try again.") from error
            raise
        return worker

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True if it accepts requests."""
        return self._child.alive

    async def ask(self, request: bytes) -> RenderAnswer:
        """Send a request, and return the answer.

        Raise `TimedOut`, `RunFailed` or `WorkerDied` if there is none; the worker has ended then, and also when the caller is
        cancelled.
        """
        try:
            return await self._receive(asyncio.get_running_loop().time() + self._limits.seconds, request)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill it, and release what it holds."""
        self._channel.close()
        self._child.end()

    def abandon(self) -> None:
        """Forget the worker without ending it, in a process that was forked from its owner."""
        self._child.abandon()

    async def _receive(self, deadline: float, request: bytes | None = None) -> RenderAnswer:
        """Send the request, if any, and return the next answer; raise `TimedOut` at the deadline."""
        loop = asyncio.get_running_loop()
        reply = self._reply = loop.create_future()
        timer = loop.call_at(deadline, self._fail, _timeout_error(self._limits))
        self._channel.attach(loop)
        try:
            if request is not None:
                self._channel.send(frames.ONLY, frames.RUN, request)
            return await reply
        finally:
            timer.cancel()
            # The next request may come from another event loop, in another thread, which cannot detach it from this one.
            self._channel.detach()

    def _take(self, run: int, kind: int, payload: bytes) -> None:
        del run
        if self._reply and not self._reply.done():
            self._reply.set_result(json.loads(payload) if kind == frames.FAILED else payload.decode())

    def _lose(self, is_invalid: bool) -> None:
        if is_invalid:
            self._child.kill()
        self._fail(self._death())

    def _fail(self, error: Exception) -> None:
        if self._reply and not self._reply.done():
            self._reply.set_exception(error)

    def _death(self) -> RunFailed | WorkerDied:
        """Return the error for the exit code of the process."""
        code = self._child.wait()
        # The worker's own alarm: it ends a rendering even while this event loop is blocked.
        if code == -signal.SIGALRM:
            return _timeout_error(self._limits)
        # MiniJinja is native code, which aborts the process if memory cannot be allocated.
        if code in {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}:
            return out_of_memory_error(self._limits)
        if code in _ENDED_BY_OTHERS:
            return WorkerDied()
        return RunFailed(f"The template worker exited with code {code}.", hint="Simplify the template.")


def out_of_memory_error(limits: RenderLimits) -> RunFailed:
    """Return the error for a rendering that needs too much memory."""
    mebibytes = limits.memory_bytes >> 20
    return RunFailed(
        f"Rendering the template exceeded the memory limit of {mebibytes} MiB.",
        hint="Use fewer loops and joins in the template, or pass smaller inputs.",
    )


def _timeout_error(limits: RenderLimits) -> TimedOut:
    return TimedOut(
        f"Rendering the template exceeded the time limit of {limits.seconds:g} s.",
        hint="Use fewer loops in the template, or pass smaller inputs.",
    )


def _start_process(limits: RenderLimits) -> ChildProcess:
    options = json.dumps({**asdict(limits), "parent": os.getpid()})
    try:
        return ChildProcess.start(python_command(str(_PROGRAM), options, *package_folders(_PACKAGES)), channel="stdio")
    except OSError as error:
        raise Unavailable(f"The template worker failed to start: {error.strerror}.", hint="Try again.") from error
