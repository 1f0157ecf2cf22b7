"""Which slugs changed since when, remembered for as long as the process lives."""

from __future__ import annotations

import secrets

from prowess.catalog.store import Changes

MOST = 100_000
"""How many slugs are remembered; who asks about what lies further back is told that it is not known."""

_EMPTY = "0"


class Feed:
    """The changes of a store that was empty when it began. Its owner lets one thread in at a time.

    A position is a count, and the mark of this feed, since another process counts other changes. Only the position
    before the first change is the same for all: nothing was there.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._count = 0
        self._forgotten = 0
        self._changed: dict[str, int] = {}  # by when it last changed

    def note(self, slug: str) -> None:
        """Remember that a skill came, changed or went."""
        self._count += 1
        self._changed.pop(slug, None)
        self._changed[slug] = self._count
        if len(self._changed) > MOST:
            oldest = next(iter(self._changed))
            self._forgotten = self._changed.pop(oldest)

    def since(self, position: str) -> Changes:
        """What changed since a position."""
        now = f"{self._mark}:{self._count}" if self._count else _EMPTY
        seen = self._seen(position)
        if seen is None or seen < self._forgotten:
            return Changes(position=now, slugs=None)
        slugs: set[str] = set()
        for slug in reversed(self._changed):
            if self._changed[slug] <= seen:
                break
            slugs.add(slug)
        return Changes(position=now, slugs=frozenset(slugs))

    def _seen(self, position: str) -> int | None:
        """How many changes had happened at a position; None where it is not one of this feed."""
        if position == _EMPTY:
            return 0
        mark, _, count = position.partition(":")
        known = mark == self._mark and count.isascii() and count.isdigit() and len(count) < 20
        return int(count) if known and int(count) <= self._count else None
