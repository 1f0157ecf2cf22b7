"""The validation rules that the AgentLayerRules page prints: each is held here, or where its subject is made.

What the page says of a GenerationResult and a ReviewResult is true of every value of these types, since no other can be
made; the tests of those types prove it. Here stands only that no rule of the page is forgotten.
"""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from prowess.errors import NotFound
from prowess.prompts.shelf import read_entry
from prowess.skill.forms import read_package, write_package
from prowess.skill.package import Package
from prowess.skill.text.yaml_writer import dump

RULES = {
    "SkillDescriptor": (
        "If `template_type` is set, `template_config` MUST be present",
        "If `template_type === 'LLM_JSON_GENERATION'`:",
        "`template_config.prompt_id` MUST exist in prompt registry",
        "`output_schema` MUST be defined (for validation)",
        "If `template_type === 'LLM_REVIEW'`:",
        "`template_config.rubric_id` MUST exist in rubric registry",
        "`output_schema` SHOULD match ReviewResult structure",
    ),
    "ReviewRubric": (
        "`criteria` array MUST have at least one criterion",
        "Each criterion MUST have unique `id`",
        "If `scoring_mode === 'weighted'`, `pass_threshold` SHOULD be defined",
        "`weight` values MUST be positive numbers",
    ),
    "GenerationResult": (
        "If `success === true`, `data` MUST be present",
        "If `success === false`, `validationErrors` SHOULD be present",
        "`attempts` MUST be >= 1",
    ),
    "ReviewResult": (
        "`issues` MUST be non-empty if `pass === false` (unless only indeterminate)",
        "`indeterminate` items MUST NOT also appear in `issues`",
        "If `criteria_results` present, length MUST match rubric criteria count",
    ),
}
RESULT = {"type": "object", "properties": {name: {} for name in ("pass", "issues", "suggested_fixes", "indeterminate")}}
CRITERION = {
    "id": "clear",
    "name": "Clear",
    "description": "It reads well.",
    "pass_condition": "Every sentence has one thought.",
    "fail_condition": "A sentence has to be read twice.",
    "weight": 2,
}
RUBRIC = {
    "rubric_id": "style",
    "version": "1.0.0",
    "description": "House style.",
    "scoring_mode": "weighted",
    "pass_threshold": 0.8,
    "criteria": [CRITERION],
}
PROMPT = {"prompt_id": "outline", "version": "1.0.0", "template": "Outline {{topic}}."}
GENERATION = {
    "skill_id": "outliner",
    "version": "1.0.0",
    "title": "Outliner",
    "description": "Turns a topic into an outline.",
    "output_schema": {"type": "object"},
    "template_type": "LLM_JSON_GENERATION",
    "template_config": {"prompt_id": "outline"},
}
REVIEW = {
    **GENERATION,
    "output_schema": RESULT,
    "template_type": "LLM_REVIEW",
    "template_config": {"rubric_id": "style"},
}


def codes(descriptor, severity="error"):
    package = Package.of_texts("outliner", {"outliner.yaml": dump(descriptor)})
    return {problem.code for problem in read_package(package).problems if problem.severity == severity}


def without(value, *keys):
    return {key: part for key, part in value.items() if key not in keys}


def rubric_codes(severity="error", **fields):
    entry = read_entry("rubric", "style.json", json.dumps({**RUBRIC, **fields}).encode())
    return {problem.code for problem in entry.problems if problem.severity == severity}


@pytest.fixture
def validated(place):
    """Validate a descriptor through the engine; the errors, by code."""

    def check(descriptor):
        path = place.workspace / "outliner.yaml"
        path.write_text(dump(descriptor))

        async def work():
            async with place.open() as prowess:
                (checked,) = await prowess.skills.check(path)
                return checked

        checked = asyncio.run(work())
        found = {problem.code for problem in checked.problems if problem.severity == "error"}
        assert checked.ok == (not found)
        return found

    return check


