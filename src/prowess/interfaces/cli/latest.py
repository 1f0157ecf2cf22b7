"""The end of a log that counts from 1 without gaps and can only be read forwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar


class Numbered(Protocol):
    """An entry of such a log."""

    @property
    def number(self) -> int:
        """Its place, from 1 on."""
        ...


T = TypeVar("T", bound=Numbered)
Read = Callable[[int, int], Awaitable[Sequence[T]]]
"""Reads at most so many entries after a number."""

_WIDER = 4


async def latest(read: Read[T], limit: int, *, counted: Read[T] | None = None) -> Sequence[T]:
    """The last entries, oldest first. Where `read` passes some over, `counted` reads them all."""
    last = await _last_number(counted or read)
    window = limit
    while True:
        after = max(0, last - window)
        found = await read(after, window)
        if len(found) >= limit or after == 0:
            return found[-limit:]
        window *= _WIDER


async def _last_number(read: Read[T]) -> int:
    """The number of the last entry, 0 where there is none; asks as often as the number has bits, twice over."""

    async def is_there(number: int) -> bool:
        # A log that ends before a position may be read from its beginning instead, so the number is looked at.
        found = await read(number - 1, 1)
        return bool(found) and found[0].number == number

    beyond = 1
    while await is_there(beyond):
        beyond *= 2
    there = beyond // 2
    while beyond - there > 1:
        middle = (there + beyond) // 2
        if await is_there(middle):
            there = middle
        else:
            beyond = middle
    return there
