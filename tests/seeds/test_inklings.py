"""Inklings: the Consistency Checker, as its page prints it, and the assertions that an artifact's metadata holds."""

from __future__ import annotations

import base64
import json

import pytest

from prowess.skill.forms import read_package, write_package
from prowess.skill.package import Package


@pytest.fixture
def checker(printed):
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    return Package.of_texts("consistency-checker.json", {"consistency-checker.json": text})


@pytest.fixture
def document(checker):
    return json.loads(checker.files[0].content)


def test_the_printed_package_is_recognised_and_read(checker):
    reading = read_package(checker)
    skill = reading.skill
    assert reading.form == "inklings"
    assert read_package(checker).form == "inklings"
    assert (skill.slug, skill.title) == ("consistency-checker", "Consistency Checker")
    assert skill.id == "550e8400-e29b-41d4-a716-446655440000"
    assert skill.version == "1.0.0"
    assert skill.tags == ("analysis", "worldbuilding", "quality")
    assert skill.provenance.source == "system"
    assert skill.intent_patterns == ("check consistency", "find contradictions", "verify facts")
    assert skill.trigger_phrases == ("are there any contradictions", "check for inconsistencies")


def test_its_four_artifacts_are_of_four_kinds(checker, document):
    skill = read_package(checker).skill
    told = [(artifact.kind, artifact.name, artifact.ordinal) for artifact in skill.artifacts]
    assert told == [
        ("description", "Overview", 0),
        ("prompt_template", "Check Prompt", 1),
        ("code_template", "Cross-Reference Script", 2),
        ("dspy_module", "DSPy Checker", 3),
    ]
    assert [artifact.content for artifact in skill.artifacts] == [row["content"] for row in document["artifacts"]]


def test_the_dspy_module_names_a_template_and_falls_back_to_the_prompt(checker):
    module = read_package(checker).skill.artifact("DSPy Checker")
    assert module.settings == {"template_id": "chain_of_thought", "signature": "claims -> contradictions"}
    assert module.fallback == "Check Prompt"


def test_the_placeholder_that_the_page_prints_for_the_state_is_reported_and_kept(checker, document):
    reading = read_package(checker)
    assert [problem.code for problem in reading.problems] == ["state-blob-unreadable"]
    assert reading.problems[0].severity == "warning"
    module = reading.skill.artifact("DSPy Checker")
    assert module.state is None
    assert module.metadata["state_blob"] == document["artifacts"][3]["state_blob"]


def test_a_real_state_is_decoded_and_encoded_again(document):
    signature = {"instructions": "Find contradictions.", "fields": []}
    saved = {"demos": [{"claims": "ü", "contradictions": "none"}], "signature": signature, "lm": None}
    state = json.dumps({"predict": saved}, ensure_ascii=False)
    blob = base64.b64encode(state.encode()).decode()
    document["artifacts"][3]["state_blob"] = blob
    package = Package.of_texts("x.json", {"x.json": json.dumps(document)})
    reading = read_package(package)
    assert reading.problems == ()
    assert reading.skill.artifact("DSPy Checker").state == state
    native = write_package(reading.skill, package, "native").package
    assert native.get("dspy/dspy-checker.state.json").content == state.encode()
    back = write_package(read_package(native).skill, native, "inklings").package
    assert json.loads(back.files[0].content)["artifacts"][3]["state_blob"] == blob


def test_it_comes_back_from_the_native_form_as_the_same_value(checker, document):
    native = write_package(read_package(checker).skill, checker, "native")
    assert native.left_out == ()
    again = read_package(native.package)
    assert again.form == "native"
    assert [problem.severity for problem in again.problems] == []
    back = write_package(again.skill, native.package, "inklings")
    assert back.left_out == ()
    assert back.package.paths == ("consistency-checker.json",)
    assert json.loads(back.package.files[0].content) == document


