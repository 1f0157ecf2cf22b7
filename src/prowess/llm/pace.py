"""How fast requests may follow each other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[object]]


class Pace:
    """Lets requests start evenly: at most so many in a minute, with the same time between two of them.

    Whoever comes too early waits for a turn, in the order of coming. Safe for many threads and event loops.
    """

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._gap = 60 / per_minute
        self._clock = clock
        self._sleep = sleep
        self._next = clock()
        self._lock = threading.Lock()

    async def turn(self) -> None:
        """Wait until the next request may start."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._gap
        if start > now:
            await self._sleep(start - now)
