"""`prowess eval run|compare|report|list`: what people read, the files they get, and exit codes for CI."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from prowess import ScriptedModel

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\u202e"


@pytest.fixture
def colors(write_skill, workspace):
    """A skill with two cases, and a function that writes the answers of a scripted model."""
    cases = [
        {"id": "ruby", "prompt": "Color of a ruby?", "expected": "red"},
        {"id": "sky", "name": "The <i>sky</i>", "prompt": "Color of the sky?", "expected": "blue"},
    ]
    write_skill("colors", **{"evals__cases.json": json.dumps({"cases": cases})})

    def script(*answers: str) -> str:
        file = workspace / "model.json"
        file.write_text(json.dumps(list(answers)))
        return f"scripted:{file}"

    return script


def test_all_cases_pass(prowess, colors):
    ran = prowess("eval", "run", "colors", "--model", colors("Red.", "blue"), "--concurrency", "1")
    assert ran.code == 0, ran.out
    assert "2/2" in ran.out
    assert "100% (34%-100%)" in ran.out
    again = prowess("eval", "run", "colors", "--model", colors(), "--json")
    assert again.code == 0
    assert [one["cached"] for one in again.json["results"]] == [True, True]
    listed = prowess("eval", "list").out
    assert "colors" in listed
    assert "2/2" in listed


def test_the_result_is_shown_even_if_the_scripted_model_has_steps_left(prowess, colors):
    ran = prowess("eval", "run", "colors", "--model", colors("Red.", "blue", "never asked"), "--concurrency", "1")
    assert "2/2" in ran.out
    assert (ran.code, "never asked" in ran.err) == (8, True)


def test_an_evaluation_that_was_killed_is_shown_as_interrupted_and_goes_on(prowess, colors, home):
    prowess("eval", "run", "colors", "--model", colors("red", "blue"), "--concurrency", "1")
    [run] = prowess("eval", "list", "--json").json
    with closing(sqlite3.connect(home / ".prowess" / "agents.db")) as database, database:
        database.execute("UPDATE eval_runs SET state = 'running', finished_at = '2020-01-01T00:00:00.000000Z'")
        database.execute("DELETE FROM eval_results WHERE position = 1")
    listed = prowess("eval", "list").out
    assert "interrupted" in listed
    assert "prowess eval resume RUN" in listed
    colors("blue")
    resumed = prowess("eval", "resume", run["id"][:8], "--json")
    assert (resumed.code, resumed.json["id"], resumed.json["state"]) == (0, run["id"], "done")
    assert prowess("eval", "resume", "none").code == 4


def test_an_evaluation_that_ctrl_c_stops_says_how_to_go_on(prowess, colors, monkeypatch):
    model = colors("red", "blue")

    async def interrupted(self: ScriptedModel, request: object) -> object:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "complete", interrupted)
        stopped = prowess("eval", "run", "colors", "--model", model, "--concurrency", "1")
    [run] = prowess("eval", "list", "--json").json
    assert (stopped.code, run["state"]) == (130, "stopped")
    command = f"prowess eval resume {run['id'][:8]}"
    assert f"Continue with: {command}\n" in stopped.err
    assert "continues one that was stopped" in prowess("eval", "list").out
    assert prowess(*command.split()[1:], "--json").json["state"] == "done"


def test_a_failed_case_exits_with_1_and_says_why(prowess, colors, workspace: Path):
    junit, html = workspace / "report.xml", workspace / "report.html"
    model = colors("red", HOSTILE)
    ran = prowess(
        *("eval", "run", "colors", "--model", model, "--concurrency", "1", "--junit", str(junit), "--html", str(html)),
        *("--out", str(workspace / "out")),
    )
    assert ran.code == 1
    assert "The <i>sky</i>" in ran.out
    assert "expected 'blue'" in ran.out
    assert ET.parse(junit).getroot().attrib["failures"] == "1"
    page = html.read_text()
    assert "alert(1)" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert (workspace / "out" / "colors-workspace" / "iteration-1" / "benchmark.json").exists()


def test_a_failed_case_without_a_name_is_shown_by_its_message(prowess, workspace, write_skill):
    cases = [{"prompt": "Color of\na ruby?", "expected": "red"}]
    write_skill("colors", **{"evals__cases.json": json.dumps({"cases": cases})})
    (workspace / "model.json").write_text('["blue"]')
    assert "\n✗ 0: Color of a ruby?\n" in prowess("eval", "run", "colors", "--model", "scripted:model.json").out


def test_a_case_with_an_error_counts_as_neither_passed_nor_failed(prowess, workspace, write_skill):
    cases = [
        {"id": "ruby", "prompt": "Color of a ruby?", "expected": "red"},
        {"id": "sky", "prompt": "Color of the sky?", "checks": ["It names a color."]},
    ]
    write_skill("colors", **{"evals__cases.json": json.dumps({"cases": cases})})
    steps = [{"when": "ruby", "text": "red"}, {"when": "sky", "text": "blue"}, "not a verdict", "not a verdict"]
    (workspace / "model.json").write_text(json.dumps({"unordered": True, "steps": steps}))
    ran = prowess("eval", "run", "colors", "--model", "scripted:model.json", "--concurrency", "1")
    assert ran.code == 8
    assert "1/1 +1 error " in ran.out
    assert "It names a color: The model did not answer in the requested format." in ran.out
    assert "1/1 +1 error " in prowess("eval", "list").out


def test_a_comparison_without_the_skill_shows_the_verdict(prowess, colors):
    model = colors("no", "red", "no", "blue")
    ran = prowess("eval", "run", "colors", "--model", model, "--without", "--concurrency", "1")
    assert ran.code == 0, ran.out
    assert "with skill against without skill: no difference shown (score +1.00" in ran.out


def test_what_cannot_be_run_exits_like_every_error_and_says_what_to_do(prowess, colors, write_skill):
    write_skill("bare")
    unknown = prowess("eval", "run", "nothing")
    bare = prowess("eval", "run", "bare", "--model", colors())
    no_model = prowess("eval", "run", "colors")
    no_version = prowess("eval", "run", "colors", "--against", "7", "--model", colors())
    assert [one.code for one in (unknown, bare, no_model, no_version)] == [4, 4, 7, 4]
    assert prowess("eval", "triggers", "nothing").code == 4
    assert prowess("eval", "triggers", "bare").code == 4
    assert "evals/cases.yaml" in bare.err
    assert "No model is configured" in no_model.err
    assert prowess("eval", "run", "colors", "--name", "x").code == 2
    assert prowess("eval", "run", "colors", "--max-spend", "nan").code == 2


def test_cases_that_are_not_valid_are_to_be_corrected_and_not_to_be_created(prowess, write_skill):
    write_skill("colors", **{"evals__cases.json": '{"cases": [{"prompt": "hi", "inputs": {"text": "hi"}}]}'})
    ran = prowess("eval", "run", "colors")
    assert (ran.code, "evals/cases.json" in ran.err, "Correct the file" in ran.err) == (3, True, True)
    assert "Create evals" not in ran.err


def test_runs_are_compared_and_reported(prowess, colors, workspace: Path):
    first = prowess("eval", "run", "colors", "--model", colors("red", "red"), "--concurrency", "1", "--json").json
    other = prowess(
        "eval", "run", "colors", "--model", colors("red", "blue"), "--no-cache", "--concurrency", "1", "--json"
    )
    compared = prowess("eval", "compare", first["id"][:8], "colors")
    assert compared.code == 0
    assert "no difference shown (score +0.50 [+0.00, +1.00], p 1.000, 2 cases)" in compared.out
    assert prowess("eval", "compare", first["id"], other.json["id"], "--json").json["comparisons"][0]["cases"] == 2
    shown = prowess("eval", "report", first["id"][:6])
    assert "1/2" in shown.out
    page = workspace / "page.html"
    assert prowess("eval", "report", "colors", "--html", str(page)).code == 0
    assert "all passed" in page.read_text()
    assert prowess("eval", "report", "unknown").code == 4


def test_the_newest_runs_are_reported_and_compared_if_none_is_named(prowess, colors):
    assert (prowess("eval", "report").code, prowess("eval", "compare").code) == (4, 4)
    run = ("eval", "run", "colors", "--no-cache", "--concurrency", "1", "--json", "--model")
    ids = [prowess(*run, colors("red", "red")).json["id"]]
    alone = prowess("eval", "compare")
    assert (alone.code, "colors has one evaluation" in alone.err) == (4, True)
    ids += [prowess(*run, colors(*answers)).json["id"] for answers in (("red", "blue"), ("red", "red"))]
    assert prowess("eval", "report", "--json").json["id"] == ids[2]
    for named, before in (((), ids[1]), (("colors",), ids[1]), ((ids[0],), ids[0])):
        compared = prowess("eval", "compare", *named, "--json").json
        assert (compared["before"]["id"], compared["after"]["id"]) == (before, ids[2])


@pytest.mark.long
def test_a_durable_evaluation_is_a_job(prowess, colors):
    model = colors("red", "blue")
    ran = prowess("eval", "run", "colors", "--model", model, "--concurrency", "1", "--durable", "--name", "nightly")
    assert ran.code == 0, ran.err
    assert "2/2" in ran.out
    assert "2 of 2 steps" in prowess("jobs", "show", "nightly").out


def test_the_score_is_shown_for_exactly_the_bytes_that_were_measured(prowess, colors, workspace: Path):
    assert "score" not in prowess("list").out
    assert prowess("show", "colors", "--json").json["score"] is None
    prowess("eval", "run", "colors", "--model", colors("red", "red"), "--concurrency", "1")
    assert "score" in prowess("list").out.splitlines()[0]
    [card] = prowess("list", "--json").json
    assert card["score"]["pass_rate"]["mean"] == 0.5
    assert "50% of 2 cases pass" in prowess("show", "colors").out
    (workspace / ".agents" / "skills" / "colors" / "notes.md").write_text("Changed.")
    assert prowess("show", "colors", "--json").json["score"] is None
    assert "score" not in prowess("list").out.splitlines()[0]
