"""Guests that are made before they are needed, and those that are cleared away when they have been used."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from wasmtime import WasmtimeError

from prowess.sandbox.wasm.inside.guest import Guest

PAUSE_SECONDS = 0.002
"""How long a used guest is left alone, so that telling what came of its run is not held up."""


class Spares:
    """Keeps a few guests ready; each is taken once.

    Both is done in a thread of its own, so that nobody waits until the memory of a guest is given back.
    """

    def __init__(self, make: Callable[[], Guest], most: int) -> None:
        self._make = make
        self._most = most
        self._ready: queue.SimpleQueue[Guest] = queue.SimpleQueue()
        self._used: queue.SimpleQueue[Guest | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Make them from now on, beside whatever else goes on."""
        threading.Thread(target=self._keep, name="spares", daemon=True).start()

    def take(self) -> Guest:
        """A guest that is ready, or one that is made now."""
        try:
            return self._ready.get_nowait()
        except queue.Empty:
            return self._make()

    def give_back(self, guest: Guest | None) -> None:
        """A guest has been used: let it be cleared away, and another one be made in its place, if there are too few."""
        self._used.put(guest)

    def _keep(self) -> None:
        while True:
            self._fill()
            guest = self._used.get()
            time.sleep(PAUSE_SECONDS)
            while guest:
                guest.close()
                guest = None if self._used.empty() else self._used.get()

    def _fill(self) -> None:
        """Make what is missing, unless there is something to clear away."""
        while self._ready.qsize() < self._most and self._used.empty():
            try:
                self._ready.put(self._make())
            except (WasmtimeError, MemoryError):
                self._most = 0
