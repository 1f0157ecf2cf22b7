"""The end of a log that counts from 1 without gaps and can only be read forwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Read = Callable[[int, int], Awaitable[Sequence[T]]]
"""Reads at most so many entries after a number."""

_WIDER = 4


async def latest(read: Read[T], limit: int, *, last: int) -> Sequence[T]:
    """The last entries, oldest first, of a log whose newest has the number `last`; `read` may pass some over."""
    window = limit
    while True:
        after = max(0, last - window)
        found = await read(after, window)
        if len(found) >= limit or after == 0:
            return found[-limit:]
        window *= _WIDER
