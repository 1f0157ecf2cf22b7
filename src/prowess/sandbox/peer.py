"""What a run is given to: a process that takes frames and gives frames, whichever kind of process it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

OnCall = Callable[[str, str], None]
"""Told of every call of a script: the name of the function, and its arguments as JSON."""


class Peer(Protocol):
    """A process, seen from outside by one run."""

    @property
    def confined(self) -> tuple[str, ...]:
        """By what it is confined, besides the engine."""
        ...

    def open(self, number: int, on_call: OnCall) -> asyncio.Future[bytes]:
        """What will come of a run: a line of JSON about it, then what it says itself; `RunFailed` where the process broke."""
        ...

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Give a frame, as soon as the process takes it."""
        ...

    def end(self) -> None:
        """End it, whatever it does."""
        ...
