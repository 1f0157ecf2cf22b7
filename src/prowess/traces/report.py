"""Report on runs by skill, artifact, model, user or day, or over time: counts, outcomes, costs and durations."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import fsum
from typing import Any, Literal

from prowess.errors import Invalid
from prowess.storage.database import Connections
from prowess.storage.driver_errors import reading
from prowess.storage.trace_stats import (
    BUCKET_CHARS,
    Bucket,
    GroupBy,
    TraceCount,
    count_durations,
    count_traces,
)
from prowess.storage.traces import TraceFilter

PERCENTILES = (50, 95, 99)
REPORT_FIELDS = (
    "name",
    "runs",
    "failures",
    "failure_rate",
    "assertions_run",
    "assertions_passed",
    "assertion_rate",
    "input_tokens",
    "output_tokens",
    "cost",
    *(f"p{percent}_ms" for percent in PERCENTILES),
)
"""The values of a row in a table, named as in `RunStats.as_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStats:
    """Statistics of one skill, artifact, model, user or day.

    An unfinished run only counts as a run. Every other status than `ok` is a failure, unless the artifact was unavailable
    and another one ran in its place. `cost` is in US dollars, over runs whose price is known; None if none is. Rates are
    None if there is nothing to divide by, and durations if nothing has finished.
    """

    name: str
    statuses: dict[str, int]
    replaced: int
    assertions_run: int
    assertions_passed: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None

    @property
    def runs(self) -> int:
        """How many started."""
        return sum(self.statuses.values())

    @property
    def finished(self) -> int:
        """How many ended."""
        return self.runs - self.statuses.get("running", 0)

    @property
    def failures(self) -> int:
        """How many failed without another artifact running in their place."""
        return self.finished - self.statuses.get("ok", 0) - self.replaced

    @property
    def failure_rate(self) -> float | None:
        """The share of failures among the runs that ended."""
        return self.failures / self.finished if self.finished else None

    @property
    def assertion_rate(self) -> float | None:
        """The share of assertions that passed."""
        return self.assertions_passed / self.assertions_run if self.assertions_run else None

    def as_json(self) -> dict[str, Any]:
        """Return every figure by its name."""
        return {
            **{name: getattr(self, name) for name in REPORT_FIELDS},
            "replaced": self.replaced,
            "statuses": self.statuses,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Statistics of each group and of all together. Days are in order; other groups are sorted by number of runs."""

    by: GroupBy
    since: str
    rows: tuple[RunStats, ...]
    total: RunStats

    def as_json(self) -> dict[str, Any]:
        """Return the whole report."""
        rows = [row.as_json() for row in self.rows]
        return {"by": self.by, "since": self.since or None, "rows": rows, "total": self.total.as_json()}


def build_report(records: Connections | None, which: TraceFilter, by: GroupBy) -> Report:
    """Return a report on these traces, or an empty one if there are no records. Blocking."""
    groups: dict[str, GroupCounts] = defaultdict(GroupCounts)
    if records is not None:
        with records.read() as connection:
            for count in count_traces(connection, which, by):
                groups[count.name].counts.append(count)
            for name, taken, many in count_durations(connection, which, by):
                groups[name].times[taken] += many
    rows = [group.figures(name) for name, group in groups.items()]
    rows.sort(key=lambda row: row.name if by == "day" else (-row.runs, row.name))
    return Report(by=by, since=which.since, rows=tuple(rows), total=merge_groups(groups.values()).figures("total"))


@dataclass(slots=True)
class GroupCounts:
    """The counts of one group."""

    counts: list[TraceCount] = field(default_factory=list[TraceCount])
    times: Counter[int] = field(default_factory=Counter[int])

    def figures(self, name: str) -> RunStats:
        """Return the statistics of the group under a name."""
        counts = self.counts
        statuses: Counter[str] = Counter()
        for count in counts:
            statuses[count.status] += count.many
        p50, p95, p99 = nearest_rank(self.times, PERCENTILES)
        return RunStats(
            name=name,
            statuses=dict(sorted(statuses.items())),
            replaced=sum(count.replaced for count in counts),
            assertions_run=sum(count.assertions_run for count in counts),
            assertions_passed=sum(count.assertions_passed for count in counts),
            input_tokens=sum(count.input_tokens for count in counts),
            output_tokens=sum(count.output_tokens for count in counts),
            # `fsum` is exact, so the order of the groups does not matter.
            cost=fsum(count.cost for count in counts) if any(count.priced for count in counts) else None,
            p50_ms=p50,
            p95_ms=p95,
            p99_ms=p99,
        )


def merge_groups(groups: Iterable[GroupCounts]) -> GroupCounts:
    """Return the counts of several groups as those of one."""
    whole = GroupCounts()
    for group in groups:
        whole.counts.extend(group.counts)
        whole.times.update(group.times)
    return whole


def nearest_rank(times: Mapping[int, int], percents: Sequence[int]) -> list[int | None]:
    """Return percentiles by nearest rank; `times` maps each duration to how often it occurred."""
    ordered = sorted(times)
    up_to = list(accumulate(times[time] for time in ordered))
    if not up_to:
        return [None] * len(percents)
    # The rank is n × percent / 100, rounded up; in integers, so that no rounding error moves it.
    return [ordered[bisect_left(up_to, -(-up_to[-1] * percent // 100))] for percent in percents]


SeriesBy = Literal["skill", "artifact", "model", "total"]
MAX_BUCKETS = 2_000
OTHERS = "others"
"""The name of the series that has the runs of all groups beyond the first ones."""
_STEPS: dict[Bucket, timedelta] = {"hour": timedelta(hours=1), "day": timedelta(days=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The runs of one group: one number for each part of time. Costs and durations are None where nothing is known."""

    name: str
    runs: tuple[int, ...]
    failures: tuple[int, ...]
    cost: tuple[float | None, ...]
    p50_ms: tuple[int | None, ...]
    p95_ms: tuple[int | None, ...]
    assertions_run: tuple[int, ...]
    assertions_failed: tuple[int, ...]
    input_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Series over the same parts of time, those with most runs first. `buckets` are the starts of the parts."""

    by: SeriesBy
    bucket: Bucket
    since: str
    buckets: tuple[str, ...]
    series: tuple[Series, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the chart as JSON."""
        return {**asdict(self), "since": self.since or None}


def build_chart(
    records: Connections | None, which: TraceFilter, by: SeriesBy, bucket: Bucket, *, top: int, until: str
) -> Chart:
    """Return the runs of the `top` groups with most runs, and of the others together, up to a time. Blocking.

    Raise `Invalid` if there are more than 2,000 parts of time.
    """
    group: GroupBy = "skill" if by == "total" else by
    length = BUCKET_CHARS[bucket]
    cells: dict[tuple[str, str], GroupCounts] = defaultdict(GroupCounts)
    if records is not None:
        with records.read() as connection:
            for count in count_traces(connection, which, group, bucket):
                cells[_split(count.name, length, by)].counts.append(count)
            for name, taken, many in count_durations(connection, which, group, bucket):
                cells[_split(name, length, by)].times[taken] += many
    starts = [start for _, start in cells]
    with reading("The start of a trace"):
        buckets = _list_buckets(which.since or min(starts, default=until), max([until, *starts]), bucket)
    names = _order_names(cells)
    series = [_make_series(name, [name], cells, buckets) for name in names[:top]]
    if names[top:]:
        series.append(_make_series(OTHERS, names[top:], cells, buckets))
    return Chart(by=by, bucket=bucket, since=which.since, buckets=buckets, series=tuple(series))


def _split(name: str, length: int, by: SeriesBy) -> tuple[str, str]:
    """Return the group and the part of time of a counted name."""
    return ("total" if by == "total" else name[length:]), name[:length]


def _order_names(cells: dict[tuple[str, str], GroupCounts]) -> list[str]:
    runs: dict[str, int] = defaultdict(int)
    for (name, _), cell in cells.items():
        runs[name] += sum(count.many for count in cell.counts)
    return sorted(runs, key=lambda name: (-runs[name], name))


def _list_buckets(first: str, last: str, bucket: Bucket) -> tuple[str, ...]:
    """Return every part of time from one to another, without gaps, so that a chart shows when nothing happened."""
    begin, end = _parse(first, bucket), _parse(last, bucket)
    step = _STEPS[bucket]
    many = (end - begin) // step + 1
    if many > MAX_BUCKETS:
        raise Invalid(
            f"The chart would have {many:,} parts; at most {MAX_BUCKETS:,} are allowed.",
            hint="Ask for fewer `days`, or use `bucket=day`.",
        )
    length = BUCKET_CHARS[bucket]
    return tuple((begin + step * index).isoformat()[:length] for index in range(many))


def _parse(moment: str, bucket: Bucket) -> datetime:
    text = moment[: BUCKET_CHARS[bucket]]
    return datetime.fromisoformat(f"{text}:00" if bucket == "hour" else text).replace(tzinfo=UTC)


def _make_series(
    name: str, names: list[str], cells: dict[tuple[str, str], GroupCounts], buckets: tuple[str, ...]
) -> Series:
    empty = GroupCounts()
    figures = [merge_groups(cells.get((one, start), empty) for one in names).figures(name) for start in buckets]
    return Series(
        name=name,
        runs=tuple(figure.runs for figure in figures),
        failures=tuple(figure.failures for figure in figures),
        cost=tuple(figure.cost for figure in figures),
        p50_ms=tuple(figure.p50_ms for figure in figures),
        p95_ms=tuple(figure.p95_ms for figure in figures),
        assertions_run=tuple(figure.assertions_run for figure in figures),
        assertions_failed=tuple(figure.assertions_run - figure.assertions_passed for figure in figures),
        input_tokens=tuple(figure.input_tokens for figure in figures),
        output_tokens=tuple(figure.output_tokens for figure in figures),
    )
