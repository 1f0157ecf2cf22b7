"""Move blocking or long work off the event loop, so that deadlines hold and other requests are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

OFFLOAD_CHARS = 100_000
"""Up to so many characters, the work takes less than a thread is worth."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def offload(size: int, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What the work on so many characters gives; in a thread where they are many."""
    if size <= OFFLOAD_CHARS:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


async def offload_to_completion(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What blocking work gives in a thread. Whoever is cancelled meanwhile leaves only once it is done, so none is half known."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
