"""Assertions on outputs: all are evaluated, all are reported, in the order in which they are written."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prowess.run.assertions.assertion import CheckedOutput
from prowess.run.assertions.evaluation import AssertionRunner
from prowess.run.call import Output
from prowess.skill.kinds import Description


@pytest.fixture
def verdicts(model_client, call_of):
    """What the assertions say about an output."""
    runner = AssertionRunner(model_client)

    def check(assertions, output, **settings):
        given = output if isinstance(output, Output) else Output(kind="description", text=output)
        artifact = Description(name="about", assertions=tuple(assertions))
        return asyncio.run(runner.check(call_of(artifact, **settings), given))

    return check


@pytest.fixture
def verdict(verdicts):
    """What one assertion says about an output."""

    def check(assertion, output):
        [one] = verdicts([assertion], output)
        return one

    return check


@pytest.mark.parametrize("piece", ['{"', '[{"b": 1,}, '])
def test_a_long_output_is_looked_at_while_others_go_on(model_client, call_of, turns_during, piece):
    fields = {"type": "structural", "check": "required_fields", "fields": ["a"], "severity": "soft"}
    call = call_of(Description(name="about", assertions=(fields, SCHEMA) * 25))
    output = Output(kind="description", text=piece * (1_000_000 // len(piece)))

    said, turns = turns_during(lambda: AssertionRunner(model_client).check(call, output))

    assert [verdict.passed for verdict in said] == [False] * 50
    assert turns > 0


def test_what_an_output_says_is_found_once_for_all_assertions(turns_during):
    async def asked():
        subject = CheckedOutput(Output(kind="description", text='So: {"a": [1]}'))
        return [await subject.data(), *await asyncio.gather(subject.data(), subject.data())]

    first, *others = turns_during(asked)[0]

    assert first == {"a": [1]}
    assert all(other is first for other in others)


def data(value) -> Output:
    return Output(kind="json_generation", data=value)


SCHEMA = {
    "type": "structural",
    "check": "json_schema",
    "schema": {
        "type": "object",
        "required": ["contradictions"],
        "properties": {"contradictions": {"type": "array", "items": {"type": "string"}}},
    },
}


@pytest.mark.parametrize(
    "output",
    [
        data({"contradictions": []}),
        '{"contradictions": ["the age of Älva"]}',
        'Here they are:\n```json\n{"contradictions": []}\n```\nThat is all.',
    ],
)
def test_a_json_schema_is_satisfied_by_data_and_by_json_in_a_text(verdict, output):
    said = verdict(SCHEMA, output)

    assert (said.type, said.passed, said.severity, said.explanation) == ("structural", True, "hard", "")
    assert said.description == "The output matches the JSON Schema."


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (data({}), "contradictions"),
        (data({"contradictions": [3]}), "/contradictions/0"),
        ("There are none.", "JSON"),
        ("", "JSON"),
        (data([]), "object"),
    ],
)
def test_a_json_schema_that_is_not_satisfied_says_where(verdict, output, words):
    said = verdict(SCHEMA, output)

    assert not said.passed
    assert words in said.explanation


def test_of_many_faults_the_first_few_are_told_and_the_rest_counted(verdict):
    said = verdict(SCHEMA, data({"contradictions": list(range(9))}))

    assert said.explanation.endswith("(and 4 more)")
    assert len(said.explanation) <= 500


FIELDS = {"type": "structural", "check": "required_fields", "fields": ["title", "report.summary"]}


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        ({"title": "", "report": {"summary": None}}, ""),
        ({"title": "", "report.summary": 1}, ""),
        ({"title": "", "report": {}}, "Missing fields: report.summary."),
        ({"report": "summary"}, "Missing fields: title, report.summary."),
        (["title"], "It is not a JSON object."),
    ],
)
def test_required_fields_are_there_by_name_or_by_path(verdict, value, missing):
    assert verdict(FIELDS, data(value)).explanation == missing
    assert verdict(FIELDS, json.dumps(value)).explanation == missing


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ("json", ["3", ' {"a": 1}\n', data([1])], ['Sure: {"a": 1}', "", "NaN", "1e999", "[" * 3_000]),
        ("json_object", ["{}", data({})], ["[]", "{", data([])]),
        ("json_array", ["[]", data([1])], ["{}", "1", data("x")]),
        ("line", ["one line", "one line\n"], ["two\nlines", "", " \n "]),
        ("not_empty", ["x", data(0)], ["", " \n\t"]),
    ],
)
def test_a_format_holds_the_whole_output(verdict, wanted, good, bad):
    assertion = {"type": "structural", "check": "format", "format": wanted}

    assert [verdict(assertion, output).explanation for output in good] == [""] * len(good)
    assert all(verdict(assertion, output).explanation for output in bad)


@pytest.mark.parametrize(
    ("limits", "length", "explanation"),
    [
        ({"min": 3, "max": 5}, 3, ""),
        ({"min": 3, "max": 5}, 5, ""),
        ({"min": 3, "max": 5}, 2, "It has 2 characters; expected 3 to 5 characters."),
        ({"min": 3, "max": 5}, 6, "It has 6 characters; expected 3 to 5 characters."),
        ({"min": 2}, 1, "It has 1 character; expected at least 2 characters."),
        ({"max": 0}, 1, "It has 1 character; expected at most 0 characters."),
        ({"max": 0}, 0, ""),
    ],
)
def test_a_length_in_characters_includes_its_ends(verdict, limits, length, explanation):
    said = verdict({"type": "length", "check": "char_range", **limits}, "ä" * length)

    assert (said.passed, said.explanation) == (not explanation, explanation)


def test_a_length_in_tokens_is_estimated(verdict):
    assertion = {"type": "length", "check": "token_range", "max": 10}

    assert verdict(assertion, "x" * 40).passed
    assert verdict(assertion, "x" * 41).explanation == "It has 11 tokens; expected at most 10 tokens."


def test_the_length_of_data_is_that_of_its_json(verdict):
    assert verdict({"type": "length", "check": "char_range", "max": 8}, data({"a": 1})).passed


FENCES = {"type": "pattern", "check": "no_match", "pattern": "```"}


def test_a_pattern_must_fit_somewhere_or_nowhere(verdict):
    heading = {"type": "pattern", "check": "match", "pattern": "(?im)^# summary$"}

    assert verdict(heading, "Hello.\n# Summary\n").passed
    assert verdict(heading, "Summary").explanation == "Nothing in it matches `(?im)^# summary$`."
    assert verdict(FENCES, "no code").passed
    assert verdict(FENCES, "```py\n```").explanation == "````` matches '```'."


def test_patterns_are_told_by_case_and_work_on_any_text(verdict):
    assert not verdict({"type": "pattern", "check": "match", "pattern": "älva"}, "ÄLVA").passed
    assert verdict({"type": "pattern", "check": "match", "pattern": "(?i)älva"}, "ÄLVA \ud800").passed
    assert verdict({"type": "pattern", "check": "no_match", "pattern": "x"}, "").passed


def test_a_pattern_that_would_take_ages_elsewhere_is_answered(verdict):
    assert not verdict({"type": "pattern", "check": "match", "pattern": "^(a+)+$"}, "a" * 1_000_000 + "!").passed


@pytest.mark.parametrize("check", ["match", "no_match"])
def test_a_pattern_that_is_too_much_for_so_long_an_output_has_not_passed(verdict, check):
    said = verdict({"type": "pattern", "check": check, "pattern": "(.{0,300}a){2}q"}, "ab" * 100_000)

    assert said.explanation == "The output has 200,000 characters, which is too long to search with `(.{0,300}a){2}q`."


def test_all_assertions_are_reported_in_order_whatever_the_first_say(verdicts):
    said = verdicts(
        [
            {"type": "length", "check": "char_range", "min": 99, "severity": "soft", "description": "It is long."},
            {"type": "rhyme", "description": "It rhymes."},
            {"type": "pattern", "check": "no_match", "pattern": "x"},
            {},
        ],
        "short",
    )

    assert [(one.type, one.description, one.severity, one.passed) for one in said] == [
        ("length", "It is long.", "soft", False),
        ("rhyme", "It rhymes.", "hard", False),
        ("pattern", "The output does not match `x`.", "hard", True),
        ("unknown", "Unreadable assertion.", "hard", False),
    ]


def test_what_metadata_asserts_in_no_readable_form_fails_too(model_client, call_of):
    call = call_of(Description(name="about", assertions=(FENCES,), metadata={"assertions": "be brief"}))

    said = asyncio.run(AssertionRunner(model_client).check(call, Output(kind="description", text="")))

    assert [(one.type, one.passed, one.severity) for one in said] == [
        ("pattern", True, "hard"),
        ("unknown", False, "hard"),
    ]


def test_an_assertion_that_cannot_be_read_fails_hard_even_where_it_says_soft(verdicts):
    [said] = verdicts([{"type": "pattern", "check": "match", "pattern": r"(a)\1", "severity": "soft"}], "aa")

    assert (said.passed, said.severity) == (False, "hard")
    assert "not valid RE2" in said.explanation


def test_an_artifact_without_assertions_has_no_verdicts(verdicts):
    assert verdicts([], "anything") == ()


def test_the_assertions_of_the_variant_that_ran_are_evaluated(model_client, call_of):
    call = call_of(Description(name="about", assertions=(FENCES,)))
    call.notes.artifact = Description(name="about", variant="meta", assertions=(FENCES, FENCES))

    said = asyncio.run(AssertionRunner(model_client).check(call, Output(kind="description", text="")))

    assert len(said) == 2


WRITTEN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TYPED = st.fixed_dictionaries(
    {"type": st.sampled_from(["structural", "length", "pattern"])},
    optional={
        "check": st.sampled_from(["json_schema", "required_fields", "format", "char_range", "match", "no_match"]),
        "schema": WRITTEN,
        "fields": st.lists(st.text(max_size=5), max_size=3),
        "format": st.sampled_from(["json", "line", "not_empty", "poem"]),
        "min": st.integers(-1, 9),
        "max": st.integers(-1, 9),
        "pattern": st.text(max_size=8),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    assertions=st.lists(TYPED, max_size=4),
    output=st.builds(Output, kind=st.just("review"), text=st.text(max_size=20), data=WRITTEN),
)
def test_every_assertion_gives_one_verdict_and_a_failed_one_says_why(verdicts, assertions, output):
    said = verdicts(assertions, output)

    assert len(said) == len(assertions)
    assert all(one.passed != bool(one.explanation) and one.description for one in said)
