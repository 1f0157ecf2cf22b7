"""Run scripts in CPython compiled to WebAssembly, each in its own instance, in a worker process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from prowess.child import frames
from prowess.child.process import ChildProcess, Children, FrameChannel
from prowess.errors import RunFailed, Unavailable
from prowess.sandbox.protocol import DEFAULT_LIMITS, HostFunction, SandboxLimits, ScriptOutcome
from prowess.sandbox.script import Script, require_python
from prowess.sandbox.script_process import OnCall, program_command
from prowess.sandbox.script_run import PerLoop, RunSlots, ScriptRun
from prowess.sandbox.wasm.component import Progress, ensure_component, ignore_progress
from prowess.sandbox.wasm.started_runs import StartedRuns, shared_file
from prowess.threads import offload

START_SECONDS = 60.0
MAX_FRAME_BYTES = 64 << 20
"""A worker that sends a larger frame is broken or hostile, and is ended."""
_EXIT_SECONDS = 0.2


class _OpenRun(NamedTuple):
    """A run that has not ended."""

    on_call: OnCall
    on_end: Callable[[], None]
    ended: asyncio.Future[bytes]


class Worker:
    """A worker process. It belongs to the event loop that took it, until that is closed; then another may take it."""

    def __init__(self, child: ChildProcess, started: StartedRuns) -> None:
        self._child = child
        self._started = started
        self._channel = FrameChannel(child.channel, frames.FrameBuffer(MAX_FRAME_BYTES), self._take, self._lose)
        self._runs: dict[int, _OpenRun] = {}
        self._lost: frozenset[int] = frozenset()
        self._number = 0
        self.confined: tuple[str, ...] = ()
        """How it is confined, besides by the engine."""

    @classmethod
    async def start(cls, component: Path, *, threads: int, spare_guests: int) -> Worker:
        """Start a worker and wait until it is ready; it has one thread for each run at a time."""
        worker = await offload(_start_worker, component, threads, spare_guests)
        worker.take()
        try:
            ready = worker.open(0, _ignore_call, _ignore_end)
            async with asyncio.timeout(START_SECONDS):
                worker.confined = tuple(json.loads(await ready))
        except TimeoutError:
            worker.end()
            raise Unavailable(
                "The sandbox did not become ready in time.", hint="Try again when the machine is less busy."
            ) from None
        except RunFailed as error:
            raise Unavailable(f"The sandbox failed to start: {error.message}") from error
        except BaseException:
            worker.end()
            raise
        return worker

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True if it accepts runs; a worker whose event loop was closed during a run does not."""
        loop = self._channel.loop
        return self._child.alive and not (self._runs and loop and loop.is_closed())

    @property
    def is_free(self) -> bool:
        """True if the running event loop may use it."""
        loop = self._channel.loop
        return loop is None or loop is asyncio.get_running_loop() or loop.is_closed()

    def take(self) -> int:
        """Return the number of a new run, for the running event loop."""
        self._channel.attach(asyncio.get_running_loop())
        self._number += 1
        return self._number

    def open(self, number: int, on_call: OnCall, on_end: Callable[[], None]) -> asyncio.Future[bytes]:
        """Return a future of the payload of the last frame of a run; `RunFailed` if the worker ends before."""
        ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._runs[number] = _OpenRun(on_call, on_end, ended)
        return ended

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Send a frame as soon as the worker takes it."""
        self._channel.send(number, kind, payload)

    def lost(self, number: int) -> bool:
        """Return True if the worker ended by itself before it started the run, which another worker may therefore get."""
        return number in self._lost

    def end(self) -> None:
        """Kill it and release what it holds; its runs fail."""
        if not self._child.alive:
            self._note_lost()
        self._child.kill()
        loop = self._channel.loop
        if loop and loop is not _running_loop() and loop.is_running():
            return  # that loop runs in another thread, and sees there that the process has ended
        self._fail("it was killed")

    def abandon(self) -> None:
        """Let go of it without ending it, in a process that was forked from the one that it belongs to."""
        self._child.abandon()

    def _lose(self, is_invalid: bool) -> None:
        if is_invalid:
            self.end()
            return
        self._note_lost()
        try:
            # The socket closes a moment before the exit code can be read.
            code = self._child.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:  # it has only closed its socket
            self._child.kill()
            code = self._child.wait()
        self._fail(f"its process exited with {code}")

    def _take(self, number: int, kind: int, payload: bytes) -> None:
        run = self._runs.get(number)
        # A late frame of a run that has ended.
        if run is None:
            return
        if kind == frames.CALL:
            name, _, arguments = payload.decode("utf-8", "replace").partition("\n")
            run.on_call(name, arguments)
            return
        del self._runs[number]
        if not run.ended.done():
            run.ended.set_result(payload)
            run.on_end()

    def _note_lost(self) -> None:
        self._lost |= self._runs.keys() - self._started.numbers()

    def _fail(self, why: str) -> None:
        self._channel.close()
        self._child.end()
        runs, self._runs = self._runs, {}
        for run in runs.values():
            if not run.ended.done() and not run.ended.get_loop().is_closed():
                run.ended.set_exception(RunFailed(f"The sandbox failed during a run: {why}.", hint="Try again."))
                run.on_end()


def _ignore_call(name: str, arguments: str) -> None:
    """A worker that is not ready makes no calls."""


def _ignore_end() -> None:
    """The caller of `start` awaits the future instead."""


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _start_worker(component: Path, threads: int, spare_guests: int) -> Worker:
    shared = shared_file(threads + 1)  # the program has a thread more than runs
    try:
        started = StartedRuns(shared, threads + 1)
        command = program_command(
            "program",
            started=shared,
            component=str(component),
            parent=os.getpid(),
            threads=threads,
            spare_guests=spare_guests,
        )
        return Worker(ChildProcess.start(command, pass_fds=(shared,)), started)
    except OSError as error:
        raise Unavailable(f"The sandbox failed to start: {error.strerror}.") from error
    finally:
        os.close(shared)


MAX_CONCURRENT = 32
"""How many scripts of one event loop run at a time, besides nested ones."""
SPARE_GUESTS = 2
"""How many interpreters are made ahead."""

Claim = tuple[Worker, int]
"""A worker, and the number of a run on it."""


class WasmSandbox:
    """Runs scripts in a worker process for each event loop, which starts when needed and ends with this process.

    The interpreter is built at the first run if `home` does not have it. Up to `MAX_CONCURRENT` scripts of an event loop run
    at a time, besides nested ones; further ones wait in order. If a worker breaks, the runs that it has started fail; a run
    that it had not started is given to another worker, once.
    """

    def __init__(self, home: Path, *, progress: Progress = ignore_progress, spare_guests: int = SPARE_GUESTS) -> None:
        self._home = home
        self._progress = progress
        self._spare_guests = spare_guests
        self._workers = _WorkerPool()
        self._slots = RunSlots(MAX_CONCURRENT)
        self._starting = PerLoop(asyncio.Lock)
        # The pool, not `self.close`: a reference to `self` would keep the sandbox alive.
        weakref.finalize(self, self._workers.end)

    async def run(
        self, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits = DEFAULT_LIMITS
    ) -> ScriptOutcome:
        """Run a script and return its outcome."""
        require_python(script)
        async with self._slots.hold():
            (worker, number), running = await self._begin(script, functions, limits)
            try:
                return await running.ended()
            except RunFailed:
                # A run that was started may have had effects through its host functions, so it is not repeated.
                if not worker.lost(number):
                    raise
            _, running = await self._begin(script, functions, limits)
            return await running.ended()

    @property
    def confined(self) -> tuple[str, ...]:
        """How the workers are confined, besides by the engine; empty before the first has started."""
        return self._workers.confined

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return self._workers.pids()

    async def close(self) -> None:
        """End the workers; their runs fail."""
        self._workers.end()

    async def _begin(
        self, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits
    ) -> tuple[Claim, ScriptRun]:
        claim = self._workers.claim()
        if claim is None:
            # One at a time: runs that start together must share one worker instead of starting one each.
            async with self._starting.get():
                claim = self._workers.claim() or await self._start()
        return claim, ScriptRun(*claim, script, functions, limits)

    async def _start(self) -> Claim:
        component = await offload(ensure_component, self._home, self._progress)
        worker = await Worker.start(component, threads=self._slots.total, spare_guests=self._spare_guests)
        return self._workers.add(worker)


class _WorkerPool:
    """The workers of this process."""

    def __init__(self) -> None:
        self._workers: Children[Worker] = Children()
        self.confined: tuple[str, ...] = ()

    def claim(self) -> Claim | None:
        """Return a run number of a live worker that the running event loop may use, or None."""
        with self._workers as workers:
            for worker in list(workers):
                if not worker.alive:
                    workers.remove(worker)
                    worker.end()
                elif worker.is_free:
                    return worker, worker.take()
        return None

    def add(self, worker: Worker) -> Claim:
        """Keep a worker, and return a run number of it."""
        with self._workers as workers:
            workers.append(worker)
            self.confined = worker.confined
            return worker, worker.take()

    def pids(self) -> list[int]:
        """Return the process ids of live workers."""
        with self._workers as workers:
            return [worker.pid for worker in workers if worker.alive]

    def end(self) -> None:
        """End all workers."""
        self._workers.end()
