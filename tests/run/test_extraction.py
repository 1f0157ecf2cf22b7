"""JSON is found in whatever a model writes around it, and nothing it writes costs more than its length."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import OutputInvalid
from prowess.run.answers import MAX_TEXT_CHARS, extract_json

PLAIN = st.text(alphabet=st.characters(exclude_characters="[]{}`~", exclude_categories=["Cs"]), max_size=60)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
CONTAINERS = st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=8), VALUES, max_size=4)
INDENTS = st.sampled_from([None, 2])


@given(VALUES, INDENTS)
def test_a_text_that_is_json_is_that_value(value, indent):
    assert extract_json(f"\ufeff \n{json.dumps(value, indent=indent)}\n") == value


@given(VALUES, INDENTS, PLAIN, PLAIN, st.sampled_from(["```", "```json", "~~~", "````JSON", "``` json5"]))
def test_any_json_in_a_fence_is_found_whatever_stands_around_it(value, indent, before, after, fence):
    mark = fence.rstrip("jsonJSON5 ")
    text = f"{before}\n{fence}\n{json.dumps(value, indent=indent)}\n{mark}\n{after}"

    assert extract_json(text) == value


@given(CONTAINERS, INDENTS, PLAIN, PLAIN)
def test_any_object_or_list_in_prose_is_found(value, indent, before, after):
    assert extract_json(f"Here: {before} {json.dumps(value, indent=indent, ensure_ascii=False)} {after}") == value


@given(CONTAINERS, PLAIN)
def test_commas_before_a_closing_bracket_do_no_harm(value, before):
    text = _with_commas(value)

    assert extract_json(text) == value
    assert extract_json(f"Well: {before} {text} Done.") == value


def _with_commas(value):
    if isinstance(value, list):
        inside = ",".join(_with_commas(one) for one in value)
        return f"[{inside} , ]" if value else "[]"
    if isinstance(value, dict):
        inside = ",".join(f"{json.dumps(key)}:{_with_commas(one)}" for key, one in value.items())
        return f"{{{inside},\n}}" if value else "{}"
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}}', {"a": 1}),
        ('{"a": 1}.', {"a": 1}),
        ('```json\n{"a": 1}', {"a": 1}),
        ('```json {"a": 1} ```', {"a": 1}),
        ('Use {name}, then {"a": "x, ]"}', {"a": "x, ]"}),
        ('As [1] and [2] say: {"a": 1}', {"a": 1}),
        ("As [1] says.", [1]),
        ('first {"a": 1} then {"b": 2}', {"a": 1}),
        ('{"x": 1}\n```json\n{"a": 1}\n```', {"a": 1}),
        ('[see {"a": [1, 2,],}]', {"a": [1, 2]}),
        ('{"a": "```"}', {"a": "```"}),
        ("42", 42),
        ("null", None),
        ('{"a": ",]", "b": "\\",}",}', {"a": ",]", "b": '",}'}),
    ],
)
def test_what_models_write_around_json_is_left_aside(text, value):
    assert extract_json(text) == value


def test_a_value_that_is_preferred_comes_before_those_that_stand_before_it():
    text = 'The form is {"type": "object"}, so: {"a": 1}'

    assert extract_json(text, prefer=lambda value: "a" in value) == {"a": 1}
    assert extract_json(text, prefer=lambda value: "b" in value) == {"type": "object"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("I cannot do that.", "it contains no JSON"),
        ('{"a": [1, 2', "it ends before the JSON is complete"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": NaN}', "not finite"),
        ('{"a": 1e999}', "not finite"),
        ("[" * 200 + "]" * 200, "nested more than"),
        ("[" * 100_000 + "]" * 100_000, "too deeply"),
        ("[" + "9" * 5000 + "]", "too long"),
        ("x" * (MAX_TEXT_CHARS + 1), "more than the limit"),
        ("__import__('os').system('true')", "it contains no JSON"),
    ],
)
def test_an_answer_without_json_is_refused_with_the_reason(text, why):
    with pytest.raises(OutputInvalid, match="cannot be read as JSON") as refused:
        extract_json(text)

    assert why in refused.value.message


@pytest.mark.few(20)
@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "{",
        '["',
        '{"',
        '"',
        '\\"',
        '"\\',
        "[1,",
        '{"a":',
        '{"a":[',
        "[1,] ",
        "[1,x] ",
        "~",
        "```\n",
        "~~~",
        "~~~\n",
        "[[[]",
        "-",
        '[{"a":1},',
        " ,]",
        "[9",
    ],
)
@pytest.mark.parametrize("ending", ["", '"', "]", "x"])
def test_hostile_text_is_parsed_a_few_times_over_at_most(piece, ending):
    text = (piece * (100_000 // len(piece))) + ending

    assert parsed_by(text) <= 6 * len(text)


def parsed_by(text: str) -> int:
    """How many characters Python's parser goes through in all, as its own calls tell."""
    total = 0

    def watch(frame, event, given):
        nonlocal total
        if frame.f_code is json.JSONDecoder.raw_decode.__code__:
            end = len(frame.f_locals["s"])
            if event == "call":
                total += end - frame.f_locals["idx"]
            elif event == "return" and given is not None:
                total -= end - given[1]
        elif event == "call" and frame.f_code is json.JSONDecodeError.__init__.__code__:
            has_stopped = not frame.f_locals["msg"].startswith(("Unterminated", "Extra data"))
            total -= has_stopped * (len(frame.f_locals["doc"]) - frame.f_locals["pos"])

    sys.setprofile(watch)
    try:
        with suppress(OutputInvalid):
            extract_json(text)
    finally:
        sys.setprofile(None)
    return total


def test_a_short_text_with_many_brackets_is_looked_through_to_its_end():
    code = "\n".join(f"table[n{number}] = [none, {{x}}, f(x[true{number}])]" for number in range(100))

    assert extract_json(f"{code}\nSo: {{'a': 1}} or {{\"a\": [1]}}", prefer=lambda one: one == {"a": [1]}) == {"a": [1]}


def test_a_string_that_is_never_closed_is_not_read_from_every_bracket():
    with pytest.raises(OutputInvalid):
        extract_json("x " + "[" * 900 + '"' + "a" * 1_500_000)
