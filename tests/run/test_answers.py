"""Answers that are to be JSON: read without keeping others waiting, and told apart from what only looks like one."""

from __future__ import annotations

import pytest

from prowess.run.answers import output_error, parse_whole_object, read_answer
from prowess.skill.kinds import Description
from prowess.skill.schema import SchemaError, compile_schema

CITY = compile_schema({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}})


async def _read(text: str):
    return await read_answer(text, CITY)


@pytest.mark.parametrize("piece", ['{"', '{"a":"', "[1,]", "[t"])
def test_a_long_answer_is_read_while_others_go_on(turns_during, piece):
    (value, errors), turns = turns_during(lambda: _read(piece * (2_000_000 // len(piece))))

    assert (value, len(errors)) == (None, 1)
    assert turns > 0


def test_a_value_that_fits_is_found_among_others(turns_during):
    text = '{"type": "object"} and [1] and {"city": 3}, or rather {"city": "Rome"}'

    assert turns_during(lambda: _read(text))[0] == ({"city": "Rome"}, ())


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', '\ufeff {"a": 1}\n', '```json\n{"a": 1}\n```', '```\n{"a": 1}\n```', '```JSON \r\n{"a": 1}\n```'],
)
def test_an_object_alone_or_in_a_fence_is_a_whole_answer(text):
    assert parse_whole_object(text, longest=100) == {"a": 1}


@pytest.mark.parametrize(
    "text", ["", "yes", "[]", "3", '{"a": 1} indeed', 'So: {"a": 1}', "[" * 10_000, '{"a": "' + "x" * 100 + '"}']
)
def test_anything_else_is_none(text):
    assert parse_whole_object(text, longest=100) == {}


def test_an_object_that_names_a_field_twice_is_none():
    assert parse_whole_object('{"a": 1, "a": 2}', longest=100) == {}
    assert parse_whole_object('{"a": {"b": 1, "b": 1}}', longest=100) == {}


@pytest.mark.parametrize("longest", [100, 10_000_000])
@pytest.mark.parametrize("blank", ["\n", " \n", "\r\n", " "])
def test_a_fence_that_never_ends_is_read_once(longest, blank):
    assert parse_whole_object("```" + blank * 1_000_000 + "x", longest=longest) == {}


def test_the_error_says_how_often_was_asked_and_has_every_fault(call_of):
    call = call_of(Description(name="greet"))
    errors = [SchemaError(path=f"/{number}", message="it is no text", rule="type") for number in range(5)]

    error = output_error(call, errors, attempts=2, hint="Say what is wanted.")

    assert error.message.startswith("The answer does not match the output schema of 'greet' after 2 attempts: /0: it")
    assert "/3" not in error.message
    assert [problem.field for problem in error.problems] == ["/0", "/1", "/2", "/3", "/4"]
    assert "attempt" not in output_error(call, errors, hint="").message
