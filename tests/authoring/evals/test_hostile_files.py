"""Whatever an eval file contains, reading it gives cases and problems, and never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.authoring.evals.case import EvalSuite
from prowess.authoring.evals.exact import SCORERS, Compared, check_settings, compare
from prowess.authoring.evals.formats.suite import read_suite
from prowess.authoring.evals.splits import held_out_cases

NAMES = [
    "evals",
    "test_cases",
    "cases",
    "prompt",
    "input",
    "inputs",
    "expected_output",
    "expectations",
    "assertions",
    "files",
    "text",
    "type",
    "value",
    "values",
    "check",
    "checks",
    "weight",
    "threshold",
    "skill",
    "config",
    "graders",
    "metrics",
    "tasks",
    "name",
    "id",
    "expected",
    "output_contains",
    "outcomes",
    "behavior",
    "prompts",
    "tests",
    "vars",
    "assert",
    "defaultTest",
    "providers",
    "contains",
    "not",
    "mode",
    "field",
    "schema",
    "pattern",
    "rubric",
    "trials",
    "timeout_seconds",
    "split",
    "label",
    "artifact",
    "category",
    "options",
    "content",
    "path",
    "context",
    "enabled",
    "follow_up_prompts",
    "language",
    "evaluateOptions",
    "repeat",
    "description",
    "severity",
    "min",
    "max",
]
WORDS = [
    "contains",
    "equals",
    "not-contains",
    "llm-rubric",
    "assert-set",
    "is-json",
    "text",
    "code",
    "prompt",
    "json_schema",
]
WORDS += [
    "structural",
    "pattern",
    "f1",
    "number",
    "semantic",
    "rubric",
    "cost",
    "file://a.txt",
    "../x",
    "tasks/*.yaml",
    "{{a}}",
    "{%",
    "",
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = SCALARS | st.sampled_from(WORDS) | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=40,
)
PATHS = [
    "evals/evals.json",
    "evals/cases.json",
    "eval.yaml",
    "promptfooconfig.json",
    "skill_meta.json",
    "evals/other.json",
]


def check_suite(suite: EvalSuite) -> None:
    assert len({case.id for case in suite.cases}) == len(suite.cases)
    assert suite.is_usable or suite.problems
    assert all(problem.message and problem.code.startswith("eval-") for problem in suite.problems)
    for case in suite.cases:
        assert len(case.digest) == len(case.inputs_digest) == 64
        assert case.prompt or case.inputs is not None
        assert all(check.weight >= 0 for check in case.checks)
    held_out_cases(suite.cases)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PATHS), VALUES)
def test_any_json_is_read(path: str, value: Any) -> None:
    check_suite(read_suite({path: json.dumps(value).encode(), "a.txt": b"text"}))


@pytest.mark.few(3)
@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=60, deadline=None)
@given(entries=st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6) | VALUES, max_size=4), top=VALUES)
def test_any_entries_are_read(path: str, entries: list, top: Any) -> None:
    around = dict.fromkeys(("evals", "cases", "tests", "tasks", "graders"), entries) | {
        "config": top,
        "prompts": top,
    }
    chosen = {"eval.yaml": ("tasks", "graders", "config"), "promptfooconfig.json": ("tests", "prompts")}
    names = chosen.get(path, ("evals", "cases"))
    value = {name: around[name] for name in names}
    check_suite(read_suite({path: json.dumps(value).encode()}, file=path))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PATHS), st.binary(max_size=200))
def test_any_bytes_are_read(path: str, data: bytes) -> None:
    check_suite(read_suite({path: data}))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SCORERS)), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3), VALUES, VALUES)
def test_valid_settings_compare_any_output(kind: str, written: dict, expected: Any, data: Any) -> None:
    if check_settings(kind, written, expected):
        return
    for text in ("", json.dumps(data), "1,234 and 1e999"):
        found = compare(kind, written, Compared(text=text, data=data, expected=expected))
        assert 0 <= found.score <= 1
        assert found.explanation or found.score == 1


class CountedFiles(dict[str, bytes]):
    """Files, and how often each was read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.reads: list[str] = []

    def __getitem__(self, path: str) -> bytes:
        self.reads.append(path)
        return super().__getitem__(path)


def codes(config: dict[str, Any]) -> list[str]:
    suite = read_suite({"promptfooconfig.json": json.dumps(config).encode()})
    check_suite(suite)
    return [problem.code for problem in suite.problems]


def test_prompts_are_filled_in_only_as_often_as_there_may_be_cases() -> None:
    tests = [{"vars": {"a": list(range(100))}}] * 3
    # Without anything to check, no prompt becomes a case, so only the number of prompts can end this.
    assert "eval-too-many" in codes({"prompts": ["{{a}}"] * 10, "tests": tests})
    assert "eval-too-many" not in codes({"prompts": ["{{a}}"] * 5, "tests": tests})


def test_texts_with_their_variables_filled_in_have_a_limit_together() -> None:
    test = {"vars": {"a": "x" * 1_000_000}, "assert": [{"type": "contains", "value": "{{a}}"}]}
    assert "eval-too-many" in codes({"prompts": ["{{a}}" * 1_000], "tests": [test]})
    assert "eval-too-many" in codes({"prompts": ["short"], "tests": [{**test, "assert": test["assert"] * 50}]})


def test_a_file_that_many_cases_name_is_read_once() -> None:
    cases = [{"prompt": "Sum up.", "files": ["notes.md"], "checks": ["It is short."]}] * 100
    files = CountedFiles({"evals/cases.json": json.dumps(cases).encode(), "notes.md": b"Notes."})
    assert len(read_suite(files).cases) == 100
    assert files.reads.count("notes.md") == 1


def test_a_file_with_tests_that_is_named_often_is_read_once() -> None:
    config = {"prompts": ["Hello."], "tests": ["file://tests/*.json", "file://tests/a.json"] * 100}
    files = CountedFiles({"promptfooconfig.json": json.dumps(config).encode(), "tests/a.json": b"[]"})
    read_suite(files)
    assert files.reads.count("tests/a.json") == 1
