"""Run scripts in CPython compiled to WebAssembly, each in its own instance, in a worker process."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from pathlib import Path

from prowess.child.process import Children
from prowess.errors import RunFailed
from prowess.sandbox.protocol import DEFAULT_LIMITS, HostFunction, SandboxLimits, ScriptOutcome
from prowess.sandbox.script import Script, require_python
from prowess.sandbox.script_run import PerLoop, RunSlots, ScriptRun
from prowess.sandbox.wasm.component import Progress, ensure_component, ignore_progress
from prowess.sandbox.wasm.worker import Worker
from prowess.threads import offload

MAX_CONCURRENT = 32
"""How many scripts of one event loop run at a time, besides nested ones."""
SPARES = 2
"""How many interpreters are made ahead."""

Claim = tuple[Worker, int]
"""A worker, and the number of a run on it."""


class WasmSandbox:
    """Runs scripts in a worker process for each event loop, which starts when needed and ends with this process.

    The interpreter is built at the first run if `home` does not have it. Up to `MAX_CONCURRENT` scripts of an event loop run
    at a time, besides nested ones; further ones wait in order. If a worker breaks, the runs that it has started fail; a run
    that it had not started is given to another worker, once.
    """

    def __init__(self, home: Path, *, progress: Progress = ignore_progress, spares: int = SPARES) -> None:
        self._home = home
        self._progress = progress
        self._spares = spares
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
        worker = await Worker.start(component, threads=self._slots.total, spares=self._spares)
        return self._workers.add(worker)


class _WorkerPool:
    """The workers of this process."""

    def __init__(self) -> None:
        self._workers: Children[Worker] = Children()
        self.confined: tuple[str, ...] = ()

    def claim(self) -> Claim | None:
        """Return a run number of a live worker that the running event loop may use, or None."""
        with self._workers.locked() as workers:
            for worker in list(workers):
                if not worker.alive:
                    workers.remove(worker)
                    worker.end()
                elif worker.is_free:
                    return worker, worker.take()
        return None

    def add(self, worker: Worker) -> Claim:
        """Keep a worker, and return a run number of it."""
        with self._workers.locked() as workers:
            workers.append(worker)
            self.confined = worker.confined
            return worker, worker.take()

    def pids(self) -> list[int]:
        """Return the process ids of live workers."""
        with self._workers.locked() as workers:
            return [worker.pid for worker in workers if worker.alive]

    def end(self) -> None:
        """End all workers."""
        self._workers.end()
