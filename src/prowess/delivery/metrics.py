"""The metrics of an organization in Prometheus's text format, made from the records.

They are the same from whichever process they are asked, and go on after a restart. Every metric counts from the
organization's first record on.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from prowess.delivery.tally import BOUNDS, Loads, Tally
from prowess.events import EVENT_NAMES
from prowess.storage import counts
from prowess.storage.approvals import ApprovalState
from prowess.storage.database import Connections

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MOST_NAMES = 1_000
"""So many skills have series of their own, those with the most loads; the rest is counted together."""

OTHER, UNKNOWN = "other", "unknown"


class Metrics:
    """The metrics of one organization, counted on from the last time they were asked for. Blocking; safe from many threads."""

    def __init__(self, database: Connections, organization: str = "") -> None:
        self._database = database
        self._lock = threading.Lock()
        self._organization = organization
        self._tally: Tally | None = None

    def exposition(self) -> bytes:
        """All metrics as they are now."""
        with self._lock:
            organization, tally = self._organization, self._tally
            self._tally = None  # where the counting breaks off, the next one starts anew
            with self._database.read() as connection:
                if tally is None or not tally.is_of(connection):
                    tally = Tally(organization=organization)
                tally.count_on(connection)
                approvals = counts.approvals_by_state(connection, organization)
                sessions = counts.open_sessions(connection, organization)
            self._tally = tally
            return _written(tally, approvals, sessions)


def exposition(database: Connections, organization: str = "") -> bytes:
    """All metrics of an organization, counted from the beginning; `Metrics` does the same and remembers. Blocking."""
    return Metrics(database, organization).exposition()


def no_records() -> bytes:
    """The metrics where nothing was ever recorded."""
    return _written(Tally(), {}, 0)


def _written(tally: Tally, approvals: Mapping[str, int], sessions: int) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families([*_of_loads(tally), *_of_the_rest(tally, approvals, sessions)]))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_loads(tally: Tally) -> Iterator[Metric]:
    names = _names(tally)
    loads: Counter[tuple[str, str]] = Counter()
    failures: Counter[tuple[str, str]] = Counter()
    times: dict[str, Loads] = {}
    for (slug, scope), many in tally.scopes.items():
        loads[_shown(slug, names), scope] += many
    for (slug, scope), many in tally.failures.items():
        failures[_shown(slug, names), scope or UNKNOWN] += many
    for slug, found in tally.loads.items():
        times.setdefault(_shown(slug, names), Loads()).join(found)
    yield _counter("skill_load", "Loads of skills that gave a text.", ("name", "source"), loads)
    yield _counter("skill_load_errors", "Loads of skills that gave nothing.", ("name", "source"), failures)
    histogram = HistogramMetricFamily("skill_load_duration_seconds", "How long loads took.", labels=("name",))
    for name, found in sorted(times.items()):
        histogram.add_metric((name,), _cumulative(found), round(found.seconds, 6))
    yield histogram


def _of_the_rest(tally: Tally, approvals: Mapping[str, int], sessions: int) -> Iterator[Metric]:
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


def _names(tally: Tally) -> set[str]:
    """The skills that have series of their own."""
    asked: Counter[str] = Counter()
    for counted in (tally.scopes, tally.failures):
        for (slug, _), many in counted.items():
            asked[slug] += many
    ranked = sorted((slug for slug in asked if slug), key=lambda slug: (-asked[slug], slug))
    return set(ranked[:MOST_NAMES])


def _shown(slug: str, names: set[str]) -> str:
    return slug if slug in names else OTHER if slug else UNKNOWN


def _cumulative(loads: Loads) -> list[tuple[str, float]]:
    """The buckets as Prometheus has them: each holds those before it too."""
    total, buckets = 0, list[tuple[str, float]]()
    for bound, count in zip((*BOUNDS, "+Inf"), loads.buckets, strict=True):
        total += count
        buckets.append((str(bound), total))
    return buckets
