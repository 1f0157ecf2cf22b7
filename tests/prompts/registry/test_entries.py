"""One prompt or rubric from a file: every rule has a problem of its own, and no content is an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.prompts.prompt import Rubric
from prowess.prompts.shelf import read_entry
from prowess.skill.limits import Limits

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("prompt_id", "rubric_id", "version", "template", "syntax", "vars_schema", "output_schema", "description"),
        *("scoring_mode", "pass_threshold", "criteria"),
    ]
)


def codes(entry, severity="error"):
    return {problem.code for problem in entry.problems if problem.severity == severity}


def read(kind, document, name="x.json"):
    return read_entry(kind, name, json.dumps(document).encode())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("outline@1.2.0.mustache", ("outline", "1.2.0", "mustache")),
        ("outline@1.2.0-rc.1.j2", ("outline", "1.2.0-rc.1", "jinja")),
        ("outline.mustache", ("outline", "", "mustache")),
        ("a.b@2.0.0.jinja", ("a.b", "2.0.0", "jinja")),
    ],
)
def test_a_template_that_stands_alone_has_its_id_and_version_in_its_name(name, expected):
    prompt = read_entry("prompt", name, b"Write about {{ topic }}.").value
    assert (prompt.id, prompt.version, prompt.syntax) == expected
    assert prompt.template == "Write about {{ topic }}."


def test_a_document_says_more_than_its_file_name():
    assert read("prompt", {"prompt_id": "a", "version": "2.0.0", "template": "x"}, "b@1.0.0.json").label == "a@2.0.0"
    assert read("prompt", {"template": "x"}, "b@1.0.0.json").label == "b@1.0.0"


def test_yaml_is_read_too_and_its_versions_keep_their_zeros():
    entry = read_entry("prompt", "a.yaml", b"prompt_id: a\nversion: 1.10\ntemplate: Hello\n")
    assert entry.value.version == "1.10"
    assert codes(entry, "warning") == {"registry-version"}


def test_a_version_that_is_a_number_in_json_is_told():
    entry = read_entry("prompt", "a.json", b'{"version": 1.10, "template": "Hello"}')
    assert entry.value.version == "1.1"
    assert "Put the version in quotes." in [problem.hint for problem in entry.problems]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ([], "prompt-invalid"),
        ({"prompt_id": "a"}, "prompt-invalid"),
        ({"template": ["x"]}, "prompt-invalid"),
        ({"template": "x", "syntax": "erb"}, "prompt-invalid"),
        ({"template": "x", "vars_schema": {"type": "nothing"}}, "registry-schema"),
        ({"template": "x", "vars_schema": ["topic"]}, "registry-schema"),
        ({"template": "x", "output_schema": {"$ref": "https://example.org/schema.json"}}, "registry-schema"),
        ({"template": "x", "output_schema": True}, "registry-schema"),
        ({"template": "{% if %}", "syntax": "jinja"}, "template-syntax"),
        ({"template": "x", "prompt_id": "a/b"}, "registry-id"),
        ({"template": "x", "prompt_id": "a@b"}, "registry-id"),
        ({"template": "x", "version": "1.0.0\n2.0.0"}, "registry-version"),
    ],
)
def test_a_prompt_that_breaks_a_rule_cannot_be_used_and_says_why(document, code):
    entry = read("prompt", document)
    assert entry.value is None
    assert code in codes(entry)


def test_a_prompt_that_uses_a_name_its_schema_does_not_have_is_told():
    schema = {"type": "object", "properties": {"topic": {}}}
    entry = read(
        "prompt", {"prompt_id": "a", "version": "1.0.0", "template": "{{topic}} {{titel}}", "vars_schema": schema}
    )
    assert entry.value is not None
    assert [problem.code for problem in entry.problems] == ["template-undeclared"]
    assert "'titel'" in entry.problems[0].message


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"criteria": []}, "rubric-without-criteria"),
        ({"criteria": "all"}, "rubric-without-criteria"),
        ({"scoring_mode": "vibes"}, "rubric-scoring-mode"),
        ({"output_schema": {"type": 3}}, "registry-schema"),
        ({"scoring_mode": "weighted", "pass_threshold": 0}, "rubric-threshold-range"),
        ({"scoring_mode": "weighted", "pass_threshold": "most"}, "rubric-threshold-range"),
    ],
)
def test_a_rubric_that_breaks_a_rule_cannot_be_used_and_says_why(rubric_document, fields, code):
    entry = read("rubric", rubric_document(**fields))
    assert entry.value is None
    assert code in codes(entry)


@pytest.mark.parametrize("weight", [0, -1, "2", True, None, 1e400])
def test_a_weight_is_a_positive_number(rubric_document, weight):
    criterion = {**rubric_document()["criteria"][0], "weight": weight}
    entry = read_entry("rubric", "x.yaml", json.dumps(rubric_document(criteria=[criterion])).encode())
    assert entry.value is None
    assert "rubric-weight-not-positive" in codes(entry) or "yaml-unreadable" in codes(entry)


def test_numbers_of_a_rubric_are_numbers_however_yaml_writes_them():
    text = (
        "rubric_id: style\nversion: 1.10\nscoring_mode: weighted\npass_threshold: 0.80\ncriteria:\n"
        "  - {id: a, name: A, description: d, pass_condition: p, fail_condition: f, weight: 2.50}\n"
    )
    value = read_entry("rubric", "x.yaml", text.encode()).value
    assert isinstance(value, Rubric)
    assert (value.version, value.pass_threshold, value.criteria[0].weight) == ("1.10", 0.8, 2.5)


def test_more_criteria_than_a_rubric_may_have_are_refused(rubric_document):
    criterion = rubric_document()["criteria"][0]
    entry = read("rubric", rubric_document(criteria=[{**criterion, "id": str(number)} for number in range(1_001)]))
    assert entry.value is None
    assert codes(entry) == {"rubric-invalid"}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"template": NaN}', b"a: &a [*a, *a]"])
@pytest.mark.parametrize("name", ["x.json", "x.yaml", "x.mustache", "x.j2"])
@pytest.mark.parametrize("kind", ["prompt", "rubric"])
def test_hostile_bytes_are_an_entry_with_problems(kind, name, data):
    entry = read_entry(kind, name, data)
    assert entry.id == "x"
    assert (entry.value is None) == bool(codes(entry))


def test_a_file_over_the_limit_is_not_read():
    entry = read_entry("prompt", "x.mustache", b"x" * 101, limits=Limits(file_bytes=100))
    assert codes(entry) == {"file-too-large"}


@given(st.sampled_from(["prompt", "rubric"]), st.dictionaries(FIELDS, JSON, max_size=8))
def test_any_document_is_an_entry_whose_value_is_there_exactly_where_no_problem_is_an_error(kind, document):
    entry = read(kind, document)
    assert (entry.value is None) == bool(codes(entry))
    json.dumps(entry.value.as_json() if entry.value else None)


@given(st.sampled_from(["x.json", "x.yaml", "x.mustache", "x@1.0.0.j2"]), st.binary(max_size=200))
def test_any_bytes_are_an_entry(name, data):
    entry = read_entry("prompt", name, data)
    assert (entry.value is None) == bool(codes(entry))
