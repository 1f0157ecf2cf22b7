"""The WebAssembly engine and the component that is run in it."""

from __future__ import annotations

import threading
import time

from wasmtime import Config, Engine
from wasmtime.component import Component

from prowess.sandbox.wasm.inside.bindings import set_stacks

STACK_BYTES = 4 << 20
"""How much of its thread's stack a guest may use."""
THREAD_BYTES = STACK_BYTES + (4 << 20)
TICK_SECONDS = 0.01


def make_engine() -> Engine:
    """An engine that counts what guests do, and that can stop them."""
    config = Config()
    config.consume_fuel = True
    config.epoch_interruption = True
    set_stacks(config, STACK_BYTES)
    return Engine(config)


def precompile(component: bytes) -> bytes:
    """The machine code of a component, for this engine on this machine."""
    return bytes(Component(make_engine(), component).serialize())


class Ticker:
    """Moves the engine's epochs on while any guest runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._running = 0
        self._lock = threading.Lock()
        self._some = threading.Event()

    def start(self) -> None:
        """Tick from now on."""
        threading.Thread(target=self._tick, name="ticker", daemon=True).start()

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            self._some.set()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                self._some.clear()

    def _tick(self) -> None:
        while self._some.wait():
            time.sleep(TICK_SECONDS)
            self._engine.increment_epoch()