def test_written_in_its_own_form_it_keeps_its_bytes(checker):
    assert write_package(read_package(checker).skill, checker, "inklings").package == checker


def test_the_printed_assertions_are_kept_with_their_artifact(printed, document):
    text = printed("inklings", "metadata JSON field:\n", "Assertion Trait\n")
    metadata = json.loads(text)
    document["artifacts"][1]["metadata"] = metadata
    package = Package.of_texts("x.json", {"x.json": json.dumps(document)})
    skill = read_package(package).skill
    prompt = skill.artifact("Check Prompt")
    assert [one["type"] for one in prompt.assertions] == ["structural", "length", "semantic"]
    assert list(prompt.assertions) == metadata["assertions"]
    assert prompt.metadata == {}
    native = write_package(skill, package, "native").package
    assert list(read_package(native).skill.artifact("Check Prompt").assertions) == metadata["assertions"]
    back = write_package(read_package(native).skill, native, "inklings").package
    assert json.loads(back.files[0].content) == document


def test_every_column_of_both_tables_is_understood_and_survives(document):
    row = document["artifacts"][1]
    row |= {"id": "a-1", "skill_id": document["id"], "model_variant": "anthropic"}
    row |= {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z"}
    document |= {"author": "Ada", "marketplace_id": "m-7", "sync_etag": 'W/"3"'}
    document |= {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z"}
    del document["artifacts"][0]["ordinal"]
    package = Package.of_texts("x.json", {"x.json": json.dumps(document)})
    reading = read_package(package)
    assert [problem.code for problem in reading.problems] == ["state-blob-unreadable"]
    assert reading.skill.author == "Ada"
    assert reading.skill.provenance.marketplace_id == "m-7"
    assert reading.skill.provenance.sync_etag == 'W/"3"'
    assert reading.skill.artifact("Check Prompt", "anthropic") is not None
    native = write_package(reading.skill, package, "native").package
    assert native.get("prompts/check-prompt.anthropic.j2") is not None
    back = write_package(read_package(native).skill, native, "inklings").package
    assert json.loads(back.files[0].content) == document


def test_keys_that_nobody_knows_are_reported_and_survive(document):
    document["colour"] = {"hue": 3, "warm": True}
    document["artifacts"][0]["mood"] = ["calm", 1.5, None]
    package = Package.of_texts("x.json", {"x.json": json.dumps(document)})
    reading = read_package(package)
    assert ("unknown-field", "colour") in [(problem.code, problem.field) for problem in reading.problems]
    native = write_package(reading.skill, package, "native").package
    back = write_package(read_package(native).skill, native, "inklings").package
    assert json.loads(back.files[0].content) == document


def test_the_deferred_kinds_are_read(document):
    document["artifacts"] += [
        {"kind": "approach", "name": "Method", "content": "Compare in pairs."},
        {"kind": "example", "name": "One", "content": "in → out"},
    ]
    skill = read_package(Package.of_texts("x.json", {"x.json": json.dumps(document)})).skill
    assert skill.kinds[-2:] == ("approach", "example")


def test_an_unknown_kind_is_an_error_that_names_the_known_ones_and_the_rest_is_read(document):
    document["artifacts"][0]["kind"] = "spell"
    reading = read_package(Package.of_texts("x.json", {"x.json": json.dumps(document)}))
    problem = next(problem for problem in reading.problems if problem.code == "unknown-kind")
    assert problem.severity == "error"
    assert problem.field == "artifacts[0].kind"
    assert all(kind in problem.hint for kind in ("description", "prompt_template", "code_template", "dspy_module"))
    assert len(reading.skill.artifacts) == 3


def test_a_dspy_module_without_a_fallback_is_an_error(document):
    del document["artifacts"][3]["metadata"]
    reading = read_package(Package.of_texts("x.json", {"x.json": json.dumps(document)}))
    assert ("dspy-without-fallback", "error") in [(problem.code, problem.severity) for problem in reading.problems]
