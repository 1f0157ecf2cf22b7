"""AgentLayerRules: descriptors of the printed shape, with their registries, and the printed validation rules."""

from __future__ import annotations

import json
import re

import pytest

from prowess.skill.edit import rewrite_package
from prowess.skill.forms import agentlayerrules, read_package, write_package
from prowess.skill.forms.descriptor import CONFIG_FIELDS
from prowess.skill.kinds import PromptTemplate, Review
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.text.yaml import load
from prowess.skill.text.yaml_writer import dump

GENERATION = {
    "skill_id": "outline-writer",
    "version": "1.10",
    "title": "Outline writer",
    "description": "Turns a topic into a structured outline.",
    "tags": ["writing", "outline"],
    "input_schema": {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
    "output_schema": {"type": "object", "properties": {"sections": {"type": "array"}}},
    "implementation": {"type": "ts_function", "handler": "handlers/outline.run", "retries": 2},
    "template_type": "LLM_JSON_GENERATION",
    "template_config": {
        "prompt_id": "outline",
        "prompt_version": "2.0.0",
        "model": "small",
        "temperature": 0.25,
        "retry_on_validation_failure": False,
        "max_tokens": 800,
    },
    "produces_artifacts": [{"type": "outline", "mime": "application/json"}],
    "policy": {"network": "none"},
    "observability": {"log_inputs": False},
}
PROMPT = {
    "prompt_id": "outline",
    "version": "2.0.0",
    "vars_schema": {"type": "object", "properties": {"topic": {"type": "string"}}},
    "output_schema": {"type": "object"},
    "template": "Outline {{topic}}.\n{{#notes}}- {{.}}\n{{/notes}}",
    "owner": "docs",
}
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
    "criteria": [CRITERION, {**CRITERION, "id": "short", "weight": 0.5}],
    "output_schema": {"type": "object"},
}
RESULT = {"type": "object", "properties": {name: {} for name in ("pass", "issues", "suggested_fixes", "indeterminate")}}
REVIEW = {
    "skill_id": "style_review",
    "version": "0.1.0",
    "title": "Style review",
    "description": "Judges a page by the house style.",
    "tags": [],
    "input_schema": {"type": "object"},
    "output_schema": RESULT,
    "template_type": "LLM_REVIEW",
    "template_config": {
        "rubric_id": "style",
        "rubric_version": "1.0.0",
        "evaluation_model": "large",
        "include_criteria_details": False,
    },
}


def generation(descriptor=GENERATION, prompt=PROMPT):
    files = {"outline-writer.yaml": dump(descriptor)}
    return Package.of_texts(
        "outline-writer", files | ({"prompts/outline.v2.json": json.dumps(prompt)} if prompt else {})
    )


def review(descriptor=REVIEW, rubric=RUBRIC):
    files = {"style_review.yaml": dump(descriptor)}
    return Package.of_texts("style-review", files | ({"rubrics/style.yaml": dump(rubric)} if rubric else {}))


def codes(package):
    return {(problem.code, problem.severity) for problem in read_package(package).problems}


def without(value, *keys):
    return {key: part for key, part in value.items() if key not in keys}


def test_every_field_of_the_printed_descriptor_is_understood(printed):
    page = printed("agentlayerrules", "# Existing fields remain unchanged\n", "```")
    top = re.findall(r"^(\w+):", page, re.MULTILINE)
    assert set(top) == set(agentlayerrules.FIELDS)
    nested = set(re.findall(r"^  (\w+)\??:", page, re.MULTILINE)) - {"type", "handler"}
    assert nested <= {field for fields in CONFIG_FIELDS.values() for field in fields}


@pytest.mark.parametrize(
    ("interface", "template"),
    [("LlmJsonGenerationConfig", "LLM_JSON_GENERATION"), ("LlmReviewConfig", "LLM_REVIEW")],
)
def test_every_field_of_the_printed_template_configs_is_understood(printed, interface, template):
    page = printed("agentlayerrules", f"interface {interface} {{\n", "}")
    assert tuple(re.findall(r"(\w+)\??:", page)) == CONFIG_FIELDS[template]


def test_every_field_of_the_printed_rubric_is_in_our_rubric(printed):
    page = json.loads(printed("agentlayerrules", "```json\n", "```", after="## Entity: ReviewRubric"))
    assert set(page) == set(RUBRIC)
    assert set(page["criteria"][0]) == set(CRITERION)
    assert codes(review()) <= {("slug-invalid", "info")}


