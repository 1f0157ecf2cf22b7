"""`prowess traces`: list, show, follow and export runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prowess.storage import traces as rows
from prowess.storage.clock import seconds_from_now
from prowess.storage.database import open_database
from prowess.storage.traces import Trace

LONG_ID = "3f2a91bc-0000-4000-8000-000000000000"


def trace(id: str = LONG_ID, *, ago: float = 60, **values: Any) -> Trace:
    given: dict[str, Any] = {
        "id": id,
        "run_id": "run-1",
        "actor": "ann",
        "skill_id": "1",
        "skill_slug": "checker",
        "skill_digest": "d" * 64,
        "artifact_id": "2",
        "artifact_name": "check",
        "artifact_kind": "prompt_template",
        "status": "ok",
        "started_at": seconds_from_now(-ago),
        "deadline_at": seconds_from_now(60),
        "duration_ms": 1_240,
        "created_at": seconds_from_now(-ago),
        "model_id": "openai:gpt-5",
        "input_tokens": 1_200,
        "output_tokens": 80,
        "estimated_cost": 0.0125,
        "assertions_run": 2,
        "assertions_passed": 1,
        "verdicts": [
            {"type": "length", "description": "short enough", "passed": True},
            {"type": "pattern", "description": "no fences", "passed": False, "severity": "soft", "explanation": "one"},
        ],
        "inputs": {"entity": "Mara"},
        "rendered_input": "Claims about \x1b[31mMara\x1b[0m",
        "raw_output": "None\u202e contradict.",
    }
    return Trace(**{**given, **values})


@pytest.fixture
def keep(home):
    """Return a function that stores traces in this home's database."""
    (home / ".prowess").mkdir(exist_ok=True)

    def write(*kept: Trace) -> None:
        opened = open_database(home / ".prowess/agents.db")
        with opened.write() as connection:
            rows.finish_many(connection, [rows.to_values(one) for one in kept])
        opened.close()

    return write


def test_nothing_has_been_run_at_first(prowess, workspace):
    for command in (("traces",), ("traces", "list")):
        assert prowess(*command).out == "No runs yet. `prowess run SLUG` runs a skill.\n"
    assert prowess("traces", "--json").json == []
    assert prowess("traces", "show", "3f2a91bc").code == 4
    assert "Use at least 4 characters of the id." in prowess("traces", "show", "3f2").err
    assert prowess("traces", "export").out == ""


def test_a_list_tells_what_ran_and_how_it_ended(prowess, workspace, keep):
    keep(trace(), trace("b" * 36, ago=10, status="failed", estimated_cost=None, model_id=None, assertions_run=0))
    lines = prowess("traces").out.splitlines()
    assert " ".join(lines[0].split()) == "id when skill artifact status model tokens cost time checks"
    assert [line.split()[0] for line in lines[1:]] == ["b" * 8, "3f2a91bc"]
    for word in ("checker", "check", "ok", "openai:gpt-5", "1,200 in, 80 out", "$0.0125", "1.2 s", "1/2"):
        assert word in lines[2]
    assert prowess("traces", "list", "--status", "failed").out.splitlines()[1].startswith("bbbbbbbb")
    assert prowess("traces", "list", "--skill", "x").out == "No matching runs.\n"


def test_a_list_says_that_there_may_be_older_runs(prowess, workspace, keep):
    keep(trace(), trace("b" * 36, ago=10))
    assert prowess("traces", "list", "--limit", "2").err == "These are the newest 2. `--limit N` lists more.\n"
    assert prowess("traces", "list", "--limit", "3").err == ""


def test_options_of_the_list_need_not_name_it(prowess, workspace, keep):
    keep(trace(), trace("b" * 36, ago=10))
    assert [row["id"] for row in prowess("traces", "--limit", "1", "--json").json] == ["b" * 36]
    assert (
        prowess("traces", "--workspace", workspace, "--limit", "1").out == prowess("traces", "list", "--limit", "1").out
    )
    assert "No such option '--limt'" in prowess("traces", "--limt", "1").err


def test_a_list_as_json_has_no_texts(prowess, workspace, keep):
    keep(trace())
    (row,) = prowess("traces", "list", "--json", "--since", "1d", "--limit", "5").json
    assert (row["id"], row["assertions_passed"], row["verdicts"][1]["passed"]) == (LONG_ID, 1, False)
    assert not {"inputs", "rendered_input", "raw_output", "detail"} & row.keys()


