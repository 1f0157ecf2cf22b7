"""`prowess stats`: figures about runs."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from prowess.storage import traces as rows
from prowess.storage.clock import seconds_from_now
from prowess.storage.database import open_database
from prowess.storage.traces import Trace


def trace(number: int, skill: str, **values: Any) -> Trace:
    given: dict[str, Any] = {
        "id": f"{number}",
        "run_id": f"{number}",
        "skill_id": "1",
        "skill_slug": skill,
        "artifact_id": "2",
        "artifact_name": "check",
        "artifact_kind": "prompt_template",
        "status": "ok",
        "started_at": seconds_from_now(-60 - number * 86_400),
        "deadline_at": seconds_from_now(60),
        "duration_ms": 100 * number,
        "created_at": seconds_from_now(-60),
        "input_tokens": 1_000,
        "output_tokens": 10,
        "estimated_cost": 0.5,
    }
    return Trace(**{**given, **values})


@pytest.fixture
def kept(home, workspace):
    """Record ten runs of one skill and one of another, on eleven days."""
    (home / ".prowess").mkdir(exist_ok=True)
    made = [trace(number, "checker", assertions_run=2, assertions_passed=1) for number in range(1, 10)]
    made += [trace(10, "checker", status="failed"), trace(11, "writer", estimated_cost=None, model_id="m")]
    opened = open_database(home / ".prowess/agents.db")
    with opened.write() as connection:
        rows.finish_many(connection, [rows.to_values(one) for one in made])
    opened.close()


def test_nothing_has_been_run_at_first(prowess, workspace):
    assert prowess("stats").out == "No runs yet. `prowess run SLUG` runs a skill.\n"
    assert prowess("stats", "--since", "7d", "--by", "day").out == "No matching runs.\n"
    assert prowess("stats", "--json").json["total"]["runs"] == 0
    assert prowess("stats", "--csv").out.startswith("skill,runs,failures,")


def test_a_table_has_every_figure_and_a_bar(prowess, kept):
    lines = prowess("stats").out.splitlines()
    assert " ".join(lines[0].split()) == "skill runs failed assertions tokens in / out cost p50 p95 p99"
    assert " ".join(lines[1].split()) == "checker 10 ████████ 10.0 % 50.0 % 10,000 / 100 $5.00 500 ms 1.0 s 1.0 s"
    assert " ".join(lines[2].split()) == "writer 1 ▊ 0.0 % - 1,000 / 10 - 1.1 s 1.1 s 1.1 s"
    assert lines[3].split()[:2] == ["total", "11"]


@pytest.mark.parametrize(
    ("by", "names"),
    [("skill", ["checker", "writer"]), ("artifact", ["checker/check", "writer/check"]), ("model", ["", "m"])],
)
def test_figures_are_told_apart_by_what_is_wanted(prowess, kept, by, names):
    assert [row["name"] for row in prowess("stats", "--by", by, "--json").json["rows"]] == names


def test_only_the_last_days_or_one_skill_are_counted(prowess, kept):
    assert len(prowess("stats", "--by", "day", "--since", "3d", "--json").json["rows"]) == 2
    assert prowess("stats", "--skill", "writer", "--json").json["total"]["runs"] == 1
    assert prowess("stats", "--since", "soon").code == 2


def test_a_figure_is_drawn_as_bars(prowess, kept):
    lines = prowess("stats", "--chart", "p95_ms").out.splitlines()
    assert lines[0].split() == ["skill", "p95_ms"]
    assert lines[2].split() == ["writer", "█" * 40, "1.1", "s"]
    assert prowess("stats", "--chart", "failure_rate").out.splitlines()[1].split() == ["checker", "████", "10.0", "%"]
    assert prowess("stats", "--chart", "cost").out.splitlines()[2].split() == ["writer", "-"]
    assert prowess("stats", "--chart", "runs", "--csv").code == 2


def test_csv_has_a_line_each_under_a_head(prowess, kept):
    table = list(csv.DictReader(io.StringIO(prowess("stats", "--csv").out)))
    assert [(row["skill"], row["runs"], row["cost"], row["failure_rate"]) for row in table] == [
        ("checker", "10", "5.0", "0.1"),
        ("writer", "1", "", "0.0"),
    ]
