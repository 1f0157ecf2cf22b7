"""Descriptors run end to end: with the prompt or rubric that is nearest, wherever it is kept."""

from __future__ import annotations

import json

import pytest

from prowess.errors import Invalid, NotFound
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import Actor

pytestmark = pytest.mark.anyio

GENERATION = """\
skill_id: outliner
version: "1.0.0"
title: Outliner
description: Turns a topic into an outline.
input_schema: {type: object, properties: {topic: {type: string}}, required: [topic]}
output_schema: {type: object, properties: {sections: {type: array}}, required: [sections]}
template_type: LLM_JSON_GENERATION
template_config: {prompt_id: outline}
"""
REVIEW = """\
skill_id: style-review
version: "1.0.0"
title: Style review
description: Judges a page by the house style.
output_schema: {type: object, properties: {pass: {}, issues: {}, suggested_fixes: {}, indeterminate: {}}}
template_type: LLM_REVIEW
template_config: {rubric_id: style}
"""
PASSES = {
    "criterion_id": "clear",
    "reasoning": "One thought a sentence.",
    "evidence": [],
    "verdict": "pass",
    "confidence": 0.9,
    "suggested_fix": "",
}


@pytest.fixture
def outliner(place):
    """The place with a descriptor that names a prompt and brings none."""
    place.write("outliner", {"outliner.yaml": GENERATION})
    return place


def prompt_file(folder, version, template):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"outline@{version}.mustache").write_text(template)
    return folder / f"outline@{version}.mustache"


async def asked(prowess, **options):
    """What the model was asked in one run of the descriptor."""
    with ScriptedModel([{"sections": []}]) as model:
        result = await prowess.run("outliner", {"topic": "cats"}, model=model, **options)
    assert result.data == {"sections": []}
    return model.requests[0].messages[-1].text


async def test_the_nearest_place_that_has_the_prompt_serves_it(outliner, home, tmp_path):
    async with outliner.open() as prowess:
        with pytest.raises(NotFound):
            await prowess.run("outliner", {"topic": "cats"}, model=ScriptedModel([]))
        await prowess.registry.add("prompt", prompt_file(tmp_path / "files", "9.0.0", "Database {{topic}}."))
        assert await asked(prowess) == "Database cats."
        prompt_file(home / ".prowess/prompts", "1.0.0", "Home {{topic}}.")
        assert await asked(prowess) == "Home cats."
        prompt_file(outliner.workspace / ".prowess/prompts", "1.0.0", "Workspace {{topic}}.")
        assert await asked(prowess) == "Workspace cats."
        prompt_file(outliner.workspace / "prompts", "1.1.0", "Newer {{topic}}.")
        assert await asked(prowess) == "Newer cats."


async def test_a_pinned_version_is_served_from_wherever_it_is(outliner, home):
    pinned = GENERATION.replace("{prompt_id: outline}", '{prompt_id: outline, prompt_version: "1.0.0"}')
    outliner.write("outliner", {"outliner.yaml": pinned})
    prompt_file(outliner.workspace / "prompts", "2.0.0", "New {{topic}}.")
    prompt_file(home / ".prowess/prompts", "1.0.0", "Old {{topic}}.")
    async with outliner.open() as prowess:
        assert await asked(prowess) == "Old cats."


async def test_the_descriptors_own_prompt_comes_before_all_others(outliner):
    prompt_file(outliner.workspace / "prompts", "9.0.0", "Workspace {{topic}}.")
    outliner.write("outliner", {"prompts/outline@1.0.0.mustache": "Own {{topic}}."})
    async with outliner.open() as prowess:
        assert await asked(prowess) == "Own cats."


async def test_organizations_do_not_see_what_is_in_the_home_folder(outliner, home):
    prompt_file(home / ".prowess/prompts", "1.0.0", "Home {{topic}}.")
    prompt_file(outliner.workspace / "prompts", "0.1.0", "Workspace {{topic}}.")
    async with outliner.open() as prowess:
        member = prowess.as_actor(organization="acme")
        assert [entry.origin for entry in await prowess.registry.list("prompt")] == ["workspace", "home"]
        assert [entry.origin for entry in await member.registry.list("prompt")] == ["workspace"]


async def test_what_one_organization_keeps_no_other_is_served(outliner, tmp_path):
    ann, bob = Actor(name="ann", organization="acme"), Actor(name="bob", organization="other")
    async with outliner.open() as prowess:
        await prowess.as_actor(ann).registry.add("prompt", prompt_file(tmp_path / "files", "1.0.0", "Acme {{topic}}."))
        assert await asked(prowess.as_actor(ann)) == "Acme cats."
        with pytest.raises(NotFound):
            await prowess.as_actor(bob).run("outliner", {"topic": "cats"}, model=ScriptedModel([]))


async def test_a_prompt_that_cannot_be_used_fails_the_run_with_its_problems(outliner):
    prompt_file(outliner.workspace / "prompts", "1.0.0", "Outline {{#topic}}.")
    async with outliner.open() as prowess:
        with pytest.raises(Invalid) as refused:
            await prowess.run("outliner", {"topic": "cats"}, model=ScriptedModel([]))
    assert "template-syntax" in [problem.code for problem in refused.value.problems]


async def test_a_template_runs_and_the_implementation_beside_it_does_not(outliner):
    outliner.write("outliner", {"outliner.yaml": GENERATION + "implementation: {type: ts_function, handler: x.run}\n"})
    prompt_file(outliner.workspace / "prompts", "1.0.0", "Outline {{topic}}.")
    async with outliner.open() as prowess:
        assert await asked(prowess) == "Outline cats."


async def test_a_review_judges_by_the_rubric_of_the_registry_and_only_by_the_one_it_names(place, rubric_document):
    place.write(
        "style-review", {"style-review.yaml": REVIEW, "rubrics/other.json": json.dumps(rubric_document("other"))}
    )
    (place.workspace / "rubrics").mkdir()
    (place.workspace / "rubrics/style.json").write_text(json.dumps(rubric_document()))
    async with place.open() as prowess:
        with ScriptedModel([{"results": [PASSES]}]) as model:
            result = await prowess.run("style-review", {"asset": "A page."}, model=model)
    assert [part.artifact for part in result.parts] == ["review"]
    assert result.data["pass"] is True
    assert "Every sentence has one thought." in model.requests[0].messages[-1].text