@pytest.mark.parametrize(
    ("touched", "shown"),
    [
        ({"env": [{"name": "OPENAI_API_KEY", "times": 2}]}, "env OPENAI_API_KEY (2 times)"),
        ({"hosts": {"a.org": 3}, "env": {"OPENAI_API_KEY": "[redacted]"}}, "hosts a.org (3 times); env OPENAI_API_KEY"),
        ({"env": [{"name": "OPENAI_API_KEY", "times": "[redacted]"}, "more"]}, "env OPENAI_API_KEY"),
    ],
)
def test_one_is_shown_with_what_it_touched_however_that_is_kept(prowess, workspace, keep, touched, shown):
    keep(trace(detail={"receipt": {"declared": {}, "touched": touched, "refused": []}}))
    assert f"touched     {shown}\n" in prowess("traces", "show", "3F2A").out


def test_one_is_shown_with_everything_and_nothing_that_a_terminal_obeys(prowess, workspace, keep):
    keep(trace(error="It broke.", error_code="run-failed", fallback_of="other"))
    out = prowess("traces", "show", "3F2A").out
    for line in (
        f"trace       {LONG_ID}",
        "artifact    check (prompt_template)",
        "fallback of other",
        "duration    1.2 s",
        "error       It broke. [run-failed]",
        "check       passed: short enough",
        "check       failed: no fences (soft): one",
        "Claims about Mara",
        "None\\u{202E} contradict.",
        '  "entity": "Mara"',
    ):
        assert line in out.splitlines()
    assert "\x1b" not in out
    assert prowess("traces", "show", LONG_ID, "--json").json["rendered_input"] == "Claims about \x1b[31mMara\x1b[0m"


def test_a_very_long_text_is_shown_in_part(prowess, workspace, keep):
    keep(trace(raw_output="x" * 20_000 + "end"))
    ran = prowess("traces", "show", LONG_ID)
    assert "… and 3 more characters; --json has all" in ran.out.splitlines()
    assert "xend" not in ran.out


def test_an_export_is_a_line_each_to_stdout_or_a_file(prowess, workspace, keep):
    keep(trace(), trace("second", ago=10, status="running", raw_output=None))
    assert [row["id"] for row in prowess("traces", "export").lines] == [LONG_ID, "second"]
    (example,) = prowess("traces", "export", "--format", "dspy", "--skill", "checker").lines
    assert (example["entity"], example["input_keys"], example["passed"]) == ("Mara", ["entity"], True)
    assert [one["passed"] for one in example["assertions"]] == [True, False]

    assert prowess("traces", "export", "--out", "runs.jsonl").out == "Wrote 2 lines to runs.jsonl.\n"
    assert [json.loads(line)["id"] for line in Path("runs.jsonl").read_text().splitlines()] == [LONG_ID, "second"]
    told = prowess("traces", "export", "--format", "dspy", "--out", "runs.jsonl", "--json").json
    assert told == {"path": "runs.jsonl", "format": "dspy", "rows": 1}
    assert len(Path("runs.jsonl").read_text().splitlines()) == 1
    assert [path.name for path in workspace.iterdir()] == ["runs.jsonl"]


def test_an_export_does_not_write_through_a_link(prowess, workspace, keep):
    keep(trace())
    (workspace / "target").write_text("mine")
    (workspace / "link").symlink_to("target")
    assert prowess("traces", "export", "--out", "link").code != 0
    assert (workspace / "target").read_text() == "mine"


def test_a_tail_tells_of_runs_that_end_until_it_is_interrupted(prowess, workspace, keep):
    keep(trace("before"))
    command = [str(Path(sys.executable).parent / "prowess"), "traces", "tail", "--every", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == "Waiting for runs. Press Ctrl-C to stop.\n"
        keep(trace("after", ago=-3_600))
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert line.split()[0] == "after"
    assert "1,200 in, 80 out  $0.0125  1.2 s  1/2" in line
    assert (process.returncode, out, err) == (130, "", "")


def test_a_file_that_cannot_be_written_is_told_by_its_own_name(prowess, workspace):
    ran = prowess("traces", "export", "--out", "nodir/x.jsonl")
    assert (ran.code, "nodir" in ran.err, "tmp-" in ran.err) == (4, True, False)
    ran = prowess("traces", "export", "--out", ".")
    assert (ran.code, "is a folder" in ran.err) == (3, True)
