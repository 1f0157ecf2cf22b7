"""`prowess jobs` after a batch: where it stands, and how to get its results again."""

from __future__ import annotations

import json


def test_the_results_of_a_batch_can_be_written_again(prowess, workspace):
    prowess("new", "greet")
    (workspace / "items.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    ran = prowess("run", "greet", "instructions", "--batch", "items.jsonl", "--name", "each night", "--out", "a.jsonl")
    assert ran.code == 0, ran.err

    shown = prowess("jobs", "show", "each night").out
    assert "2 of 2 items" in shown
    assert "prowess jobs show 'each night' --results FILE" in shown

    prowess("jobs", "show", "each night", "--results", "b.jsonl")
    assert (workspace / "b.jsonl").read_text() == (workspace / "a.jsonl").read_text()
    assert [json.loads(line)["ok"] for line in (workspace / "b.jsonl").read_text().splitlines()] == [True, True]
