"""No content makes a reader raise, a check fail or a writer hang: whatever it is, it is reported and passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prowess.skill.form_info import FORMS
from prowess.skill.forms import read_package, write_package
from prowess.skill.forms.descriptor import choose_companions
from prowess.skill.forms.origin import apply_changes
from prowess.skill.model import Provenance
from prowess.skill.package import Package
from prowess.skill.profiles import PROFILE_NAMES
from prowess.skill.text.yaml_writer import dump
from prowess.skill.validate import validate

PLAIN = "---\nname: notes\ndescription: Writes release notes.\n---\n# Notes\n\nWrite them.\n"
DIGITS = "9" * 5000
REVIEW = "skill_id: a\ndescription: b\ntemplate_type: LLM_REVIEW\ntemplate_config: {rubric_id: r}\n"


def native(**sidecar: Any) -> dict[str, str]:
    return {"SKILL.md": PLAIN, "agents/prowess.yaml": dump(sidecar), "prompts/p.j2": "x"}


def inklings(**fields: Any) -> dict[str, str]:
    package: dict[str, Any] = {"name": "A", "description": "b", "artifacts": [], **fields}
    return {"a.json": json.dumps(package)}


def example(metadata: str) -> list[dict[str, str]]:
    return [{"kind": "example", "name": "e", "content": "c", "metadata": metadata}]


HOSTILE = {
    "a source type that does not exist": native(provenance={"source_type": "mars"}),
    "a source type that is a list": native(provenance={"source_type": ["github"]}),
    "a kind that is a list": native(artifacts=[{"path": "prompts/p.j2", "kind": ["a"]}]),
    "a kind that is a mapping": native(artifacts=[{"path": "prompts/p.j2", "kind": {"a": "b"}}]),
    "an empty title and version": native(title="", version=""),
    "an origin that stands outside": native(origin={"form": "inklings", "path": "../../out.json"}),
    "an origin with an index of many digits": native(
        origin={"form": "inklings", "changes": [{"at": f"/tags/{DIGITS}", "was": "a", "now": "b"}]}
    ),
    "an origin of changes that say nothing": native(origin={"form": "devai", "changes": [{}, {"at": 5}]}),
    "an assertion whose type is a list": inklings(artifacts=example('{"assertions": [{"type": ["length"]}]}')),
    "packages with a number of many digits": {
        "skill.json": json.dumps({"id": "a", "description": "b"}),
        "execute.py": f"# /// script\n# a = {DIGITS}\n# ///\n",
    },
    "parameters with a reference of many digits": native(parameters={"allOf": [{"$ref": f"#/allOf/{DIGITS}"}]}),
    "tags that nest without end": inklings(tags="[" * 100_000),
    "tags with a number that is none": inklings(tags="[NaN]"),
    "metadata with a number that is none": inklings(artifacts=example('{"a": NaN}')),
    "metadata with half a character": inklings(artifacts=example('{"a": "\\ud800"}')),
    "metadata that nests without end": inklings(artifacts=example('{"a":' * 100_000)),
    "a review whose properties are a number": {"a.yaml": REVIEW + "output_schema: {properties: 5}\n"},
    "a review whose properties are a text": {"a.yaml": REVIEW + "output_schema: {properties: pass}\n"},
    "two prompts, one with a version of many digits": {
        "a.yaml": "skill_id: a\ndescription: b\n",
        "prompts/p.json": json.dumps({"prompt_id": "p", "version": DIGITS, "template": "x"}),
        "prompts/q.json": json.dumps({"prompt_id": "p", "version": "1", "template": "y"}),
    },
    "parameters that are required as such": {
        "skill.json": json.dumps(
            {"id": "a", "description": "b", "parameters": {"type": "object", "properties": {"a": {}}, "required": True}}
        ),
        "execute.py": "x",
    },
    "parameters whose required names are a text": native(
        parameters={"type": "object", "properties": {"a": {"type": "string"}}, "required": "a"}
    ),
    "files whose long names end alike": {
        "SKILL.md": PLAIN,
        **{f"references/{number:03}/{'x' * 220}.md": "x" for number in range(250)},
    },
    "files whose long names end alike, in a native folder": {
        **native(),
        **{f"assets/{number}/{'x' * 220}.md": "x" for number in range(3)},
    },
}


@pytest.mark.few(6)
@pytest.mark.parametrize("files", HOSTILE.values(), ids=HOSTILE.keys())
def test_odd_content_is_read_checked_and_written_without_a_fault(files: dict[str, str]) -> None:
    package = Package.of_texts("notes", files)
    reading = read_package(package)
    assert reading.skill is not None
    for profile in PROFILE_NAMES:
        assert validate(package, profile).reading.skill is not None
    names = [(artifact.name, artifact.variant) for artifact in reading.skill.artifacts]
    assert len(set(names)) == len(names)
    for form in FORMS:
        writing = write_package(reading.skill, package, form)
        assert writing.package.files


@pytest.mark.parametrize("value", ["mars", ["github"]])
def test_a_source_type_that_does_not_exist_is_an_error_with_its_field(value: Any) -> None:
    reading = read_package(Package.of_texts("notes", native(provenance={"source_type": value})))
    (problem,) = reading.problems
    assert (problem.code, problem.field) == ("sidecar-invalid", "provenance.source_type")
    assert reading.skill is not None
    assert reading.skill.provenance == Provenance()


def test_provenance_may_have_empty_fields() -> None:
    files = native(source="community", provenance={"source_type": None, "source_ref": "main"})
    reading = read_package(Package.of_texts("notes", files))
    assert reading.problems == ()
    assert reading.skill is not None
    assert reading.skill.provenance == Provenance(source="community", source_ref="main")


def test_an_empty_title_or_version_in_the_sidecar_leaves_what_skill_md_says() -> None:
    skill = read_package(Package.of_texts("notes", native(title="", version=""))).skill
    assert skill is not None
    assert (skill.title, skill.version) == ("Notes", "1.0.0")


def test_an_index_of_many_digits_changes_nothing() -> None:
    change = {"at": f"/tags/{DIGITS}", "was": "a", "now": "b"}
    assert apply_changes({"tags": ["a"]}, (change,)) == {"tags": ["a"]}


def test_a_companion_that_is_called_exactly_as_its_id_is_no_fault() -> None:
    contents = {"check.json": b'{"prompt_id": "check.json"}', "check.json.v2.json": b"{}"}
    assert choose_companions("prompts", "check.json", contents, contents.__getitem__) == ["check.json.v2.json"]
    del contents["check.json.v2.json"]
    assert choose_companions("prompts", "check.json", contents, contents.__getitem__) == ["check.json"]
