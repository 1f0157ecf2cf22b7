"""Inklings: what scripts get from models, and what a dspy_module falls back to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prowess.errors import RunFailed
from prowess.llm.scripted import ScriptedModel
from prowess.skill.forms import read_package
from prowess.skill.package import Package

LISTS = """
import inklings

claims = []
claims.extend(inklings.llm_query("List the claims."))
inklings.submit(claims)
"""
SCHEMA = """
import inklings

wanted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
inklings.submit([answer["n"] for answer in inklings.llm_query_batched(["One?", "Two?"], schema=wanted)])
"""


def document(*artifacts: dict[str, object]) -> dict[str, object]:
    return {
        "id": "550e8400-e29b-41d4-a716-446655440001",
        "name": "Claim Lister",
        "description": "Lists the factual claims of a page for a later check.",
        "artifacts": [{"ordinal": place, **one} for place, one in enumerate(artifacts)],
    }


@pytest.fixture
def run(sandboxed, tmp_path: Path):
    """Import a package of one script and run it with a model that answers so."""

    async def work(code: str, answers: list[object]) -> tuple[object, ScriptedModel]:
        file = tmp_path / "claim-lister.json"
        file.write_text(json.dumps(document({"kind": "code_template", "name": "Script", "content": code})))
        async with sandboxed.open() as prowess:
            await prowess.skills.import_path(file)
            with ScriptedModel(answers) as model:
                return (await prowess.run("claim-lister", model=model)).data, model

    return work


@pytest.mark.few(2)
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("Here are the claims:\n- One.\n- Two.", ["One.", "Two."]),
        ("Sure! I found these.\n\n1. One.\n2) Two.\n\nLet me know if you need more.", ["One.", "Two."]),
        ("The claims are:\nOne.\nTwo.", ["One.", "Two."]),
        ('```json\n["One.", "Two."]\n```', ["One.", "Two."]),
        ("One.\nTwo.", ["One.", "Two."]),
        ("One:", ["One:"]),
    ],
)
async def test_a_line_that_introduces_a_list_is_not_an_item_of_it(run, answer, claims) -> None:
    assert (await run(LISTS, [answer]))[0] == claims


@pytest.mark.anyio
async def test_a_script_can_ask_for_data_by_a_schema_and_a_wrong_answer_is_asked_for_once_more(run) -> None:
    data, model = await run(SCHEMA, ['{"n": 1}', "two", {"n": 2}])
    assert data == [1, 2]
    assert "does not match the schema" in model.requests[-1].messages[-1].text


@pytest.mark.anyio
async def test_a_script_is_told_when_the_second_answer_breaks_the_schema_too(run) -> None:
    with pytest.raises(RunFailed, match="does not match the output schema"):
        await run(SCHEMA, ['{"n": 1}', "two", "two"])


@pytest.mark.parametrize(("kind", "problems"), [("prompt_template", []), ("code_template", ["dspy-fallback-kind"])])
def test_the_fallback_of_a_dspy_module_must_be_a_prompt_template(kind, problems) -> None:
    module = {
        "kind": "dspy_module",
        "name": "Checker",
        "content": '{"template_id": "chain_of_thought"}',
        "metadata": {"fallback_artifact": "Other"},
    }
    text = json.dumps(document({"kind": kind, "name": "Other", "content": "x = 1"}, module))
    reading = read_package(Package.of_texts("claim-lister", {"claim-lister.json": text}))
    assert [problem.code for problem in reading.problems if problem.severity == "error"] == problems


@pytest.mark.anyio
async def test_without_the_sidecar_the_fallback_runs_and_the_error_names_the_sidecar(place, tmp_path) -> None:
    file = tmp_path / "claim-lister.json"
    module = {
        "kind": "dspy_module",
        "name": "Checker",
        "content": '{"template_id": "predict"}',
        "metadata": {"fallback_artifact": "Prompt"},
    }
    file.write_text(json.dumps(document(module, {"kind": "prompt_template", "name": "Prompt", "content": "Check."})))
    async with place.open() as prowess:
        await prowess.skills.import_path(file)
        with ScriptedModel(["Checked."]) as model:
            result = await prowess.run("claim-lister", model=model)
    [unavailable, answered] = result.parts
    assert unavailable.error is not None
    assert "DSPy sidecar" in unavailable.error.message
    assert answered.fallback_of == "Checker"
