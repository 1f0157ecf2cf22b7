"""Call asynchronous objects from code without `await`: each call runs on an event loop in another thread.

This works where a loop is already running, as in a notebook. `prowess.sync` and `prowess.client` are made with it, so that
each API is written once; `scripts/sync_stub.py` generates their types.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import cached_property, wraps
from inspect import isasyncgen, iscoroutine, ismethod
from types import AsyncGeneratorType
from typing import Any, Self, TypeVar

T = TypeVar("T")
_END = object()


class LoopThread:
    """An event loop in a daemon thread, which runs all calls of one object and its parts.

    A forked child has the object without the thread, and starts another one with its first call.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="prowess-sync", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        """True once the loop has ended."""
        return self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. An interrupt cancels it and waits until it has ended."""
        if self._process != os.getpid() and not self.is_closed:
            self._start()
        if threading.current_thread() is self._thread or self.is_closed:
            work.close()
            # Waiting on the loop's own thread, from a callback such as `watch`, would never end.
            reason = "was closed" if self.is_closed else "cannot be called from one of its own callbacks"
            raise RuntimeError(f"This object {reason}.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            # Ctrl-C reaches only this thread; without the cancellation, the work would continue in the other one.
            return future.result()
        except BaseException:
            if future.cancel():
                asyncio.run_coroutine_threadsafe(_wait_for(work), self._loop).result()
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        if self.is_closed:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _wait_for(work: Coroutine[Any, Any, Any]) -> None:
    tasks = [task for task in asyncio.all_tasks() if task.get_coro() is work]
    if tasks:
        await asyncio.wait(tasks)


class BlockingProxy:
    """Gives the attributes of an object, with its coroutines and asynchronous iterators made synchronous."""

    def __init__(self, target: Any, loop: LoopThread) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._target, name)
        # The parts of an object are its cached properties.
        if isinstance(getattr(self._target.__class__, name, None), cached_property):
            value = BlockingProxy(value, self._loop)
        elif ismethod(value):
            value = self._blocking(value)
        else:
            return value  # may change, so it is read again every time
        # Python calls `__getattr__` only for what is not found here, so the next access is direct.
        self.__dict__[name] = value
        return value

    def __repr__(self) -> str:
        return f"<{type(self._target).__name__} without await>"

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]

    def _blocking(self, method: Callable[..., Any]) -> Callable[..., Any]:
        # The result decides, because a plain method may hand on the coroutine or iterator of another one.
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if iscoroutine(result):
                return self._loop.run(result)
            return self._iterate(result) if isasyncgen(result) else result

        return call

    def _iterate(self, items: AsyncGeneratorType[Any, Any]) -> Iterator[Any]:
        async def step() -> Any:
            return await anext(items, _END)

        try:
            while (item := self._loop.run(step())) is not _END:
                yield item
        finally:
            # An iterator may outlive its object; and after a second interrupt, it may not have stopped yet.
            if not self._loop.is_closed and not items.ag_running:
                self._loop.run(items.aclose())


class BlockingResource(BlockingProxy):
    """A proxy of an object that has to be closed, as a context manager. Closing it ends the thread, too."""

    def close(self) -> None:
        """Close everything, and end the thread. Closing twice does nothing."""
        if self._loop.is_closed:
            return
        try:
            self._loop.run(self._target.close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._loop.run(self._target.__aexit__(*raised))
        finally:
            self._loop.close()
