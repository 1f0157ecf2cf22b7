"""AgentLayerRules: a generation and a review give their result also when they fail, and a rubric's schema is used."""

from __future__ import annotations

import json

import pytest

from prowess.errors import OutputInvalid, TimedOut
from prowess.llm.scripted import ScriptedModel
from prowess.run.request import RunRequest
from prowess.skill.decision import judge_decision
from prowess.skill.forms import read_package
from prowess.skill.package import Package
from prowess.skill.text.yaml_writer import dump
from prowess.tools.toolbox import Toolbox

GENERATION = {
    "skill_id": "outliner",
    "version": "1.0.0",
    "title": "Outliner",
    "description": "Turns a topic into an outline.",
    "output_schema": {"type": "object", "required": ["sections"]},
    "template_type": "LLM_JSON_GENERATION",
    "template_config": {"prompt_id": "outline"},
}
PROMPT = {"prompt_id": "outline", "version": "1.0.0", "template": "Outline {{topic}}."}
REVIEW = {
    **GENERATION,
    "skill_id": "reviewer",
    "output_schema": {"type": "object"},
    "template_type": "LLM_REVIEW",
    "template_config": {"rubric_id": "style"},
}
RUBRIC = {
    "rubric_id": "style",
    "version": "1.0.0",
    "description": "House style.",
    "scoring_mode": "binary",
    "criteria": [
        {"id": "clear", "name": "Clear", "description": "Clear.", "pass_condition": "Yes.", "fail_condition": "No."}
    ],
}
VERDICT = {
    "criterion_id": "clear",
    "reasoning": "It reads well.",
    "evidence": [],
    "verdict": "pass",
    "confidence": 1,
    "suggested_fix": "",
}
WITH_AUDIENCE = {
    "type": "object",
    "properties": {"pass": {"type": "boolean"}, "audience": {"type": "string"}},
    "required": ["pass", "audience"],
}


@pytest.fixture
def run(place):
    """Run a descriptor that a person imported, with a model that answers so; the result of the attempt."""

    async def work(descriptor, files, answers, inputs):
        folder = place.workspace.parent / "given" / descriptor["skill_id"]
        folder.mkdir(parents=True)
        (folder / f"{descriptor['skill_id']}.yaml").write_text(dump(descriptor))
        for path, document in files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(json.dumps(document))
        async with place.open() as prowess:
            await prowess.skills.import_path(folder)
            with ScriptedModel(answers) as model:
                request = RunRequest(slug=descriptor["skill_id"], inputs=inputs, model=model)
                return await prowess.runs.attempt(request), model

    return work


@pytest.fixture
def review(run):
    async def work(answers, **rubric):
        files = {"rubrics/style.json": {**RUBRIC, **rubric}}
        return await run(REVIEW, files, answers, {"asset": "A note."})

    return work


@pytest.mark.anyio
async def test_a_failed_generation_gives_its_errors_the_raw_response_and_its_attempts(run) -> None:
    files = {"prompts/outline.json": PROMPT}
    result, _ = await run(GENERATION, files, ["No idea.", '{"parts": []}'], {"topic": "bees"})
    told = result.as_json()["parts"][-1]["result"]
    assert (told["success"], told["attempts"], told["rawResponse"]) == (False, 2, '{"parts": []}')
    assert "sections" in told["validationErrors"][0]["message"]
    assert isinstance(result.error, OutputInvalid)
    assert result.error.result == told


@pytest.mark.anyio
async def test_an_agent_that_runs_a_generation_gets_the_failed_result_too(run, place) -> None:
    files = {"prompts/outline.json": PROMPT}
    await run(GENERATION, files, [{"sections": []}], {"topic": "bees"})
    async with place.open() as prowess:
        with ScriptedModel(["No.", "No."]) as model:
            toolbox = Toolbox(prowess, fallback_model=model)
            answer = await toolbox.call("run_skill", {"skill": "outliner", "inputs": {"topic": "bees"}})
    assert answer.data["parts"][-1]["result"]["validationErrors"]


@pytest.mark.anyio
async def test_a_review_whose_every_request_timed_out_failed(review) -> None:
    result, _ = await review([TimedOut("It took too long.")])
    assert (result.ok, result.parts[-1].status) == (False, "timed_out")
    assert result.parts[-1].result["pass"] is False
    assert result.parts[-1].result["indeterminate"] == ["Undecided: Clear: The model request failed: It took too long."]


@pytest.mark.anyio
async def test_the_model_is_asked_for_the_fields_that_a_rubrics_output_schema_adds(review) -> None:
    answer = {"results": [VERDICT], "details": {"audience": "engineers"}}
    result, model = await review([answer], output_schema=WITH_AUDIENCE)
    assert result.ok
    assert (result.data["pass"], result.data["audience"]) == (True, "engineers")
    assert "audience" in model.requests[0].schema["properties"]["details"]["properties"]


@pytest.mark.anyio
@pytest.mark.parametrize("details", [{}, {"audience": 3}, {"pass": False}])
async def test_a_review_that_breaks_its_rubrics_output_schema_failed_and_gives_its_result(review, details) -> None:
    result, _ = await review([{"results": [VERDICT], "details": details}], output_schema=WITH_AUDIENCE)
    assert isinstance(result.error, OutputInvalid)
    assert result.parts[-1].result["pass"] is True


@pytest.mark.anyio
async def test_a_model_gets_as_long_as_the_run_has(review) -> None:
    _, model = await review([{"results": [VERDICT]}])
    assert model.requests[0].seconds == 120


def test_the_rule_does_not_object_to_a_descriptor_with_a_template_type_and_an_implementation() -> None:
    descriptor = {**GENERATION, "implementation": {"type": "ts_function", "handler": "execute.py"}}
    files = {"outliner.yaml": dump(descriptor), "execute.py": "def execute(args, ctx):\n    return {}\n"}
    skill = read_package(Package.of_texts("outliner", files)).skill
    assert skill is not None
    decision = judge_decision(skill)
    assert (decision.uses, decision.against) == ("both", ())
