"""Statistics of runs over time: the same as the report of each part of time, on each kind of database."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.traces.stored import stored_trace

from prowess.errors import Invalid
from prowess.storage.traces import Trace, TraceFilter
from prowess.traces.report import build_chart, build_report

ACME = TraceFilter(organization_id="acme", user_id=None, since="2026-03-01T00:00:00.000000Z")
UNTIL = "2026-03-04T12:00:00.000000Z"


def make_traces(count: int) -> list[Trace]:
    chance = random.Random(7)
    return [
        stored_trace(
            number,
            f"2026-03-0{chance.randint(1, 4)}T{chance.randint(0, 11):02}:30:00.000000Z",
            skill_slug=chance.choice(["a", "b", "c"]),
            model_id=chance.choice(["large", None]),
            status=chance.choice(["ok", "ok", "failed"]),
            duration_ms=chance.randint(1, 500),
            estimated_cost=chance.choice([None, 0.25]),
            assertions_run=2,
            assertions_passed=chance.randint(0, 2),
            input_tokens=chance.randint(0, 9),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("by", ["skill", "model"])
def test_each_number_of_a_series_is_that_of_the_report_of_its_day(database, keep, by: Any):
    kept = make_traces(60)
    keep(*kept)
    chart = build_chart(database, ACME, by, "day", top=5, until=UNTIL)
    assert chart.buckets == ("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04")
    days = {row.name: row for row in build_report(database, ACME, "day").rows}
    assert [sum(one.runs[place] for one in chart.series) for place in range(4)] == [
        days[day].runs for day in chart.buckets
    ]
    for series in chart.series:
        own = [one for one in kept if (one.skill_slug if by == "skill" else one.model_id or "") == series.name]
        for place, day in enumerate(chart.buckets):
            of_day = [one for one in own if one.started_at.startswith(day)]
            costs = [one.estimated_cost for one in of_day if one.estimated_cost is not None]
            assert series.runs[place] == len(of_day)
            assert series.failures[place] == sum(one.status != "ok" for one in of_day)
            assert series.cost[place] == (sum(costs) if costs else None)
            assert series.assertions_failed[place] == sum(one.assertions_run - one.assertions_passed for one in of_day)
            times = sorted(one.duration_ms or 0 for one in of_day)
            assert series.p95_ms[place] in ({*times[-2:]} if times else {None})


def test_the_groups_with_most_runs_come_first_and_the_rest_together(database, keep):
    keep(*make_traces(60))
    every = build_chart(database, ACME, "skill", "hour", top=5, until=UNTIL)
    some = build_chart(database, ACME, "skill", "hour", top=1, until=UNTIL)
    total = build_chart(database, ACME, "total", "hour", top=5, until=UNTIL)
    assert len(every.buckets) == 3 * 24 + 13
    assert every.buckets[9] == "2026-03-01T09"
    assert [one.name for one in some.series] == [every.series[0].name, "others"]
    assert some.series[0] == every.series[0]
    assert [sum(one) for one in zip(*(series.runs for series in some.series), strict=True)] == list(
        total.series[0].runs
    )
    assert [one.name for one in total.series] == ["total"]


def test_without_a_beginning_a_chart_begins_with_the_first_run(database, keep):
    whole = replace(ACME, since="")
    assert build_chart(database, whole, "skill", "day", top=5, until=UNTIL).buckets == ("2026-03-04",)
    assert build_chart(None, whole, "skill", "day", top=5, until=UNTIL).series == ()
    keep(stored_trace(1, "2026-03-02T09:30:00.000000Z"))
    assert len(build_chart(database, whole, "skill", "day", top=5, until=UNTIL).buckets) == 3
    keep(stored_trace(2, "2020-03-02T09:30:00.000000Z"))
    with pytest.raises(Invalid, match="at most 2,000"):
        build_chart(database, whole, "skill", "hour", top=5, until=UNTIL)
