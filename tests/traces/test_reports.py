"""Figures of runs: counted by the database, the same as by hand, on each kind of it."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import sqlalchemy as sa
from tests.traces.stored import stored_trace

from prowess.storage.sql.traces import traces
from prowess.storage.trace_stats import GROUPINGS
from prowess.storage.traces import STATUSES, Trace, TraceFilter
from prowess.traces.report import build_report

ACME = TraceFilter(organization_id="acme", user_id=None)


def trace(number: int, **values: Any) -> Trace:
    return stored_trace(number, f"2026-03-{number % 28 + 1:02}T09:30:00.000000Z", **values)


def rank(times: list[int], percent: int) -> int | None:
    return sorted(times)[math.ceil(len(times) * percent / 100) - 1] if times else None


def name_of(one: Trace, by: str) -> str:
    return {
        "skill": one.skill_slug,
        "artifact": f"{one.skill_slug}/{one.artifact_name}",
        "model": one.model_id or "",
        "user": one.user_id,
        "day": one.started_at[:10],
    }[by]


def by_hand(kept: list[Trace], stand_ins: set[str | None]) -> dict[str, Any]:
    times = [one.duration_ms for one in kept if one.duration_ms is not None]
    finished = [one for one in kept if one.status != "running"]
    replaced = [one for one in finished if one.status == "unavailable" and one.id in stand_ins]
    failures = [one for one in finished if one.status != "ok" and one not in replaced]
    run, passed = sum(one.assertions_run for one in kept), sum(one.assertions_passed for one in kept)
    costs = [one.estimated_cost for one in kept if one.estimated_cost is not None]
    return {
        "runs": len(kept),
        "failures": len(failures),
        "failure_rate": len(failures) / len(finished) if finished else None,
        "assertions_run": run,
        "assertions_passed": passed,
        "assertion_rate": passed / run if run else None,
        "input_tokens": sum(one.input_tokens or 0 for one in kept),
        "output_tokens": sum(one.output_tokens or 0 for one in kept),
        "cost": pytest.approx(sum(costs)) if costs else None,
        **{f"p{percent}_ms": rank(times, percent) for percent in (50, 95, 99)},
        "replaced": len(replaced),
        "statuses": {
            status: many for status in sorted(STATUSES) if (many := sum(one.status == status for one in kept))
        },
    }


def some_traces(count: int, seed: int) -> list[Trace]:
    dice = random.Random(seed)
    made: list[Trace] = []
    for number in range(count):
        status = dice.choice(STATUSES)
        asserted = dice.randint(0, 4)
        made.append(
            trace(
                number,
                user_id=dice.choice(["ada", "bob"]),
                skill_slug=dice.choice(["checker", "writer", "dé"]),
                artifact_name=dice.choice(["check", "draft"]),
                status=status,
                duration_ms=None if status == "running" else dice.randint(0, 500),
                fallback_of=dice.choice([None, f"trace-{dice.randrange(count)}"]),
                model_id=dice.choice([None, "openai:gpt-5", "local:smollm2"]),
                input_tokens=dice.choice([None, dice.randint(0, 3_000_000)]),
                output_tokens=dice.choice([None, 7]),
                estimated_cost=dice.choice([None, dice.random()]),
                assertions_run=asserted,
                assertions_passed=dice.randint(0, asserted),
            )
        )
    return made


@pytest.mark.parametrize("by", GROUPINGS)
def test_every_figure_is_what_counting_by_hand_gives(database, keep, by):
    for count in (1, 2, 7, 320):
        with database.write() as connection:
            connection.execute(sa.delete(traces))
        kept = some_traces(count, seed=count)
        keep(*kept)
        report = build_report(database, ACME, by)
        stand_ins = {one.fallback_of for one in kept}
        groups: dict[str, list[Trace]] = {}
        for one in kept:
            groups.setdefault(name_of(one, by), []).append(one)
        told = {row.name: row.as_json() for row in report.rows}
        assert told == {name: {"name": name, **by_hand(members, stand_ins)} for name, members in groups.items()}
        assert report.total.as_json() == {"name": "total", **by_hand(kept, stand_ins)}


def test_the_most_run_stands_first_and_days_stand_in_their_order(database, keep):
    keep(trace(5, skill_slug="b"), trace(3, skill_slug="a"), trace(9, skill_slug="c"), trace(9 + 28, skill_slug="c"))
    assert [row.name for row in build_report(database, ACME, "skill").rows] == ["c", "a", "b"]
    assert [row.name for row in build_report(database, ACME, "day").rows] == ["2026-03-04", "2026-03-06", "2026-03-10"]


def test_only_the_traces_that_are_asked_for_are_counted(database, keep):
    keep(
        trace(1),
        trace(2, user_id="bob"),
        trace(3, organization_id="globex"),
        trace(4, skill_slug="writer"),
    )

    def runs(user: str | None = None, **more: str) -> int:
        which = TraceFilter(organization_id="acme", user_id=user, **more)
        return build_report(database, which, "skill").total.runs

    assert (runs(), runs("ann"), runs("bob"), runs("eve")) == (3, 2, 1, 0)
    assert (runs(skill="writer"), runs("bob", skill="writer")) == (1, 0)
    assert (runs(since="2026-03-03"), runs(since="2026-03-06")) == (2, 0)


def test_what_another_artifact_stood_in_for_has_not_failed(database, keep):
    keep(
        trace(1, artifact_name="checker", status="unavailable"),
        trace(2, artifact_name="check", fallback_of="trace-1"),
        trace(3, artifact_name="other", status="unavailable"),
    )
    rows = {row.name: row for row in build_report(database, ACME, "artifact").rows}
    assert (rows["checker/checker"].failures, rows["checker/checker"].replaced) == (0, 1)
    assert (rows["checker/other"].failures, rows["checker/other"].failure_rate) == (1, 1.0)


def test_a_report_without_records_is_empty():
    report = build_report(None, ACME, "model").as_json()
    assert (report["rows"], report["total"]["runs"], report["total"]["cost"]) == ([], 0, None)
    assert report["total"]["failure_rate"] is report["total"]["p99_ms"] is None
