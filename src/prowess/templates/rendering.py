"""Rendering templates that anybody may have written, in worker processes that can be killed."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from prowess.errors import Unavailable
from prowess.skill.template_variables import Syntax
from prowess.templates.limits import DEFAULT_LIMITS, RenderLimits
from prowess.templates.render_faults import Fault
from prowess.templates.render_request import is_small, render_request
from prowess.templates.worker import Answer, Died, Worker


class Renderer(Protocol):
    """Whatever makes a text of a template and its values.

    `Invalid` is raised where the template cannot be read, lacks an input or cannot do what it says with one, and where the
    values are not plain JSON; its problems name the line and the input, and never a value. `TimedOut` and `RunFailed`
    are raised where a limit is met, `Unavailable` where nothing can be rendered at all. Values are not changed.
    """

    async def render(self, template: str, values: Mapping[str, Any], *, syntax: Syntax = "jinja") -> str:
        """The text."""
        ...

    async def close(self) -> None:
        """Give back what is held; a later rendering takes it again."""
        ...


class WorkerRenderer:
    """Renders in up to `limits.workers` processes for each event loop; they start when needed and end with this process.

    A rendering that meets a limit costs its worker, not the next rendering. Any number may be asked for at once; they wait
    for a worker in the order in which they came.
    """

    def __init__(self, limits: RenderLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._idle = _Idle()
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        weakref.finalize(self, self._idle.end)

    async def render(self, template: str, values: Mapping[str, Any], *, syntax: Syntax = "jinja") -> str:
        """The text."""
        if is_small(values, self._limits):
            request = render_request(template, values, syntax, self._limits, checked=True)
        else:
            request = await asyncio.to_thread(render_request, template, values, syntax, self._limits)
        async with self._turn():
            answer = await self._ask(request)
        if isinstance(answer, str):
            return answer
        raise Fault(template=template, syntax=syntax, limits=self._limits, **answer).error

    async def close(self) -> None:
        """End the workers that are idle."""
        await asyncio.to_thread(self._idle.end)

    def _turn(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        found = self._turns.get(loop)
        if found is None:
            found = self._turns[loop] = asyncio.Semaphore(self._limits.workers)
        return found

    async def _ask(self, request: bytes) -> Answer:
        """The answer of a worker, or of a second one where the first is ended from outside."""
        for _ in range(2):
            worker = self._idle.take() or await Worker.start(self._limits)
            try:
                answer = await worker.ask(request)
            except Died:
                continue
            if isinstance(answer, dict) and answer["kind"] == "memory":  # little of it may be left
                worker.end()
            else:
                self._idle.put(worker, most=self._limits.workers)
            return answer
        raise Unavailable("The workers that render templates are ended before they answer.", hint="Try again.")


class _Idle:
    """Workers that can be asked, most recently used first. Those of a process are left alone in one forked from it."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._process = os.getpid()

    def take(self) -> Worker | None:
        """A worker that is alive, if there is one."""
        if os.getpid() != self._process:
            self._forget()
        while self._workers:
            worker = self._workers.pop()
            if worker.alive:
                return worker
            worker.end()
        return None

    def put(self, worker: Worker, *, most: int) -> None:
        """Keep a worker, unless there are enough."""
        if len(self._workers) < most:
            self._workers.append(worker)
        else:
            worker.end()

    def end(self) -> None:
        """End them all."""
        if os.getpid() != self._process:
            self._forget()
        while self._workers:
            self._workers.pop().end()

    def _forget(self) -> None:
        while self._workers:
            self._workers.pop().forget()
        self._process = os.getpid()
