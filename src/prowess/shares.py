"""Divide what all callers of a server use, such as streams and threads, so that nobody takes what the others need.

A caller is named by its organization, its user and a name, joined by NUL. One person can have many tokens and an admin can
add users, so there is a limit for all callers of a user together, and one for all users of an organization.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

OF_ORGANIZATION, OF_USER, OF_CALLER = 3 / 4, 5 / 8, 1 / 2
"""The shares of all. Each is larger than the next, so that one caller does not block its own organization."""
_WIDER = (OF_ORGANIZATION, OF_USER)


@lru_cache(maxsize=4096)
def groups_of(party: str) -> tuple[tuple[str, float], ...]:
    """Return the groups that a caller belongs to, the widest first and itself last, each with the share that it may have.

    Those without an organization have none in common.
    """
    parts = party.split("\x00", len(_WIDER))
    names = ["\x00".join(parts[: count + 1]) for count in range(len(parts))]
    shares = (*_WIDER[: len(parts) - 1], OF_CALLER)
    return tuple((name, share) for name, share in zip(names, shares, strict=True) if name)


def share_of(total: int, share: float) -> int:
    """Return a share of a whole, at least one."""
    return math.ceil(total * share)


class Shares:
    """Counts how much each caller has of something that is limited. `holders` are the callers that have one of it now."""

    def __init__(self, total: int, holders: Iterable[str] = ()) -> None:
        self._total = total
        self._used = 0
        self._of_group = Counter[str]()
        for party in holders:
            self.add(party)

    def has_room(self, party: str, amount: int = 1) -> bool:
        """Return True if a caller may take so much more."""
        return self._used + amount <= self._total and all(
            self._of_group[group] + amount <= share_of(self._total, share) for group, share in groups_of(party)
        )

    def add(self, party: str, amount: int = 1) -> None:
        """Count what a caller takes; a negative amount is given back."""
        self._used += amount
        for group, _ in groups_of(party):
            self._of_group[group] += amount
            if not self._of_group[group]:
                del self._of_group[group]
