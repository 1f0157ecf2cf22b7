"""Traces for other programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.storage.traces import STATUSES, Trace
from prowess.traces.export import export_traces, to_dspy_example

VERDICTS = [
    {"type": "length", "description": "short", "passed": True, "severity": "hard", "explanation": ""},
    {"type": "semantic", "description": "names pages", "passed": False, "severity": "soft", "explanation": "none"},
]


def trace(**values: Any) -> Trace:
    known: dict[str, Any] = {
        "id": "1",
        "run_id": "2",
        "skill_id": "3",
        "skill_slug": "checker",
        "artifact_id": "4",
        "artifact_name": "check",
        "artifact_kind": "prompt_template",
        "status": "ok",
        "started_at": "2026-03-01T09:30:00.000000Z",
        "deadline_at": "2026-03-01T09:31:00.000000Z",
        "inputs": {"entity": "Mara", "claims": [{"text": "She is old."}]},
        "verdicts": VERDICTS,
        "raw_output": "None.",
    }
    return Trace(**{**known, **values})


class Example(dict):
    """What the constructor and `with_inputs` of `dspy.Example` take."""

    def __init__(self, base: Any = None, **fields: Any) -> None:
        assert base is None
        super().__init__(fields)

    def with_inputs(self, *keys: str) -> dict[str, Any]:
        return {key: self[key] for key in keys}


def test_an_example_has_inputs_output_and_the_verdict_of_each_assertion():
    row = to_dspy_example(trace(model_id="openai:gpt-5", estimated_cost=0.01))
    assert row is not None
    inputs = Example(**row).with_inputs(*row["input_keys"])
    assert inputs == {"entity": "Mara", "claims": [{"text": "She is old."}]}
    assert (row["output"], row["passed"]) == ("None.", True)
    assert [(one["type"], one["description"], one["passed"]) for one in row["assertions"]] == [
        ("length", "short", True),
        ("semantic", "names pages", False),
    ]
    assert (row["metadata"]["trace_id"], row["metadata"]["model_id"]) == ("1", "openai:gpt-5")


@pytest.mark.parametrize("status", STATUSES)
def test_only_runs_that_gave_something_to_judge_are_examples(status):
    row = to_dspy_example(trace(status=status))
    assert (row is not None) == (status in ("ok", "failed"))
    assert row is None or row["passed"] == (status == "ok")
    assert to_dspy_example(trace(status=status, raw_output=None)) is None


@given(
    st.dictionaries(
        st.sampled_from(["output", "input_output", "passed", "base", "self", "x", "input_base", "dspy_x"]),
        st.integers(),
    )
)
def test_no_input_is_lost_or_mistaken_whatever_it_is_called(inputs):
    row = to_dspy_example(trace(inputs=inputs))
    assert row is not None
    example = Example(**row)
    assert sorted(example.with_inputs(*row["input_keys"]).values()) == sorted(inputs.values())
    assert (row["output"], row["passed"], len(row["input_keys"])) == ("None.", True, len(inputs))
    assert not any(name.startswith("dspy_") for name in row)
    assert {name: value for name, value in inputs.items() if name == "x"}.items() <= row.items()


def test_a_row_has_every_column_and_is_json():
    (row,) = export_traces([trace()], "jsonl")
    assert Trace(**json.loads(json.dumps(row))) == trace()
    assert [
        one["metadata"]["trace_id"] for one in export_traces([trace(), trace(id="x", status="running")], "dspy")
    ] == ["1"]