def test_a_generation_is_recognised_and_read():
    package = generation()
    reading = read_package(package)
    skill = reading.skill
    assert reading.form == "agentlayerrules"
    assert read_package(package).form == "agentlayerrules"
    assert reading.problems == ()
    assert (skill.slug, skill.version, skill.title) == ("outline-writer", "1.10", "Outline writer")
    assert skill.parameters == GENERATION["input_schema"]
    assert skill.output_schema == GENERATION["output_schema"]
    assert skill.policy == {"network": "none"}
    assert skill.kinds == ("json_generation", "function", "prompt_template")
    made = skill.artifact("generate")
    assert (made.prompt_id, made.prompt_version, made.model) == ("outline", "2.0.0", "small")
    assert (made.temperature, made.max_tokens, made.retry_on_validation_failure) == (0.25, 800, False)
    assert made.output_schema == GENERATION["output_schema"]


def test_its_handler_and_its_prompt_are_artifacts():
    skill = read_package(generation()).skill
    handler, prompt = skill.artifact("handler"), skill.artifact("outline")
    assert (handler.language, handler.handler) == ("typescript", "handlers/outline.run")
    assert (prompt.syntax, prompt.version, prompt.content) == ("mustache", "2.0.0", PROMPT["template"])
    assert prompt.vars_schema == PROMPT["vars_schema"]


@pytest.mark.parametrize("kind", ["http_call", "cli_command"])
def test_other_implementations_are_artifacts_of_their_kind(kind):
    package = generation({**GENERATION, "implementation": {"type": kind, "handler": "go"}})
    assert read_package(package).skill.artifact("handler").kind == kind


def test_a_review_is_read_with_its_rubric():
    package = review()
    skill = read_package(package).skill
    made = skill.artifact("review")
    assert skill.slug == "style-review"
    assert (made.rubric_id, made.rubric_version, made.evaluation_model) == ("style", "1.0.0", "large")
    assert made.include_criteria_details is False
    assert made.content == package.get("rubrics/style.yaml").content.decode()
    assert skill.kinds == ("review",)


@pytest.mark.parametrize("make", [generation, review])
def test_it_comes_back_from_the_native_form_with_the_same_content(make):
    package = make()
    native = write_package(read_package(package).skill, package, "native")
    assert native.left_out == ()
    again = read_package(native.package)
    assert [problem for problem in again.problems if problem.severity == "error"] == []
    back = write_package(again.skill, native.package, "agentlayerrules")
    assert back.left_out == ()
    assert back.package.paths == package.paths
    for path in package.paths:
        ours, theirs = back.package.get(path).content, package.get(path).content
        if path.count("/"):
            assert ours == theirs
        else:
            assert load(ours.decode(), typed=True).value == load(theirs.decode(), typed=True).value


def test_older_versions_of_a_prompt_keep_their_version_in_their_name():
    old = Package.of_texts("x", {"prompts/outline.v1.json": json.dumps({**PROMPT, "version": "1.9.0"})})
    package = generation().with_files(old.files)
    skill = read_package(package).skill
    assert skill.artifact("outline").version == "2.0.0"
    assert skill.artifact("outline@1.9.0").version == "1.9.0"
    native = write_package(skill, package, "native").package
    back = write_package(read_package(native).skill, native, "agentlayerrules").package
    assert back.get("prompts/outline.v1.json").content == package.get("prompts/outline.v1.json").content


