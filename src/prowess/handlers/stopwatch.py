"""How long the steps of a run take, by name."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager


class Stopwatch:
    """Adds up the time of named steps from the moment it is made. Steps that never come about take no time."""

    def __init__(self, *steps: str) -> None:
        self._seconds = dict.fromkeys(steps, 0.0)
        self._began = time.perf_counter()

    @contextmanager
    def measure(self, step: str) -> Generator[None]:
        """Count what happens inside to a step, however it ends."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[step] += time.perf_counter() - began

    def timings_ms(self) -> dict[str, float]:
        """The steps and the total up to now, in milliseconds."""
        total = time.perf_counter() - self._began
        return {step: round(seconds * 1000, 3) for step, seconds in {**self._seconds, "total": total}.items()}
