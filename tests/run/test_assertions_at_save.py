"""Assertions as authors write them: what is wrong with one is told when the skill is validated, with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.assertion_specs import (
    ASSERTION_CHECKS,
    MAX_ASSERTIONS,
    OUTPUT_FORMATS,
    check_assertions,
    read_assertion,
)
from prowess.skill.forms import read_package
from prowess.skill.package import File, Package
from prowess.skill.validate import accept, validate

PRINTED = [
    {
        "type": "structural",
        "check": "json_schema",
        "schema": {
            "type": "object",
            "required": ["contradictions"],
            "properties": {"contradictions": {"type": "array"}},
        },
    },
    {"type": "length", "check": "char_range", "min": 100, "max": 5000},
    {
        "type": "semantic",
        "check": "llm_eval",
        "prompt": "Does this output reference specific page names from the workspace? Answer yes or no.",
        "expected": "yes",
    },
]

GOOD = [
    {"type": "structural", "check": "json_schema", "schema": {"type": "object"}},
    {"type": "structural", "check": "required_fields", "fields": ["title", "report.summary"]},
    *({"type": "structural", "check": "format", "format": name} for name in OUTPUT_FORMATS),
    {"type": "length", "check": "char_range", "min": 0},
    {"type": "length", "check": "token_range", "max": 10},
    {"type": "pattern", "check": "match", "pattern": "(?i)^summary"},
    {"type": "pattern", "check": "no_match", "pattern": "```"},
    {"type": "semantic", "check": "llm_eval", "prompt": "Is it polite?"},
    {"type": "semantic", "check": "llm_eval", "prompt": "Is it rude?", "expected": False},
    {"type": "length", "check": "char_range", "max": 9, "severity": "soft", "description": "It is short."},
]

BAD = {
    "assertion-unknown": [
        {},
        {"type": "python", "check": "run"},
        {"type": "length"},
        {"type": "length", "check": "llm_eval", "max": 3},
        {"type": ["length"], "check": "char_range"},
        {"type": "length", "check": {"a": 1}},
    ],
    "assertion-invalid": [
        "length",
        None,
        {"type": "structural", "check": "required_fields"},
        {"type": "structural", "check": "required_fields", "fields": []},
        {"type": "structural", "check": "required_fields", "fields": ["a", 3]},
        {"type": "structural", "check": "format", "format": "poem"},
        {"type": "structural", "check": "format", "format": ["json"]},
        {"type": "length", "check": "char_range"},
        {"type": "length", "check": "char_range", "min": -1},
        {"type": "length", "check": "char_range", "max": True},
        {"type": "length", "check": "token_range", "max": "9"},
        {"type": "pattern", "check": "match"},
        {"type": "pattern", "check": "match", "pattern": ""},
        {"type": "semantic", "check": "llm_eval"},
        {"type": "semantic", "check": "llm_eval", "prompt": "  "},
        {"type": "semantic", "check": "llm_eval", "prompt": "Is it?", "expected": 3},
        {"type": "semantic", "check": "llm_eval", "prompt": "Is it?", "expected": " "},
        {"type": "length", "check": "char_range", "max": 9, "severity": "severe"},
        {"type": "length", "check": "char_range", "max": 9, "description": 3},
    ],
    "assertion-range": [{"type": "length", "check": "char_range", "min": 10, "max": 9}],
    "assertion-pattern": [
        {"type": "pattern", "check": "match", "pattern": "("},
        {"type": "pattern", "check": "match", "pattern": r"(a)\1"},
        {"type": "pattern", "check": "no_match", "pattern": "(?<=a)b"},
        {"type": "pattern", "check": "no_match", "pattern": "a" * 1001},
        {"type": "pattern", "check": "no_match", "pattern": r"(\pL{100}){9}"},
        {"type": "pattern", "check": "no_match", "pattern": "\ud800"},
    ],
    "assertion-schema": [
        {"type": "structural", "check": "json_schema"},
        {"type": "structural", "check": "json_schema", "schema": []},
        {"type": "structural", "check": "json_schema", "schema": {"type": "thing"}},
        {"type": "structural", "check": "json_schema", "schema": {"$ref": "https://example.com/schema.json"}},
        {"type": "structural", "check": "json_schema", "schema": {"pattern": "(?=a)"}},
    ],
}


def package(assertions) -> Package:
    document = {
        "name": "Consistency Checker",
        "slug": "consistency-checker",
        "description": "Finds contradictions between pages.",
        "artifacts": [
            {
                "kind": "prompt_template",
                "name": "Check Prompt",
                "content": "Check {{ entity }}.",
                "model_variant": "anthropic",
                "metadata": {"assertions": assertions},
            }
        ],
    }
    return Package(name="consistency-checker", files=(File(path="skill.json", content=json.dumps(document).encode()),))


def told(assertions) -> list[tuple[str, str]]:
    report = validate(package(assertions))
    found = [(one.code, one.field) for one in report.problems if one.code.startswith("assertion")]
    return sorted(found, key=lambda one: one[1])


def test_the_assertions_that_inklings_prints_are_accepted():
    assert check_assertions(PRINTED) == []
    assert told(PRINTED) == []


@pytest.mark.parametrize("written", GOOD, ids=json.dumps)
def test_every_type_and_check_is_accepted_as_documented(written):
    assert check_assertions([written]) == []
    assert read_assertion(written).severity == written.get("severity", "hard")


@pytest.mark.parametrize(("code", "written"), [(code, one) for code, many in BAD.items() for one in many], ids=repr)
def test_what_cannot_be_evaluated_is_an_error_with_a_hint(code, written):
    [problem] = check_assertions([written])

    assert (problem.code, problem.severity, problem.field) == (code, "error", "assertions[0]")
    assert problem.hint
    with pytest.raises(Invalid) as raised:
        read_assertion(written)
    assert [one.code for one in raised.value.problems] == [code]


def test_a_pattern_that_is_not_valid_re2_says_why():
    [problem] = check_assertions([{"type": "pattern", "check": "match", "pattern": "(?<!a)b"}])

    assert "not valid RE2" in problem.message
    assert "back-references" in problem.hint


def test_every_problem_is_told_with_the_place_of_its_assertion():
    written = [PRINTED[0], {"type": "rhyme"}, {"type": "length", "check": "char_range", "severity": "so-so"}]

    assert told(written) == [
        ("assertion-unknown", "Check Prompt@anthropic.assertions[1]"),
        ("assertion-invalid", "Check Prompt@anthropic.assertions[2]"),
        ("assertion-invalid", "Check Prompt@anthropic.assertions[2]"),
    ]


@pytest.mark.parametrize(("written", "place"), [("must be short", 0), ([PRINTED[0], "must be short"], 1), (3, 0)])
def test_assertions_in_no_readable_form_are_reported_rather_than_lost(written, place):
    assert told(written) == [("assertion-invalid", f"Check Prompt@anthropic.assertions[{place}]")]


def test_more_assertions_than_are_evaluated_are_refused():
    many = [PRINTED[1]] * (MAX_ASSERTIONS + 1)

    assert told(many) == [("assertions-many", "Check Prompt@anthropic.assertions")]


def test_a_skill_with_a_refused_assertion_is_not_kept():
    with pytest.raises(Invalid, match="not valid RE2"):
        accept(package([BAD["assertion-pattern"][1]]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(
    sorted({*ASSERTION_CHECKS, *(check for checks in ASSERTION_CHECKS.values() for check in checks)})
)
KEYS = ("type", "check", "schema", "fields", "format", "min", "max", "pattern", "prompt", "expected", "severity")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, WORDS | JSON)) | JSON)
def test_whatever_is_written_is_either_read_or_refused(written):
    problems = check_assertions([written])
    if problems:
        with pytest.raises(Invalid):
            read_assertion(written)
    else:
        assert read_assertion(written).settings == written


def test_reading_a_skill_keeps_its_assertions_word_for_word():
    [artifact] = read_package(package(PRINTED)).skill.artifacts

    assert list(artifact.assertions) == PRINTED
