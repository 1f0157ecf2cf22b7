"""Statistics of runs over time, as parallel lists of numbers for charts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from prowess.errors import Invalid
from prowess.storage.database import Connections
from prowess.storage.trace_stats import BUCKET_CHARS, Bucket, GroupBy, count_durations, count_traces
from prowess.storage.traces import TraceFilter
from prowess.traces.report import GroupCounts, merge_groups

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
