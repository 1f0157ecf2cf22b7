"""The queries that a skill ships, in all the forms that people write them in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.skill.evals import MAX_CASES, MAX_EVAL_BYTES, find_eval_paths, read_trigger_set


def read(name: str, value: object, *, named: bool = False):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_trigger_set({name: data}, named=named)


def pairs(found) -> list[tuple[str, bool]]:
    return [(case.query, case.should_trigger) for case in found.cases]


def test_a_trigger_set_is_a_list_of_queries():
    found = read(
        "evals/triggers.json", [{"query": "a", "should_trigger": True}, {"query": "b", "should_trigger": False}]
    )
    assert pairs(found) == [("a", True), ("b", False)]
    assert found.problems == ()


@pytest.mark.parametrize("key", ["queries", "evals", "cases"])
def test_a_trigger_set_may_be_wrapped_with_the_skill_it_is_about(key):
    found = read("evals/x.json", {"skill_name": "greet", key: [{"query": "hi", "should_trigger": False}]})
    assert found.skill == "greet"
    assert pairs(found) == [("hi", False)]


def test_every_prompt_of_evals_json_should_trigger():
    evals = [{"id": 1, "prompt": "do it", "expected_output": "done", "files": []}, {"id": 2, "prompt": "again"}]
    found = read("evals/evals.json", {"skill_name": "doer", "evals": evals})
    assert found.skill == "doer"
    assert pairs(found) == [("do it", True), ("again", True)]


def test_waza_trigger_tests_are_read():
    text = (
        "skill: explainer\nshould_trigger_prompts:\n  - prompt: Explain this\n    reason: direct\n    confidence: high\n"
        "should_not_trigger_prompts:\n  - prompt: Write this\n    confidence: medium\n"
    )
    found = read("trigger_tests.yaml", text.encode())
    assert found.skill == "explainer"
    assert pairs(found) == [("Explain this", True), ("Write this", False)]


def test_waza_prompts_may_be_plain_text_under_keys_in_camel_case():
    text = "skill: x\nshouldTriggerPrompts:\n  - one\nshouldNotTriggerPrompts:\n  - two\n"
    assert pairs(read("evals/trigger_tests.yml", text.encode())) == [("one", True), ("two", False)]


@pytest.mark.parametrize(("said", "meant"), [("true", True), ("No", False), (0, False), (1, True)])
def test_what_is_expected_may_be_written_loosely(said, meant):
    assert pairs(read("evals/a.json", [{"query": "q", "should_trigger": said}])) == [("q", meant)]


def test_an_entry_that_cannot_be_used_is_named_and_the_others_are_kept():
    entries = [
        {"query": "a", "should_trigger": True},
        {"query": 3},
        "text",
        None,
        {"query": "b", "should_trigger": "maybe"},
    ]
    found = read("evals/triggers.json", entries)
    assert pairs(found) == [("a", True)]
    assert [problem.code for problem in found.problems] == ["eval-case"] * 4
    assert all(problem.field == "evals/triggers.json" and problem.hint for problem in found.problems)


def test_a_query_counts_once_and_never_both_ways():
    entries = [("a", True), ("a", True), ("b", True), ("b", False)]
    found = read("evals/t.json", [{"query": query, "should_trigger": said} for query, said in entries])
    assert pairs(found) == [("a", True)]
    assert [problem.code for problem in found.problems] == ["eval-contradiction"]


def test_files_of_other_tools_are_passed_by():
    for value in ({"runs": []}, [1, 2], "text", [{"input": "x", "expected": {"contains": ["y"]}}]):
        found = read("evals/benchmark.json", value)
        assert found.cases == found.problems == ()
    assert [problem.code for problem in read("evals/benchmark.json", {}, named=True).problems] == ["eval-shape"]
    assert [problem.code for problem in read("evals/evals.json", {}).problems] == ["eval-shape"]


@pytest.mark.parametrize(
    "data",
    [b"{", b"\xff\xfe", b"[" * 100_000, b"", b"x" * (MAX_EVAL_BYTES + 1), b'[{"query": "\\ud800"'],
    ids=["broken", "not-utf8", "deep", "empty", "large", "cut"],
)
def test_a_file_that_cannot_be_read_is_a_problem_and_no_error(data):
    assert [problem.code for problem in read("evals/triggers.json", data).problems] == ["eval-unreadable"]


def test_yaml_that_is_refused_names_the_line():
    [problem] = read("evals/trigger_tests.yaml", b"skill: x\na: &b [1]\nc: *b\n").problems
    assert problem.code == "eval-unreadable"
    assert "line 2" in problem.message


def test_more_queries_than_are_run_are_counted():
    found = read("evals/t.json", [{"query": f"q{n}", "should_trigger": True} for n in range(MAX_CASES + 5)])
    assert len(found.cases) == MAX_CASES
    assert [problem.code for problem in found.problems] == ["eval-too-many"]


def test_only_files_that_may_hold_queries_are_looked_at():
    paths = [
        "SKILL.md", "evals/triggers.json", "evals/files/data.json", "evals/mine.yaml", "trigger_tests.yaml",
        "references/list.json", "tests/trigger-tests.yml", "package.json", "evals/notes.md",
    ]  # fmt: skip
    wanted = ["evals/mine.yaml", "evals/triggers.json", "tests/trigger-tests.yml", "trigger_tests.yaml"]
    assert find_eval_paths(paths) == wanted


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["query", "prompt", "should_trigger", "evals", "queries", "skill"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(value=_JSON)
def test_no_value_can_raise(value):
    found = read_trigger_set({"evals/a.json": json.dumps(value).encode()}, named=True)
    assert all(isinstance(case.query, str) and case.query.strip() for case in found.cases)
    assert found.cases or found.problems


@given(data=st.binary(max_size=200), name=st.sampled_from(["evals/a.json", "evals/a.yaml"]))
def test_no_bytes_can_raise(data, name):
    read_trigger_set({name: data})


def test_cases_that_run_an_artifact_are_not_queries():
    cases = [{"id": "a", "inputs": {"n": 1}}, {"id": "b", "prompt": "Sum these numbers."}]
    read = read_trigger_set({"evals/cases.json": json.dumps({"cases": cases}).encode()})
    assert [case.query for case in read.cases] == ["Sum these numbers."]
    assert read.problems == ()
