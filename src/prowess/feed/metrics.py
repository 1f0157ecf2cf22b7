"""Export the metrics of an organization in the Prometheus text format, computed from its records.

Every process reports the same values, and they survive a restart. Each metric counts from the organization's first record.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from prowess.events import EVENT_NAMES
from prowess.storage import counts, ledger
from prowess.storage.approvals import ApprovalState
from prowess.storage.database import Connections

LOAD_SECONDS_BUCKETS: tuple[float, ...] = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
"""The upper bounds of the histogram of load times, in seconds; the last bucket has none."""


@dataclass(slots=True, kw_only=True)
class LoadHistogram:
    """The loads of one skill, by how long they took: a count for each bound, and one for those that took longer."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(LOAD_SECONDS_BUCKETS) + 1))
    seconds: float = 0.0

    def add(self, bucket: int, count: int, seconds: float) -> None:
        """Count more of them."""
        self.buckets[bucket] += count
        self.seconds += seconds

    def join(self, other: LoadHistogram) -> None:
        """Count those of another skill in."""
        self.buckets = [one + more for one, more in zip(self.buckets, other.buckets, strict=True)]
        self.seconds += other.seconds


@dataclass(slots=True, kw_only=True)
class LogTotals:
    """What the two logs of an organization add up to, as far as they were counted."""

    organization: str = ""
    events_upto: int = 0
    audit_upto: int = 0
    loads: dict[str, LoadHistogram] = field(default_factory=dict[str, LoadHistogram])
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
        found = counts.events_by_kind(
            connection, self.organization, after=self.events_upto, upto=upto, bounds=LOAD_SECONDS_BUCKETS
        )
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
        self.loads.setdefault(group.slug, LoadHistogram()).add(group.bucket, group.count, group.seconds)
        self.scopes[group.slug, group.scope] += group.count


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_NAMED_SKILLS = 1_000
"""So many skills have series of their own, those with the most loads; the rest is counted together."""

OTHER, UNKNOWN = "other", "unknown"


class Metrics:
    """The metrics of one organization, counted on from the last time they were asked for. Blocking; safe from many threads."""

    def __init__(self, database: Connections, organization: str = "") -> None:
        self._database = database
        self._lock = threading.Lock()
        self._organization = organization
        self._tally: LogTotals | None = None

    def exposition(self) -> bytes:
        """All metrics as they are now."""
        with self._lock:
            organization, tally = self._organization, self._tally
            self._tally = None  # where the counting breaks off, the next one starts anew
            with self._database.read() as connection:
                if tally is None or not tally.is_of(connection):
                    tally = LogTotals(organization=organization)
                tally.count_on(connection)
                approvals = counts.approvals_by_state(connection, organization)
                sessions = counts.open_sessions(connection, organization)
            self._tally = tally
            return _render(tally, approvals, sessions)


def exposition(database: Connections, organization: str = "") -> bytes:
    """All metrics of an organization, counted from the beginning; `Metrics` does the same and remembers. Blocking."""
    return Metrics(database, organization).exposition()


def empty_metrics() -> bytes:
    """The metrics where nothing was ever recorded."""
    return _render(LogTotals(), {}, 0)


def _render(tally: LogTotals, approvals: Mapping[str, int], sessions: int) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families([*_load_families(tally), *_other_families(tally, approvals, sessions)]))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _load_families(tally: LogTotals) -> Iterator[Metric]:
    names = _most_used(tally)
    loads: Counter[tuple[str, str]] = Counter()
    failures: Counter[tuple[str, str]] = Counter()
    times: dict[str, LoadHistogram] = {}
    for (slug, scope), many in tally.scopes.items():
        loads[_skill_label(slug, names), scope] += many
    for (slug, scope), many in tally.failures.items():
        failures[_skill_label(slug, names), scope or UNKNOWN] += many
    for slug, found in tally.loads.items():
        times.setdefault(_skill_label(slug, names), LoadHistogram()).join(found)
    yield _counter("skill_load", "Loads of skills that gave a text.", ("name", "source"), loads)
    yield _counter("skill_load_errors", "Loads of skills that gave nothing.", ("name", "source"), failures)
    histogram = HistogramMetricFamily("skill_load_duration_seconds", "How long loads took.", labels=("name",))
    for name, found in sorted(times.items()):
        histogram.add_metric((name,), _cumulative(found), round(found.seconds, 6))
    yield histogram


def _other_families(tally: LogTotals, approvals: Mapping[str, int], sessions: int) -> Iterator[Metric]:
    events = {(name,): many for name, many in {**dict.fromkeys(EVENT_NAMES, 0), **tally.events}.items()}
    yield _counter("skill_gate", "Decisions about skills on record.", ("action", "outcome"), tally.decisions)
    yield _counter("skill_events", "Events on record.", ("name",), events)
    asked = GaugeMetricFamily("skill_approvals", "Approvals by the state that they are in.", labels=("state",))
    for state in get_args(ApprovalState):
        asked.add_metric((state,), approvals.get(state, 0))
    yield asked
    yield GaugeMetricFamily("skill_sessions_open", "Sessions that are open.", value=sessions)


def _counter(name: str, words: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]) -> Metric:
    family = CounterMetricFamily(name, words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _most_used(tally: LogTotals) -> set[str]:
    """The skills that have series of their own."""
    asked: Counter[str] = Counter()
    for counted in (tally.scopes, tally.failures):
        for (slug, _), many in counted.items():
            asked[slug] += many
    ranked = sorted((slug for slug in asked if slug), key=lambda slug: (-asked[slug], slug))
    return set(ranked[:MAX_NAMED_SKILLS])


def _skill_label(slug: str, names: set[str]) -> str:
    return slug if slug in names else OTHER if slug else UNKNOWN


def _cumulative(loads: LoadHistogram) -> list[tuple[str, float]]:
    """The buckets as Prometheus has them: each holds those before it too."""
    total, buckets = 0, list[tuple[str, float]]()
    for bound, count in zip((*LOAD_SECONDS_BUCKETS, "+Inf"), loads.buckets, strict=True):
        total += count
        buckets.append((str(bound), total))
    return buckets
