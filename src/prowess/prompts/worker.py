"""A render worker process seen from outside: started, asked, timed, and killed when it takes too long."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

from prowess.errors import RunFailed, TimedOut, Unavailable
from prowess.skill.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderLimits:
    """Caps on one rendering, with room to spare for honest templates, and how many go on at once."""

    seconds: float = 2.0
    memory_bytes: int = 256 * MIB
    output_bytes: int = MIB
    values_bytes: int = 4 * MIB
    depth: int = 64
    """How deep the values may nest."""
    steps: int = 5_000_000
    """How many instructions a MiniJinja template may take."""
    workers: int = 2
    start_seconds: float = 30.0
    """How long a worker may take until it is ready."""


DEFAULT_RENDER_LIMITS = RenderLimits()


_PROGRAM = Path(__file__).with_name("worker_program.py")
_PACKAGES = ("minijinja", "combustache")
_CHUNK = 1 << 16
_ENDED_BY_OTHERS = {0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGKILL, -signal.SIGTERM}


RenderAnswer = str | dict[str, Any]
"""The text, or what is wrong with the template."""


class WorkerDied(Exception):
    """The worker was ended by somebody else before it answered; another one may be asked."""


class RenderWorker:
    """A worker process. It does one request at a time, and none after it has ended.

    Each request may come from another event loop.
    """

    def __init__(self, process: subprocess.Popen[bytes], limits: RenderLimits) -> None:
        self._limits = limits
        self._process = process
        self._input = cast("IO[bytes]", process.stdin).fileno()
        self._output = cast("IO[bytes]", process.stdout).fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)

    @classmethod
    async def start(cls, limits: RenderLimits) -> RenderWorker:
        """A worker that is ready."""
        worker = cls(_start_process(limits), limits)
        try:
            await worker._receive(asyncio.get_running_loop().time() + limits.start_seconds)
        except BaseException as error:
            worker.end()
            if isinstance(error, RunFailed | WorkerDied):
                raise Unavailable(f"No worker for templates could be started: {error}", hint="Try again.") from error
            raise
        return worker

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    async def ask(self, request: bytes) -> RenderAnswer:
        """The answer to a request.

        `TimedOut` or `RunFailed` is raised where there is none; the worker has ended then, as it has when the wait for it is
        cancelled, and with `WorkerDied`.
        """
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        try:
            await self._send(struct.pack(">I", len(request)) + request, deadline)
            return await self._receive(deadline)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill it, and give back what it holds."""
        self._process.kill()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Let go of it without ending it, in a process that was forked from the one that it belongs to."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    async def _send(self, data: bytes, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                await self._until(loop.add_writer, loop.remove_writer, self._input, deadline)
            except BrokenPipeError:
                raise WorkerDied from None

    async def _receive(self, deadline: float) -> RenderAnswer:
        loop = asyncio.get_running_loop()
        data = bytearray()
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">I", data)[0]:
            await self._until(loop.add_reader, loop.remove_reader, self._output, deadline)
            piece = os.read(self._output, _CHUNK)
            if not piece:
                raise self._death()
            data += piece
        return data[5:].decode() if data.startswith(b"T", 4) else json.loads(data[5:])

    async def _until(
        self, watch: Callable[..., Any], unwatch: Callable[[int], Any], pipe: int, deadline: float
    ) -> None:
        """Wait until the pipe can be used, and no longer than to the deadline."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[bool] = loop.create_future()
        watch(pipe, _settle, ready, True)
        timer = loop.call_at(deadline, _settle, ready, False)
        try:
            if not await ready:
                raise _timeout_error(self._limits)
        finally:
            timer.cancel()
            unwatch(pipe)

    def _death(self) -> RunFailed | WorkerDied:
        """Why it ended, as far as its exit tells."""
        code = self._process.wait()
        if code == -signal.SIGALRM:
            return _timeout_error(self._limits)
        if code in {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}:
            return out_of_memory_error(self._limits)
        if code in _ENDED_BY_OTHERS:
            return WorkerDied()
        return RunFailed(f"The worker that renders templates ended with {code}.", hint="Try another template.")


def _settle(ready: asyncio.Future[bool], outcome: bool) -> None:
    if not ready.done():
        ready.set_result(outcome)


def out_of_memory_error(limits: RenderLimits) -> RunFailed:
    """The error for a rendering that needs too much memory."""
    mebibytes = limits.memory_bytes >> 20
    return RunFailed(
        f"Rendering the template takes more than the {mebibytes} MiB of memory that it may.",
        hint="Repeat, join and nest less in the template, or pass smaller inputs.",
    )


def _timeout_error(limits: RenderLimits) -> TimedOut:
    return TimedOut(
        f"Rendering the template takes longer than the {limits.seconds:g} s that it may.",
        hint="Repeat less in the template, or pass smaller inputs.",
    )


def _start_process(limits: RenderLimits) -> subprocess.Popen[bytes]:
    told = json.dumps({**asdict(limits), "parent": os.getpid()})
    command = [sys.executable, "-ISB", "-X", "utf8", str(_PROGRAM), told, *_folders()]
    try:
        return subprocess.Popen(  # noqa: S603  (our own program)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"No worker for templates could be started: {error.strerror}.", hint="Try again.") from error


def _folders() -> list[str]:
    """Where the packages lie that the program imports."""
    found = [importlib.util.find_spec(package) for package in _PACKAGES]
    return list(dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin))
