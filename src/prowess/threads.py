"""Hand blocking work to a thread. This is the only module that calls `asyncio.to_thread`.

asyncio is imported where it is used: importing it takes a tenth of a short command, which does without; see `run_blocking`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio

SMALL_CHARS = 100_000
"""Parsing or searching a text up to this size takes about a millisecond, less than a thread costs the other tasks."""

QUICK_THREADS = 1
"""How many threads do quick work at a time. With two, a server under load needs a fifth more CPU for the same requests."""
QUICK_SECONDS = 0.25
"""Work that takes longer than this is not quick."""
_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

P = ParamSpec("P")
T = TypeVar("T")


class _Mode(threading.local):
    blocking = False


_mode = _Mode()


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run asynchronous work that waits for nothing but `offload` in this thread, without an event loop."""
    _mode.blocking = True
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    finally:
        _mode.blocking = False
        work.close()
    raise RuntimeError("This work waits for something, so it needs an event loop.")


async def offload(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread and return its result. Inside `run_blocking`, it runs in the same thread."""
    if _mode.blocking:
        return work(*args, **kwargs)
    import asyncio

    return await asyncio.to_thread(work, *args, **kwargs)


async def offload_quick(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work that usually takes a few milliseconds of CPU in a thread, one after another, and return its result.

    Python runs one thread at a time. With many at work, the event loop waits for its turn behind each of them, so that a
    server under load answers fewer requests the more threads it has. Work that takes longer than usual no longer counts,
    so that it holds up nobody. Work that waits, such as for another machine, belongs into `offload`.
    """
    if _mode.blocking:
        return work(*args, **kwargs)
    import asyncio

    loop = asyncio.get_running_loop()
    lane = _lanes.get(loop)
    if lane is None:
        _forget_closed_loops()
        lane = _lanes[loop] = asyncio.Semaphore(QUICK_THREADS)
    await lane.acquire()
    leave = _Once(lane.release)
    late = loop.call_later(QUICK_SECONDS, leave)
    try:
        return await offload(work, *args, **kwargs)
    finally:
        late.cancel()
        leave()


def _forget_closed_loops() -> None:
    """Drop the lanes of closed event loops. A semaphore that was waited for refers to its loop, which keeps both alive."""
    # `keyrefs` is one step, so that a loop in another thread may add its own meanwhile.
    for reference in _lanes.keyrefs():
        loop = reference()
        if loop is not None and loop.is_closed():
            _lanes.pop(loop, None)


class _Once:
    """Calls a function the first time that it is called."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


async def offload_if_large(size: int, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work on a text of `size` characters, in a thread if the text is large."""
    return work(*args, **kwargs) if size <= SMALL_CHARS else await offload(work, *args, **kwargs)


async def offload_to_completion(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread; if the caller is cancelled, wait until the work is done before leaving.

    A thread cannot be cancelled, so without this, work such as recording a cost would continue after the caller has returned.
    """
    if _mode.blocking:
        return work(*args, **kwargs)
    import asyncio

    task = asyncio.ensure_future(offload(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it as lost
        raise
