"""A bell between threads and one task: any thread rings, the task waits."""

from __future__ import annotations

import asyncio


class Bell:
    """Made by the task that waits, in its loop. Many rings before the task looks are one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """Wake the task, from any thread; a loop that is closed has nobody to wake."""
        if self._rung:
            return
        self._rung = True
        try:
            self._loop.call_soon_threadsafe(self._heard.set)
        except RuntimeError:
            return

    def reset(self) -> None:
        """Forget the rings so far: what is looked at from now on is newer than them."""
        self._rung = False
        self._heard.clear()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for a ring since the last reset, or so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except TimeoutError:
            return
