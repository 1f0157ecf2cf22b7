"""Work on long texts, done beside the event loop, so that nobody waits for it and a deadline is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

SHORT = 100_000
"""Up to so many characters, the work takes less than a thread is worth."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def beside(size: int, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What the work on so many characters gives; in a thread where they are many."""
    if size <= SHORT:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
