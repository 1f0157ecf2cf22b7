"""Export the metrics of an organization in the Prometheus text format, computed from its records.

Every process reports the same values, and they survive a restart. Each metric counts from the organization's first record,
also if that was pruned.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from prowess.events import EVENT_NAMES
from prowess.feed.usage import core_set
from prowess.storage import counts, ledger
from prowess.storage.approvals import ApprovalState
from prowess.storage.counts import LOAD_SECONDS_BUCKETS
from prowess.storage.database import Connections

if TYPE_CHECKING:
    import sqlalchemy as sa
    from prometheus_client.metrics_core import Metric


@dataclass(slots=True, kw_only=True)
class LoadHistogram:
    """The loads of one skill by duration: a count per bound, and one for those that took longer."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(LOAD_SECONDS_BUCKETS) + 1))
    seconds: float = 0.0

    def add(self, bucket: int, count: int, seconds: float) -> None:
        """Add loads to a bucket."""
        self.buckets[bucket] += count
        self.seconds += seconds

    def join(self, other: LoadHistogram) -> None:
        """Add the loads of another skill."""
        self.buckets = [one + more for one, more in zip(self.buckets, other.buckets, strict=True)]
        self.seconds += other.seconds


@dataclass(slots=True, kw_only=True)
class LogTotals:
    """Totals over the two logs of an organization, up to the rows counted so far."""

    organization: str = ""
    events_upto: int = 0
    audit_upto: int = 0
    loads: dict[str, LoadHistogram] = field(default_factory=dict[str, LoadHistogram])
    scopes: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Loads by slug and scope."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Failed loads by slug and scope; both '' for skills that do not exist."""
    events: Counter[str] = field(default_factory=Counter[str])
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    files: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    @classmethod
    def begin(cls, connection: sa.Connection, organization: str) -> LogTotals:
        """Return the totals of the rows that were pruned."""
        found = cls(organization=organization)
        for group in counts.pruned_events(connection, organization):
            found._count_group(group)
        found.files.update(counts.pruned_files(connection, organization))
        found.decisions.update(counts.pruned_decisions(connection, organization))
        return found

    def count_on(self, connection: sa.Connection) -> None:
        """Count the rows added since the last time."""
        last = ledger.last_event(connection, self.organization)
        if last > self.events_upto:
            self._count_events(connection, last)
        last = counts.last_audit(connection, self.organization)
        if last > self.audit_upto:
            decided = counts.decisions(connection, self.organization, after=self.audit_upto, upto=last)
            self.decisions.update(decided)
            self.audit_upto = last

    def can_continue(self, connection: sa.Connection) -> bool:
        """Return True if counting can continue.

        A log that ends before what was counted has been replaced. One that starts after it has lost rows that were not
        counted here.
        """
        return (
            ledger.last_event(connection, self.organization) >= self.events_upto
            and counts.last_audit(connection, self.organization) >= self.audit_upto
            and ledger.first_event(connection, self.organization) <= self.events_upto + 1
            and counts.first_audit(connection, self.organization) <= self.audit_upto + 1
        )

    def _count_events(self, connection: sa.Connection, upto: int) -> None:
        for group in counts.events_by_kind(connection, self.organization, after=self.events_upto, upto=upto):
            self._count_group(group)
        self.files.update(counts.files_by_skill(connection, self.organization, after=self.events_upto, upto=upto))
        self.events_upto = upto

    def _count_group(self, group: counts.EventCount) -> None:
        self.events[group.name] += group.count
        if group.name == counts.LOADED:
            self._count_loads(group)

    def _count_loads(self, group: counts.EventCount) -> None:
        """Count loads; one without a duration failed."""
        if group.bucket is None:
            self.failures[group.slug, group.scope] += group.count
            return
        self.loads.setdefault(group.slug, LoadHistogram()).add(group.bucket, group.count, group.seconds)
        self.scopes[group.slug, group.scope] += group.count


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_NAMED_SKILLS = 1_000
"""How many skills, the most loaded ones, have their own series; the rest share one, so that labels stay bounded."""

OTHER, UNKNOWN = "other", "unknown"