@pytest.mark.parametrize("entity", RULES)
def test_every_rule_that_the_page_prints_is_known_here(shared, entity):
    page = shared("seeds/004_759ef97dabc50935.txt").read_text(encoding="utf-8")
    section = page.partition(f"### {entity} Validation\n")[2].partition("\n##")[0]
    assert tuple(re.findall(r"^(?:\d+\.|   -) (.*)$", section, re.MULTILINE)) == RULES[entity]


def test_descriptor_1_a_template_type_needs_a_template_config():
    assert "template-config-missing" in codes(without(GENERATION, "template_config"))
    assert "template-config-missing" in codes(without(REVIEW, "template_config"))
    assert "template-config-missing" not in codes(without(GENERATION, "template_type", "template_config"))
    assert "template-config-missing" not in codes({**GENERATION, "template_type": None})


def test_descriptor_2_the_prompt_of_a_generation_must_be_in_the_registry(place, validated):
    assert validated(GENERATION) == {"prompt-unknown"}
    (place.workspace / ".prowess/prompts").mkdir(parents=True)
    (place.workspace / ".prowess/prompts/outline.json").write_text(json.dumps(PROMPT))
    assert validated(GENERATION) == set()
    pinned = {**GENERATION, "template_config": {"prompt_id": "outline", "prompt_version": "2.0.0"}}
    assert validated(pinned) == {"prompt-unknown"}


def test_descriptor_2_a_prompt_of_the_registry_that_cannot_be_used_is_an_error(place, validated):
    (place.workspace / ".prowess/prompts").mkdir(parents=True)
    (place.workspace / ".prowess/prompts/outline.json").write_text("{}")
    assert validated(GENERATION) == {"prompt-invalid"}


def test_descriptor_2_a_generation_needs_an_output_schema():
    assert "output-schema-missing" in codes(without(GENERATION, "output_schema"))
    assert "output-schema-missing" not in codes(GENERATION)


def test_descriptor_3_the_rubric_of_a_review_must_be_in_the_registry(place, validated):
    assert validated(REVIEW) == {"rubric-unknown"}
    (place.workspace / ".prowess/rubrics").mkdir(parents=True)
    (place.workspace / ".prowess/rubrics/style.json").write_text(json.dumps(RUBRIC))
    assert validated(REVIEW) == set()


def test_descriptor_3_the_output_schema_of_a_review_should_match_its_result():
    assert "output-schema-not-review" in codes({**REVIEW, "output_schema": {"type": "object"}}, "warning")
    assert "output-schema-not-review" not in codes(REVIEW, "warning")


def test_what_the_package_does_not_have_is_only_told_where_no_registry_can_be_asked():
    assert "prompt-unknown" in codes(GENERATION, "warning")
    assert "rubric-unknown" in codes(REVIEW, "warning")


def test_a_descriptor_is_kept_before_its_prompt_is_registered_and_finds_it_later(place):
    path = place.workspace / "outliner.yaml"
    path.write_text(dump(GENERATION))

    async def work():
        async with place.open() as prowess:
            await prowess.skills.import_path(path)
            with pytest.raises(NotFound):
                await prowess.registry.get("prompt", "outline", skill="outliner")
            prompt = place.workspace / "outline.json"
            prompt.write_text(json.dumps(PROMPT))
            await prowess.registry.add("prompt", prompt)
            return await prowess.registry.get("prompt", "outline", skill="outliner")

    entry = asyncio.run(work())
    assert (entry.label, entry.origin) == ("outline@1.0.0", "database")


@pytest.mark.parametrize("criteria", [[], None, "none"])
def test_rubric_1_there_is_at_least_one_criterion(criteria):
    assert "rubric-without-criteria" in rubric_codes(criteria=criteria)


def test_rubric_2_each_criterion_has_an_id_of_its_own():
    assert "rubric-duplicate-criterion" in rubric_codes(criteria=[CRITERION, CRITERION])
    assert rubric_codes(criteria=[CRITERION, {**CRITERION, "id": "short"}]) == set()


