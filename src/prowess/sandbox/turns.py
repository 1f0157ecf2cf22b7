"""Whose turn it is: so many runs of an event loop at a time, and none that waits for one that waits for it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

from prowess.errors import Refused

LEVELS: Final = 5
"""How deep runs may lie within each other: the first, and those that it waits for."""
_SHARE = 4

Kept = TypeVar("Kept")

_level: ContextVar[int] = ContextVar("level_of_run", default=0)


class EachLoop(Generic[Kept]):
    """One of a kind for each event loop, made when it is asked for and gone with the loop."""

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make = make
        self._kept: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Kept] = weakref.WeakKeyDictionary()

    def here(self) -> Kept:
        """That of the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._kept.get(loop)
        return self._kept.setdefault(loop, self._make()) if found is None else found


class Turns:
    """The turns of one sandbox.

    A run that is started by a host function lies within the run that called it, whichever sandbox either is in. Each level has
    room of its own, a quarter of the first one's, so that what a run waits for always finds room in the end.
    """

    def __init__(self, most: int) -> None:
        self._sizes = [most, *[max(1, most // _SHARE)] * (LEVELS - 1)]
        self._rooms = EachLoop(lambda: [asyncio.Semaphore(size) for size in self._sizes])

    @property
    def total(self) -> int:
        """How many runs of one event loop there can be at a time, on all levels."""
        return sum(self._sizes)

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None, None]:
        """A turn, once there is one; `Refused` where runs lie too deep within each other."""
        level = _level.get()
        if level >= LEVELS:
            raise Refused(f"Runs lie at most {LEVELS} deep within each other.", hint="Run the innermost on its own.")
        async with self._rooms.here()[level]:
            before = _level.set(level + 1)
            try:
                yield
            finally:
                _level.reset(before)
