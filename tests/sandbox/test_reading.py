"""What comes out of the sandbox is read as if an enemy had written it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.sandbox.messages import MAX_VALUES, parse_json, parse_outcome
from prowess.sandbox.script import script_from_template

SCRIPT = script_from_template("pass", {})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "result", "done", "line", "type"]) | st.text(), inner, max_size=3)
    ),
)


@given(st.sampled_from(["done", "fuel", "nonsense", "raised"]), JSON)
def test_whatever_a_guest_says_is_read_or_refused(word, said):
    payload = json.dumps({"word": word}).encode() + b"\n" + json.dumps(said).encode()
    try:
        ran = parse_outcome(payload, SCRIPT, 0)
    except ValueError:
        return
    json.dumps(ran.result, allow_nan=False, ensure_ascii=False).encode()
    assert ran.ended == "done" or not ran.submitted


@given(st.binary())
def test_nonsense_is_refused(payload):
    with pytest.raises(ValueError):
        parse_outcome(payload, SCRIPT, 0)


@pytest.mark.parametrize(
    "text", ["NaN", "[-Infinity]", "[-1e999]", "[" * 100 + "]" * 100, "[" * 50_000, "9" * 5_000, "{", ""]
)
def test_what_cannot_be_kept_is_refused(text):
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize(
    "value",
    [
        "a, b" * 200_000,
        ['",' * 200_000],
        ["\\" * 99, "," * 200_000, '\\"'],
        [{"a": 1, "b": [2, ","]}] * 20_000,
        list(range(MAX_VALUES)),
    ],
)
def test_long_texts_and_many_values_are_read(value):
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    "make",  # not made while tests are collected
    [
        lambda: list(range(MAX_VALUES + 1)),
        lambda: [[1, 2]] * MAX_VALUES,
        lambda: {str(number): "," for number in range(MAX_VALUES + 1)},
        lambda: ["\\"] * (MAX_VALUES + 1),
    ],
)
def test_too_many_values_are_refused_before_they_are_read(make):
    with pytest.raises(ValueError, match="values"):
        parse_json(json.dumps(make()))