def test_rubric_3_a_weighted_rubric_should_have_a_threshold():
    assert "rubric-without-threshold" in rubric_codes("warning", pass_threshold=None)
    assert "rubric-without-threshold" not in rubric_codes("warning", pass_threshold=None, scoring_mode="binary")
    assert "rubric-without-threshold" not in rubric_codes("warning")


@pytest.mark.parametrize("weight", [0, -0.5, "1", None, [], True])
def test_rubric_4_weights_are_positive_numbers(weight):
    assert "rubric-weight-not-positive" in rubric_codes(criteria=[{**CRITERION, "weight": weight}])


@pytest.mark.parametrize("field", ["pass_condition", "fail_condition"])
def test_a_criterion_says_what_passes_and_what_fails(field):
    assert "rubric-criterion-incomplete" in rubric_codes(criteria=[without(CRITERION, field)])


def test_a_weight_that_is_not_stated_is_one():
    entry = read_entry(
        "rubric", "style.json", json.dumps({**RUBRIC, "criteria": [without(CRITERION, "weight")]}).encode()
    )
    assert entry.value.criteria[0].weight == 1.0


def test_a_rubric_that_breaks_a_rule_is_not_used_for_a_review(place):
    (place.workspace / "rubrics").mkdir()
    (place.workspace / "rubrics/style.json").write_text(json.dumps({**RUBRIC, "criteria": []}))

    async def work():
        async with place.open() as prowess:
            return await prowess.registry.get("rubric", "style")

    entry = asyncio.run(work())
    assert entry.value is None
    assert [problem.code for problem in entry.problems] == ["rubric-without-criteria"]


def test_several_versions_of_a_rubric_lie_beside_a_descriptor_and_the_one_asked_for_is_taken():
    newer = {**RUBRIC, "version": "2.0.0", "description": "Newer."}
    files = {"rubrics/style.v1.json": json.dumps(RUBRIC), "rubrics/style.v2.json": json.dumps(newer)}
    latest = read_package(Package.of_texts("outliner", {**files, "outliner.yaml": dump(REVIEW)}))
    assert [problem.code for problem in latest.problems] == []
    assert latest.skill.artifact("review").content == json.dumps(newer)
    assert latest.skill.artifact("style@1.0.0").content == json.dumps(RUBRIC)
    pinned = {**REVIEW, "template_config": {"rubric_id": "style", "rubric_version": "1.0.0"}}
    older = read_package(Package.of_texts("outliner", {**files, "outliner.yaml": dump(pinned)}))
    assert older.skill.artifact("review").content == json.dumps(RUBRIC)


def test_a_template_file_with_its_version_in_its_name_is_that_version_of_the_prompt():
    files = {"prompts/outline@1.9.0.mustache": "Old {{topic}}", "prompts/outline@1.10.0.mustache": "New {{topic}}"}
    skill = read_package(Package.of_texts("outliner", {**files, "outliner.yaml": dump(GENERATION)})).skill
    assert skill.artifact("outline").content == "New {{topic}}"
    assert skill.artifact("outline@1.9.0").version == "1.9.0"


def test_several_versions_beside_a_descriptor_come_back_from_the_native_form():
    files = {
        "rubrics/style.v1.json": json.dumps(RUBRIC),
        "rubrics/style.v2.json": json.dumps({**RUBRIC, "version": "2.0.0"}),
        "prompts/outline@1.9.0.mustache": "Old {{topic}}",
        "prompts/outline@1.10.0.mustache": "New {{topic}}",
        "outliner.yaml": dump(REVIEW),
    }
    package = Package.of_texts("outliner", files)
    skill = read_package(package).skill
    native = write_package(skill, package, "native")
    assert native.left_out == ()
    again = read_package(native.package)
    assert [problem for problem in again.problems if problem.severity == "error"] == []
    back = write_package(again.skill, native.package, "agentlayerrules").package
    assert {path: back.get(path).content for path in back.paths if "/" in path} == {
        path: text.encode() for path, text in files.items() if "/" in path
    }
    same = read_package(back).skill
    assert [(one.name, one.kind, one.content) for one in same.artifacts] == [
        (one.name, one.kind, one.content) for one in skill.artifacts
    ]
