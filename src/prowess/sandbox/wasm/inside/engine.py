"""The WebAssembly engine, and the clock that stops a guest when its time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from wasmtime import Config, Engine
from wasmtime.component import Component

from prowess.sandbox.wasm.inside.bindings import set_stacks


class StopGuest(Exception):
    """Raised in a host function to end the guest that called it."""


class GuestClock:
    """The time limit of a guest: it runs while the guest computes or sleeps, and pauses while the host answers a call."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left = seconds
        self._since: float | None = now()
        self._cancelled = threading.Event()
        self.reason = ""
        """Why the guest must end, in one word; the first reason counts."""

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop the guest soon. Any thread may call this."""
        self.reason = self.reason or reason
        self._cancelled.set()

    def over(self) -> bool:
        """Return True if the guest must end now."""
        if not self.reason and self._since is not None and self._now() - self._since >= self._left:
            self.reason = "time"
        return bool(self.reason)

    def check(self) -> None:
        """Raise `StopGuest` if the guest must end."""
        if self.over():
            raise StopGuest

    def stop(self, reason: str) -> StopGuest:
        """Return the exception that ends the guest, for a reason."""
        self.reason = self.reason or reason
        return StopGuest()

    def sleep_until(self, moment: int) -> None:
        """Sleep until a moment of the monotonic clock, in nanoseconds, on the guest's time."""
        while (left := moment / 1e9 - self._now()) > 0:
            self.check()
            since = self._since or self._now()
            # An event instead of `time.sleep`, so that a cancellation wakes the guest at once.
            self._cancelled.wait(max(0.0, min(left, since + self._left - self._now(), 1.0)))
        self.check()

    def pause(self) -> None:
        """Stop the time: the host works for the guest."""
        if self._since is not None:
            self._left -= self._now() - self._since
            self._since = None

    def go_on(self) -> None:
        """Let the time run again."""
        self._since = self._now()


STACK_BYTES = 4 << 20
"""How much of its thread's stack a guest may use."""
# The rest is for host functions, which run on the same stack.
THREAD_BYTES = STACK_BYTES + (4 << 20)
# With a check at every second tick, a spinning guest ends about 30 ms after its deadline.
TICK_SECONDS = 0.01


def make_engine() -> Engine:
    """Return an engine that counts the instructions of guests and can interrupt them."""
    config = Config()
    # Both: fuel counts the same in every run of a script, and epochs enforce time and cancellation.
    config.consume_fuel = True
    config.epoch_interruption = True
    set_stacks(config, STACK_BYTES)
    return Engine(config)


def precompile(component: bytes) -> bytes:
    """Return the machine code of a component, for this engine on this machine."""
    return bytes(Component(make_engine(), component).serialize())


class Ticker:
    """Advances the epoch of the engine while a guest runs. Compiled code checks its deadline at every function and loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._running = 0
        self._lock = threading.Lock()
        self._some = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._tick, name="ticker", daemon=True).start()

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            self._some.set()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            # An idle worker does not tick: a hundred wake-ups a second would keep the processor busy for nothing.
            if not self._running:
                self._some.clear()

    def _tick(self) -> None:
        while self._some.wait():
            time.sleep(TICK_SECONDS)
            self._engine.increment_epoch()
