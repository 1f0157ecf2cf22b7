"""Hand blocking work to a thread. This is the only module that calls `asyncio.to_thread`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

SMALL_CHARS = 100_000
"""Parsing or searching a text up to this size takes about a millisecond, less than a thread costs the other tasks."""

P = ParamSpec("P")
T = TypeVar("T")


async def offload(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread and return its result."""
    return await asyncio.to_thread(work, *args, **kwargs)


async def offload_if_large(size: int, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work on a text of `size` characters, in a thread if the text is large."""
    return work(*args, **kwargs) if size <= SMALL_CHARS else await offload(work, *args, **kwargs)


async def offload_to_completion(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread; if the caller is cancelled, wait until the work is done before leaving.

    A thread cannot be cancelled, so without this, work such as recording a cost would continue after the caller has returned.
    """
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
