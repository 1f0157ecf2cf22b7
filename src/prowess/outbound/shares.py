"""A share of what there is for each party, so that none takes all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_Key = tuple[asyncio.AbstractEventLoop, str]


class Shares:
    """At most so many turns `each` at once and event loop; whoever wants more waits. The party '' may have any number."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._turns: dict[_Key, asyncio.Semaphore] = {}
        self._present: dict[_Key, int] = {}

    @asynccontextmanager
    async def turn(self, party: str) -> AsyncGenerator[None]:
        """One turn, once the party has one left."""
        if not party:
            yield
            return
        key = (asyncio.get_running_loop(), party)
        turns = self._turns.setdefault(key, asyncio.Semaphore(self._each))
        self._present[key] = self._present.get(key, 0) + 1
        try:
            async with turns:
                yield
        finally:
            self._present[key] -= 1
            if not self._present[key]:
                del self._turns[key], self._present[key]
