"""A running count over the logs of one organization: what was counted once is not read again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import sqlalchemy as sa

from prowess.storage import counts, ledger

BOUNDS: tuple[float, ...] = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
"""The upper bounds of the histogram of load times, in seconds; the last bucket has none."""


@dataclass(slots=True, kw_only=True)
class Loads:
    """The loads of one skill, by how long they took: a count for each bound, and one for those that took longer."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, bucket: int, count: int, seconds: float) -> None:
        """Count more of them."""
        self.buckets[bucket] += count
        self.seconds += seconds

    def join(self, other: Loads) -> None:
        """Count those of another skill in."""
        self.buckets = [one + more for one, more in zip(self.buckets, other.buckets, strict=True)]
        self.seconds += other.seconds


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the two logs of an organization add up to, as far as they were counted."""

    organization: str = ""
    events_upto: int = 0
    audit_upto: int = 0
    loads: dict[str, Loads] = field(default_factory=dict[str, Loads])
    scopes: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Loads by slug and scope."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Loads that gave nothing, by slug and scope; both '' for skills that do not exist."""
    events: Counter[str] = field(default_factory=Counter[str])
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def count_on(self, connection: sa.Connection) -> None:
        """Count what was added since the last time."""
        last = ledger.last_event(connection, self.organization)
        if last > self.events_upto:
            self._count_events(connection, last)
        last = counts.last_audit(connection, self.organization)
        if last > self.audit_upto:
            decided = counts.decisions(connection, self.organization, after=self.audit_upto, upto=last)
            self.decisions.update(decided)
            self.audit_upto = last

    def is_of(self, connection: sa.Connection) -> bool:
        """Whether it can be counted on: logs that end earlier than was counted were put in the place of others."""
        return (
            ledger.last_event(connection, self.organization) >= self.events_upto
            and counts.last_audit(connection, self.organization) >= self.audit_upto
        )

    def _count_events(self, connection: sa.Connection, upto: int) -> None:
        found = counts.events_by_kind(connection, self.organization, after=self.events_upto, upto=upto, bounds=BOUNDS)
        for group in found:
            self.events[group.name] += group.count
            if group.name == counts.LOADED:
                self._count_loads(group)
        self.events_upto = upto

    def _count_loads(self, group: counts.EventCount) -> None:
        """A load that was not timed gave nothing."""
        if group.bucket is None:
            self.failures[group.slug, group.scope] += group.count
            return
        self.loads.setdefault(group.slug, Loads()).add(group.bucket, group.count, group.seconds)
        self.scopes[group.slug, group.scope] += group.count
