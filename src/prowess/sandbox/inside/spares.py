"""Guests that are made before they are needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from wasmtime import WasmtimeError

from prowess.sandbox.inside.guest import Guest


class Spares:
    """Keeps a few guests ready; each is taken once."""

    def __init__(self, make: Callable[[], Guest], most: int) -> None:
        self._make = make
        self._most = most
        self._ready: queue.SimpleQueue[Guest] = queue.SimpleQueue()
        self._wanted = threading.Semaphore(most)

    def start(self) -> None:
        """Make them from now on, beside whatever else goes on."""
        if self._most:
            threading.Thread(target=self._fill, name="spares", daemon=True).start()

    def take(self) -> Guest:
        """A guest that is ready, or one that is made now."""
        try:
            return self._ready.get_nowait()
        except queue.Empty:
            return self._make()

    def refill(self) -> None:
        """A guest has been used; have another one made in its place, if there are too few."""
        if self._ready.qsize() < self._most:
            self._wanted.release()

    def _fill(self) -> None:
        while self._wanted.acquire():
            try:
                if self._ready.qsize() < self._most:
                    self._ready.put(self._make())
            except (WasmtimeError, MemoryError):
                return