def test_a_bare_mustache_file_is_a_prompt():
    package = generation(prompt=None).with_files(
        Package.of_texts("x", {"prompts/outline.mustache": "Outline {{topic}}"}).files
    )
    assert codes(package) == set()
    assert read_package(package).skill.artifact("outline").syntax == "mustache"


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        (generation(without(GENERATION, "template_config")), ("template-config-missing", "error")),
        (generation({**GENERATION, "template_config": {"prompt_id": "else"}}), ("prompt-unknown", "warning")),
        (generation(prompt=None), ("prompt-unknown", "warning")),
        (generation(without(GENERATION, "output_schema")), ("output-schema-missing", "error")),
        (generation({**GENERATION, "template_config": {}}), ("prompt-id-missing", "error")),
        (generation({**GENERATION, "template_type": "LLM_POEM"}), ("template-type-unknown", "error")),
        (generation({**GENERATION, "implementation": {"type": "magic"}}), ("implementation-unknown", "error")),
        (review({**REVIEW, "template_config": {"rubric_id": "else"}}), ("rubric-unknown", "warning")),
        (review(rubric=None), ("rubric-unknown", "warning")),
        (review({**REVIEW, "output_schema": {"type": "object"}}), ("output-schema-not-review", "warning")),
        (review(rubric={**RUBRIC, "criteria": []}), ("rubric-without-criteria", "error")),
        (review(rubric={**RUBRIC, "criteria": [CRITERION, CRITERION]}), ("rubric-duplicate-criterion", "error")),
        (review(rubric=without(RUBRIC, "pass_threshold")), ("rubric-without-threshold", "warning")),
        (review(rubric={**RUBRIC, "criteria": [{**CRITERION, "weight": 0}]}), ("rubric-weight-not-positive", "error")),
        (
            review(rubric={**RUBRIC, "criteria": [without(CRITERION, "fail_condition")]}),
            ("rubric-criterion-incomplete", "error"),
        ),
        (review(rubric={**RUBRIC, "scoring_mode": "vibes"}), ("rubric-scoring-mode", "error")),
    ],
)
def test_each_printed_rule_gives_a_problem_of_its_own(package, expected):
    assert expected in codes(package)
    assert read_package(package).skill is not None


def test_a_problem_of_the_descriptor_tells_its_line():
    problem = next(one for one in read_package(generation({**GENERATION, "template_type": "X"})).problems)
    line = dump({**GENERATION, "template_type": "X"}).split("\n").index("template_type: X") + 1
    assert (problem.field, problem.line) == ("template_type", line)


def test_a_second_descriptor_is_an_error_that_names_both():
    package = generation().with_files(Package.of_texts("x", {"other.yaml": "skill_id: other\n"}).files)
    problem = next(one for one in read_package(package).problems if one.code == "several-descriptors")
    assert "outline-writer.yaml is also a descriptor; only other.yaml is read" in problem.message


def test_a_descriptor_without_an_id_or_with_a_schema_that_is_none_is_reported():
    assert read_package(Package.of_texts("", {"a.yaml": "skill_id: '!'\ndescription: d\n"})).skill is None
    assert ("wrong-type", "error") in codes(generation({**GENERATION, "input_schema": "text"}))


@pytest.mark.parametrize("text", ["[]", '{"prompt_id": "outline"}', "{"])
def test_a_prompt_file_that_is_none_is_an_error(text):
    package = generation(prompt=None).with_files(Package.of_texts("x", {"prompts/outline.json": text}).files)
    assert {"prompt-invalid", "json-unreadable"} & {code for code, severity in codes(package) if severity == "error"}


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_an_edited_prompt_is_written_into_its_registry_file_and_the_rest_of_the_file_stays(ending):
    text = json.dumps(PROMPT) if ending == "json" else dump(PROMPT)
    package = generation(prompt=None).with_files(Package.of_texts("x", {f"prompts/outline.{ending}": text}).files)
    skill = read_package(package).skill
    edited = tuple(
        one.model_copy(update={"content": "New {{topic}}", "version": "2.1.0"}) if one.name == "outline" else one
        for one in skill.artifacts
    )
    written = rewrite_package(skill.model_copy(update={"artifacts": edited}), package)
    value = load(written.get(f"prompts/outline.{ending}").content.decode(), typed=True).value
    assert value == {**PROMPT, "template": "New {{topic}}", "version": "2.1.0"}


def test_a_skill_of_another_form_is_written_with_its_mustache_prompts_and_rubrics():
    made = Skill(
        slug="style-review",
        title="Style review",
        description="Judges a page.",
        artifacts=(
            Review(name="review", rubric_id="style", content=json.dumps(RUBRIC)),
            PromptTemplate(name="ask", ordinal=1, content="{{q}}", syntax="mustache", version="1.0.0"),
            PromptTemplate(name="jinja", content="{{ q }}"),
        ),
    )
    writing = write_package(made, Package(name="", files=()), "agentlayerrules")
    assert writing.package.paths == ("prompts/ask.json", "rubrics/style.json", "style-review.yaml")
    assert [problem.field for problem in writing.left_out] == ["jinja"]
    again = read_package(writing.package).skill
    assert again.artifact("review").content == json.dumps(RUBRIC)
    assert again.artifact("ask").content == "{{q}}"
