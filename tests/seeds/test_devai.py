"""Devai: generate-image, a manifest and a function, as its page prints them."""

from __future__ import annotations

import json

import pytest

from prowess.skill.forms import read_package, write_package
from prowess.skill.package import Package
from prowess.skill.slug import tool_name


@pytest.fixture
def manifest(printed):
    return printed("devai", "```json\n", "```", after="**`skill.json`**")


@pytest.fixture
def code(printed):
    return printed("devai", "```typescript\n", "```", after="exports a single function with a strict contract")


@pytest.fixture
def folder(manifest, code):
    return Package.of_texts("generate-image", {"skill.json": manifest, "execute.ts": code})


def test_the_printed_folder_is_recognised_and_read(folder):
    reading = read_package(folder)
    skill = reading.skill
    assert reading.form == "devai"
    assert read_package(folder).form == "devai"
    assert reading.problems == ()
    assert (skill.slug, skill.title) == ("generate-image", "Bildgenerierung")
    assert skill.description.startswith("Generiert Bilder")
    assert skill.version == "1.0.0"
    assert skill.author == "devo"
    assert skill.tags == ("image", "openai")


def test_its_parameters_become_a_json_schema(folder):
    assert read_package(folder).skill.parameters == {
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "Bildbeschreibung"},
            "size": {"type": "string", "default": "1024x1024"},
        },
        "required": ["prompt"],
    }


def test_its_execute_file_is_a_function_in_its_language(folder, code):
    (function,) = read_package(folder).skill.artifacts
    assert function.kind == "function"
    assert function.language == "typescript"
    assert function.handler == "execute"
    assert function.timeout_seconds == 30
    assert function.content == code
    assert function.path == "execute.ts"


def test_agents_call_it_by_the_name_that_the_page_gives(folder, printed):
    called = printed("devai", "Agents call them like any other tool:\n\n```\n", "(")
    assert tool_name(read_package(folder).skill.slug) == called == "skill_generate_image"


def test_it_comes_back_from_the_native_form_with_the_same_content(folder, manifest, code):
    native = write_package(read_package(folder).skill, folder, "native")
    assert native.left_out == ()
    assert native.package.get("execute.ts").content == code.encode()
    again = read_package(native.package)
    assert [problem.severity for problem in again.problems if problem.severity != "info"] == []
    back = write_package(again.skill, native.package, "devai")
    assert back.left_out == ()
    assert back.package.paths == ("execute.ts", "skill.json")
    assert json.loads(back.package.get("skill.json").content) == json.loads(manifest)
    assert back.package.get("execute.ts").content == code.encode()


def test_written_in_its_own_form_it_keeps_its_bytes(folder):
    assert write_package(read_package(folder).skill, folder, "devai").package == folder


@pytest.mark.parametrize(("seconds", "kept"), [(90, 90.0), (0.5, 0.5), (30, 30.0)])
def test_a_time_limit_and_what_comes_out_are_those_of_the_function_and_the_skill(manifest, seconds, kept):
    schema = {"type": "object", "properties": {"url": {"type": "string"}}}
    told = {**json.loads(manifest), "timeout_seconds": seconds, "output_schema": schema}
    package = Package.of_texts("generate-image", {"skill.json": json.dumps(told), "execute.ts": "export {}"})
    reading = read_package(package)
    assert reading.problems == ()
    assert reading.skill.extra == {}
    assert (reading.skill.artifact("execute").timeout_seconds, reading.skill.output_schema) == (kept, schema)
    native = write_package(reading.skill, package, "native")
    again = read_package(native.package).skill
    assert (again.artifact("execute").timeout_seconds, again.output_schema) == (kept, schema)
    back = write_package(again, native.package, "devai")
    assert (native.left_out, back.left_out) == ((), ())
    assert json.loads(back.package.get("skill.json").content) == told


@pytest.mark.parametrize("wrong", [{"timeout_seconds": value} for value in (0, -1, True, "9", 10**400, [])])
def test_a_time_limit_that_is_none_is_reported_and_survives(manifest, wrong):
    told = {**json.loads(manifest), **wrong}
    package = Package.of_texts("generate-image", {"skill.json": json.dumps(told), "execute.ts": "export {}"})
    reading = read_package(package)
    assert [(problem.code, problem.field) for problem in reading.problems] == [("wrong-type", "timeout_seconds")]
    assert reading.skill.artifact("execute").timeout_seconds == 30
    native = write_package(reading.skill, package, "native").package
    back = write_package(read_package(native).skill, native, "devai").package
    assert json.loads(back.get("skill.json").content) == told


@pytest.mark.parametrize("field", ["toolAllowList", "systemPrompt"])
def test_the_fields_that_the_page_removes_are_reported_and_survive(folder, manifest, field):
    old = {**json.loads(manifest), field: "x"}
    package = Package.of_texts("generate-image", {"skill.json": json.dumps(old), "execute.ts": "export {}"})
    reading = read_package(package)
    assert [(problem.code, problem.field) for problem in reading.problems] == [("removed-field", field)]
    assert reading.skill.extra == {field: "x"}
    native = write_package(reading.skill, package, "native").package
    back = write_package(read_package(native).skill, native, "devai").package
    assert json.loads(back.get("skill.json").content) == old


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n": {"type": "integer", "required": False, "minimum": 1}},
        {"o": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}},
        {"type": {"type": "string", "enum": ["a", "b"], "required": True}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
        {"short": "string"},
    ],
)
def test_parameters_of_any_shape_survive(manifest, parameters):
    value = {**json.loads(manifest), "parameters": parameters}
    package = Package.of_texts("generate-image", {"skill.json": json.dumps(value), "execute.js": "exports.execute = 1"})
    native = write_package(read_package(package).skill, package, "native").package
    back = write_package(read_package(native).skill, native, "devai").package
    assert json.loads(back.get("skill.json").content) == value


def test_a_manifest_alone_is_read_with_a_word_about_the_missing_function(manifest):
    reading = read_package(Package.of_texts("generate-image", {"skill.json": manifest}))
    assert reading.form == "devai"
    assert [problem.code for problem in reading.problems] == ["function-missing"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("{", "json-unreadable"), ("[]", "wrong-type"), ('{"id": "", "description": "d"}', "no-slug")],
)
def test_a_manifest_that_is_none_is_an_error(text, code):
    reading = read_package(Package.of_texts("", {"skill.json": text, "execute.ts": "x"}))
    assert (reading.form, reading.skill) == ("devai", None)
    assert [problem.code for problem in reading.problems] == [code]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "skill.json has no id; 'note-taker' is used instead."),
        ({"id": "Note Taker"}, "The id 'Note Taker' is not a valid slug; 'note-taker' is used instead."),
    ],
)
def test_a_slug_that_is_not_the_id_is_explained(given, message):
    text = json.dumps({"name": "Note taker", "description": "Takes notes.", **given})
    reading = read_package(Package.of_texts("x", {"skill.json": text, "execute.ts": "x"}))
    assert [problem.message for problem in reading.problems] == [message]


def test_an_odd_manifest_is_read_with_a_word_about_everything():
    text = json.dumps({"id": "Note Taker", "parameters": [1]})
    reading = read_package(Package.of_texts("x", {"skill.json": text, "execute.ts": "x", "execute.py": "y"}))
    assert reading.skill.slug == "note-taker"
    assert {problem.code for problem in reading.problems} == {
        "slug-invalid",
        "description-missing",
        "wrong-type",
        "several-functions",
    }
    assert [artifact.path for artifact in reading.skill.artifacts] == ["execute.ts"]
