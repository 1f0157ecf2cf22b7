"""Skills run on a real, small model: every kind that asks one goes the whole way. What it says is not judged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema_rs
import pytest

from prowess.errors import AssertionFailed

pytestmark = [pytest.mark.anyio, pytest.mark.local_model]

SAMPLE = Path(__file__).resolve().parents[3] / "examples/workspace"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "mood": {"enum": ["happy", "sad", "angry"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "mood", "age"],
    "additionalProperties": False,
}
SIDECAR = {
    "artifacts": [
        {
            "path": "prompts/greet.j2",
            "kind": "prompt_template",
            "name": "greet",
            "ordinal": 1,
            "assertions": [
                {"type": "length", "check": "char_range", "min": 1},
                {"type": "semantic", "check": "llm_eval", "prompt": "Is this a greeting?", "severity": "soft"},
            ],
        },
        {
            "kind": "json_generation",
            "name": "person",
            "ordinal": 2,
            "prompt_id": "extract",
            "output_schema": PERSON,
            "temperature": 0,
            "max_tokens": 120,
        },
        {
            "path": "prompts/never.j2",
            "kind": "prompt_template",
            "name": "never",
            "ordinal": 4,
            "assertions": [{"type": "pattern", "check": "match", "pattern": "^zebra-[0-9]{40}$"}],
        },
        {"path": "rubrics/tone.json", "kind": "review", "name": "tone", "ordinal": 3, "rubric_id": "tone"},
    ]
}
RUBRIC = {
    "id": "tone",
    "version": "1.0.0",
    "scoring_mode": "binary",
    "criteria": [
        {
            "id": "polite",
            "name": "Polite",
            "description": "It is polite.",
            "pass_condition": "No insult.",
            "fail_condition": "An insult.",
        }
    ],
}


@pytest.fixture
async def prowess(place, smollm2, home):
    """An engine with a skill of every kind that asks a model, and the small model for all of them."""
    place.skill(
        "greeter",
        files={
            "agents/prowess.yaml": json.dumps(SIDECAR),
            "prompts/greet.j2": "Say hello to {{ name }} in five words.",
            "prompts/never.j2": "Say yes.",
            "prompts/extract@1.0.0.j2": "Who is this? {{ text }}",
            "rubrics/tone.json": json.dumps(RUBRIC),
        },
    )
    place.environment["PROWESS_MODEL"] = f"local:{smollm2}"
    async with place.open() as engine:
        yield engine


async def test_a_prompt_is_answered_and_its_assertions_are_asked(prowess):
    steps = []
    result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", on_step=steps.append, timeout=600)
    length, semantic = result.verdicts
    assert "".join(step.text for step in steps) == result.text
    assert (length.passed, semantic.type, semantic.passed in (True, False)) == (True, "semantic", True)
    assert semantic.passed or semantic.explanation
    trace = await prowess.traces.get(result.parts[0].trace)
    assert (trace.status, trace.model_id, trace.raw_output) == ("ok", "local:smollm2", result.text)
    assert trace.rendered_input == "Say hello to Ada in five words."
    assert trace.input_tokens > 0
    assert trace.output_tokens > 0
    assert trace.estimated_cost is None
    assert result.usage.requests == 2


async def test_generated_data_satisfies_its_schema(prowess):
    states = []
    result = await prowess.run(
        "greeter", {"text": "Ada is 36 and happy."}, artifacts="person", on_step=lambda step: states.append(step.state)
    )
    assert jsonschema_rs.is_valid(PERSON, result.data)
    assert states == ["VALIDATING", "GENERATING", "VALIDATING_OUT", "COMPLETED"]
    trace = await prowess.traces.get(result.parts[0].trace)
    assert (trace.status, trace.artifact_kind) == ("ok", "json_generation")
    assert json.loads(trace.raw_output) == result.data


async def test_a_review_decides_or_says_that_it_could_not(prowess):
    states = []
    result = await prowess.run(
        "greeter", {"asset": "Good morning, Ada!"}, artifacts="tone", on_step=lambda step: states.append(step.state)
    )
    assert states == ["LOADING_RUBRIC", "EVALUATING", "AGGREGATING", "COMPLETED"]
    (judged,) = result.data["criteria_results"]
    assert judged["criterion_id"] == "polite"
    assert judged["verdict"] in ("pass", "fail", "indeterminate")
    trace = await prowess.traces.get(result.parts[0].trace)
    assert (trace.status, trace.artifact_kind, trace.model_id) == ("ok", "review", "local:smollm2")


async def test_an_output_that_does_not_pass_fails_the_run_after_its_trace_is_written(prowess):
    with pytest.raises(AssertionFailed, match="zebra"):
        await prowess.run("greeter", artifacts="never")
    (row,) = await prowess.traces.list()
    trace = await prowess.traces.get(row.id)
    assert (trace.status, trace.assertions_run, trace.assertions_passed) == ("failed", 1, 0)
    assert trace.raw_output


async def test_the_sample_skill_runs_whole_over_its_workspace(sandboxed, smollm2, home):
    shutil.copytree(SAMPLE, sandboxed.workspace, dirs_exist_ok=True)
    async with sandboxed.open() as prowess:
        result = await prowess.run("consistency-checker", {"entity": "Mara"}, model=f"local:{smollm2}", timeout=1_200)
    assert [(part.artifact, part.status) for part in result.parts] == [
        ("Overview", "ok"),
        ("Cross-Reference Script", "ok"),
        ("DSPy Checker", "unavailable"),
        ("Check Prompt", "ok"),
    ]
    pages = {claim["page"] for claim in result.parts[1].output.data["claims"]}
    assert pages <= {path.relative_to(SAMPLE).with_suffix("").as_posix() for path in SAMPLE.rglob("*.md")}
