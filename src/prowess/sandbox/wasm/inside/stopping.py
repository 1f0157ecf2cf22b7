"""Why a guest is stopped, and how much of its time is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Stop(Exception):
    """Ends the guest from within a function that it called."""


class Clock:
    """The time that a guest has: it runs while the guest computes or sleeps, and stands while its host does something."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left = seconds
        self._since: float | None = now()
        self._cancelled = threading.Event()
        self.reason = ""
        """Why it is to end, in one word; the first reason counts."""

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop the guest soon. Any thread may say so."""
        self.reason = self.reason or reason
        self._cancelled.set()

    def over(self) -> bool:
        """Whether the guest has to end now."""
        if not self.reason and self._since is not None and self._now() - self._since >= self._left:
            self.reason = "time"
        return bool(self.reason)

    def check(self) -> None:
        """End the guest if it has to end."""
        if self.over():
            raise Stop

    def stop(self, reason: str) -> Stop:
        """The exception that ends the guest for a reason."""
        self.reason = self.reason or reason
        return Stop()

    def sleep_until(self, moment: int) -> None:
        """Sleep to a moment of the monotonic clock, in nanoseconds, on the guest's time."""
        while (left := moment / 1e9 - self._now()) > 0:
            self.check()
            since = self._since or self._now()
            self._cancelled.wait(max(0.0, min(left, since + self._left - self._now(), 1.0)))
        self.check()

    def pause(self) -> None:
        """The host does something for the guest."""
        if self._since is not None:
            self._left -= self._now() - self._since
            self._since = None

    def go_on(self) -> None:
        """The guest goes on."""
        self._since = self._now()
