"""What is written of a trace can be stored, is bounded, and has no secrets; all else comes back as it was."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prowess.redaction import Redactor
from prowess.storage.traces import TraceFilter, add_many, finish_many, get_row, to_values
from prowess.traces.trace_row import (
    MAX_JSON_CHARS,
    MAX_JSON_DEPTH,
    MAX_TEXT_CHARS,
    to_row,
    to_values_if_clean,
)

from .finishing import finish

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def test_a_plain_trace_comes_back_as_it_was(begun):
    trace = begun(
        inputs={"a": [1, {"b": "ü"}]}, rendered_input="x\n\ty", raw_output="", created_at="2026-03-01T00:00:00Z"
    )
    assert to_row(trace, Redactor(["nowhere-at-all"])) == trace


@pytest.mark.parametrize("name", ["error", "rendered_input", "raw_output"])
def test_a_long_text_is_cut_and_says_how_long_it_was(begun, name):
    row = to_row(begun(**{name: "word " * 200_000}), Redactor())
    assert getattr(row, name).endswith("\n[cut: 1000000 characters in all]")
    assert len(getattr(row, name)) <= MAX_TEXT_CHARS + 60


@pytest.mark.parametrize("place", [MAX_TEXT_CHARS - 9, MAX_TEXT_CHARS, 2 * MAX_TEXT_CHARS - 9, 2 * MAX_TEXT_CHARS])
def test_a_secret_at_the_place_of_the_cut_is_not_kept_in_part(begun, place):
    secret = "canary-0815-value"
    for more in ("tail", "tail" * 200_000):
        row = to_row(begun(raw_output="." * (place - 9) + secret + more), Redactor([secret]))
        assert "canary" not in row.raw_output


@pytest.mark.parametrize("name", ["model_id", "error", "rendered_input", "raw_output"])
def test_a_secret_in_any_text_that_others_chose_is_not_kept(begun, name):
    secret = "canary-0815-value"
    redactor = Redactor([secret])
    trace = begun(status="ok", **{name: f"local:Bearer {secret}"})
    assert getattr(to_row(trace, redactor), name) == "local:Bearer [redacted]"
    assert to_values_if_clean([begun(), trace], redactor) is None


def test_secrets_that_make_a_text_shorter_do_not_move_half_of_one_into_what_is_kept(begun):
    secret = "canary" + "0815/" * 2_000
    text = (secret + " ") * 200
    row = to_row(begun(raw_output=text), Redactor([secret]))
    assert "canary" not in row.raw_output
    assert "0815/0815" not in row.raw_output


def test_inputs_that_are_too_large_are_cut(begun):
    row = to_row(begun(inputs={"many": ["text " * 100] * 100_000, "long": "x" * 3_000_000}), Redactor())
    assert len(json.dumps(row.inputs)) < 3 * MAX_JSON_CHARS
    assert "more]" in row.inputs["many"][-1]


def test_inputs_that_are_nested_too_deeply_or_in_themselves_are_cut(begun):
    deep: dict = {}
    deep["again"] = deep
    row = to_row(begun(inputs=deep, detail={"a": "canary-0815-value"}), Redactor(["canary-0815-value"]))
    assert json.dumps(row.inputs).count("again") == MAX_JSON_DEPTH
    assert row.detail == {"a": "[redacted]"}


def test_a_number_of_any_size_can_be_stored(recorder, begun, kept):
    assert finish(recorder, begun(status="ok", detail={"large": 10**30, "huge": 10**5000})).result(30)
    assert [found.detail for found in kept()] == [{"large": 10**30, "huge": "[a number of 16610 bits]"}]


def test_a_number_too_long_to_be_read_again_is_replaced_wherever_it_stands(begun):
    for before in range(0, 1_000, 50):
        row = to_row(begun(detail={"text": "x" * before, "digits": 10**399}), Redactor())
        assert row.detail["digits"] == "[a number of 1326 bits]"


def test_numbers_that_are_not_finite_become_words(recorder, begun, kept):
    assert finish(recorder, begun(status="ok", detail={"a": math.nan, "b": [math.inf]})).result(30)
    assert [found.detail for found in kept()] == [{"a": "NaN", "b": ["Infinity"]}]


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "x\udfffy", "\ud83d\ude00"])
def test_characters_that_no_database_holds_are_replaced(recorder, begun, kept, text):
    trace = begun(
        status="ok", artifact_name=text, rendered_input=text, error=text, inputs={text: [text]}, detail={"a": text}
    )
    assert finish(recorder, trace).result(30) is True
    [found] = kept()
    assert "\0" not in repr(found)
    assert found.id == trace.id


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(inputs=st.dictionaries(st.text(max_size=8), ANYTHING, max_size=5), raw=st.text(), label=st.text(max_size=20))
def test_whatever_a_run_was_given_and_gave_can_be_stored(database, begun, inputs, raw, label):
    trace = begun(
        inputs=inputs, raw_output=raw, error=raw, artifact_name=label, verdicts=[{"explanation": raw}], detail=inputs
    )
    row = to_row(trace, Redactor(["canary-0815-value"]))
    other = replace(row, id=str(uuid.uuid4()))
    with database.write() as connection:
        add_many(connection, [to_values(row)])
        finish_many(connection, [to_values(other)])
        everything = TraceFilter(organization_id="acme", user_id=None)
        added, upserted = (get_row(connection, everything, one.id) for one in (row, other))
    assert added == replace(upserted, id=row.id)


@given(inputs=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), ANYTHING, max_size=4))
def test_a_known_secret_stays_in_no_value(inputs):
    from prowess.traces.trace_row import cap_json

    secret = "canary-0815-value"
    stored = cap_json({"a": secret, "more": inputs, secret: f"x{secret}y"}, Redactor([secret]))
    assert secret not in json.dumps(stored)


def test_a_trace_with_what_it_said_of_itself_keeps_its_creation(begun):
    trace = replace(begun(), created_at="")
    assert to_row(trace, Redactor()).created_at.endswith("Z")


def test_many_traces_as_large_as_they_may_be_are_written_together(recorder, begun, kept):
    text = "0123456789abcde " * (MAX_TEXT_CHARS // 16)
    with recorder._writer.lock:
        futures = [finish(recorder, begun(status="ok", rendered_input=text, raw_output=text)) for _ in range(40)]
    assert all(future.result(60) for future in futures)
    assert [len(found.raw_output or "") for found in kept()] == [MAX_TEXT_CHARS] * 40
