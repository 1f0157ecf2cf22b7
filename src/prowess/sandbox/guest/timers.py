"""`asyncio` without anything to read or write: a loop that has only timers to wait for."""

from __future__ import annotations

import asyncio
import asyncio.events
import time
from typing import Any


class Timers:
    """Stands where a loop has its selector."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Wait for the next timer."""
        if timeout is None:
            raise RuntimeError("Nothing is left that could wake this event loop.")
        if timeout > 0:
            time.sleep(timeout)
        return []

    def close(self) -> None:
        """There is nothing to close."""


class TimerLoop(asyncio.BaseEventLoop):
    """An event loop for coroutines that await each other and `asyncio.sleep`."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = Timers()

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing ever comes from outside."""

    def _write_to_self(self) -> None:
        """There is no other thread that could have to wake it."""


def install() -> None:
    """Let `asyncio.run` use such a loop."""
    asyncio.new_event_loop = asyncio.events.new_event_loop = TimerLoop