class Metrics:
    """The metrics of one organization; each call counts only what is new. Blocking, and safe for many threads."""

    def __init__(self, database: Connections, organization: str = "") -> None:
        self._database = database
        self._lock = threading.Lock()
        self._organization = organization
        self._tally: LogTotals | None = None

    def exposition(self) -> bytes:
        """Return all metrics as they are now."""
        with self._lock:
            organization, tally = self._organization, self._tally
            self._tally = None  # if counting fails, the next call starts over
            with self._database.read() as connection:
                if tally is None or not tally.can_continue(connection):
                    tally = LogTotals.begin(connection, organization)
                tally.count_on(connection)
                approvals = counts.approvals_by_state(connection, organization)
                sessions = counts.open_sessions(connection, organization)
            self._tally = tally
            return _render(tally, approvals, sessions)


def empty_metrics() -> bytes:
    """Return the metrics of an organization without records."""
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
    yield _counter("skill_load", "Successful skill loads.", ("name", "source"), loads)
    yield _counter("skill_load_errors", "Failed skill loads.", ("name", "source"), failures)
    files = _most_loaded(tally.files, _private_names(tally))
    yield _counter("skill_file_load", "Loads of references and scripts.", ("name", "file"), files)
    yield GaugeMetricFamily(
        "skill_core_set", "Number of skills that account for 80 % of all loads.", value=len(_core_set(tally.loads))
    )
    histogram = HistogramMetricFamily(
        "skill_load_duration_seconds", "Duration of skill loads in seconds.", labels=("name",)
    )
    for name, found in sorted(times.items()):
        # Rounded, because float sums differ in the last digits, and every process must report the same.
        histogram.add_metric((name,), _cumulative(found), round(found.seconds, 6))
    yield histogram


def _other_families(tally: LogTotals, approvals: Mapping[str, int], sessions: int) -> Iterator[Metric]:
    # Also names without events, so that their series exist from the start.
    events = {(name,): many for name, many in {**dict.fromkeys(EVENT_NAMES, 0), **tally.events}.items()}
    yield _counter(
        "skill_gate",
        "Rows of the audit, such as decisions about skills and sign-ins.",
        ("action", "outcome"),
        tally.decisions,
    )
    yield _counter("skill_events", "Recorded events.", ("name",), events)
    by_state = GaugeMetricFamily("skill_approvals", "Approvals by state.", labels=("state",))
    for state in get_args(ApprovalState):
        by_state.add_metric((state,), approvals.get(state, 0))
    yield by_state
    yield GaugeMetricFamily("skill_sessions_open", "Open sessions.", value=sessions)


def _counter(name: str, words: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]) -> Metric:
    family = CounterMetricFamily(name, words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _most_used(tally: LogTotals) -> set[str]:
    """Return the skills that get their own series."""
    requested: Counter[str] = Counter()
    for counted in (tally.scopes, tally.failures):
        for (slug, _), many in counted.items():
            requested[slug] += many
    named = requested.keys() - {""} - _private_names(tally)
    ranked = sorted(named, key=lambda slug: (-requested[slug], slug))
    return set(ranked[:MAX_NAMED_SKILLS])


def _private_names(tally: LogTotals) -> set[str]:
    """Return the names that only single users of an organization know. Metrics are for everyone in it."""
    if not tally.organization:
        return set()
    known = {slug for counted in (tally.scopes, tally.failures) for slug, scope in counted if scope != "user"}
    return {slug for counted in (tally.scopes, tally.failures) for slug, _ in counted} - known


def _most_loaded(files: Counter[tuple[str, str]], private: set[str]) -> Counter[tuple[str, str]]:
    """Return the counts of the most loaded files; the rest share one label, so that labels stay bounded."""
    public = [pair for pair in files.items() if pair[0][0] not in private]
    ranked = sorted(public, key=lambda pair: (-pair[1], pair[0]))
    found = Counter(dict(ranked[:MAX_NAMED_SKILLS]))
    if rest := files.total() - found.total():
        found[OTHER, OTHER] += rest
    return found


def _core_set(loads: Mapping[str, LoadHistogram]) -> tuple[str, ...]:
    ranked = [(slug, sum(found.buckets)) for slug, found in loads.items() if slug]
    return core_set(sorted(ranked, key=lambda pair: (-pair[1], pair[0])))


def _skill_label(slug: str, names: set[str]) -> str:
    return slug if slug in names else OTHER if slug else UNKNOWN


def _cumulative(loads: LoadHistogram) -> list[tuple[str, float]]:
    """Return the buckets as Prometheus wants them: cumulative."""
    total, buckets = 0, list[tuple[str, float]]()
    for bound, count in zip((*LOAD_SECONDS_BUCKETS, "+Inf"), loads.buckets, strict=True):
        total += count
        buckets.append((str(bound), total))
    return buckets
