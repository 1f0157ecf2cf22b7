"""JSON Schemas of skills: offline, in bounded time, with every fault told and no value quoted."""

from __future__ import annotations

import json
from contextlib import suppress

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.schema import MAX_ERRORS, MAX_SCHEMA_BYTES, compile_schema, fill_defaults, measure_depth

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "role": {"enum": ["cook", "pilot"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def told(schema, value):
    return [(error.path, error.message, error.rule) for error in compile_schema(schema).errors(value)]


def test_a_value_that_fits_has_no_errors():
    assert told(PERSON, {"name": "Ann", "tags": ["a"]}) == []


def test_every_fault_is_told_with_its_place_and_its_rule():
    assert sorted(told(PERSON, {"tags": ["a", 1], "role": "king", "x/y": 1})) == [
        ("", '"name" is a required property', "required"),
        ("", "Additional properties are not allowed ('x/y' was unexpected)", "additionalProperties"),
        ("/role", 'it is not one of "cook" or "pilot"', "enum"),
        ("/tags/1", 'it is not of type "string"', "type"),
    ]


def test_an_error_reads_as_one_line():
    [error] = compile_schema({"type": "integer"}).errors("x")

    assert str(error) == '/: it is not of type "integer"'
    assert error.as_json() == {"path": "", "message": 'it is not of type "integer"', "rule": "type"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "secret" * 1000),
        ({"maxLength": 3}, "secret" * 1000),
        ({"enum": [1]}, ["secret"] * 1000),
        ({"const": "a"}, "secret" * 1000),
        ({"pattern": "^a$"}, "secret" * 1000),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "secret" * 1000),
        ({"not": {}}, "secret" * 1000),
        (False, "secret" * 1000),
        ({"uniqueItems": True}, ["secret"] * 1000),
        ({"propertyNames": {"maxLength": 3}}, {"secret" * 1000: 1}),
        ({"additionalProperties": False, "properties": {"a": True}}, {"secret" * 1000: 1}),
        ({"additionalProperties": {"type": "null"}}, {"secret" * 1000: 1}),
        ({"type": "integer"}, "s\n\n" * 1000),
    ],
)
def test_no_message_and_no_place_holds_much_of_a_value(schema, value):
    [error] = compile_schema(schema).errors(value)

    assert len(error.message) <= 200
    assert len(error.path) <= 200
    assert (error.message + error.path).count("secret") <= 200 // len("secret") * 2


def test_errors_are_told_up_to_a_number():
    assert len(compile_schema({"items": {"type": "string"}}).errors([1] * 500)) == MAX_ERRORS


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "nonsense"}, "/type"),
        ({"properties": 3}, "/properties"),
        ([], "an object"),
        ("{}", "an object"),
        (None, "an object"),
        ({"default": object()}, "not valid JSON"),
        ({"minimum": float("nan")}, "not valid JSON"),
        ({"$ref": "https://example.com/schema.json"}, "points outside the schema"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "points outside the schema"),
        ({"$ref": "other.json#/a"}, "points outside the schema"),
        ({"$ref": "//example.com/x"}, "points outside the schema"),
        ({"allOf": [{"$id": "http://example.com/a", "$ref": "#/b"}]}, "only allowed at the top"),
        ({"$schema": "https://example.com/meta"}, "meta-schema"),
        ({"$ref": "https://json-schema.org/draft/2020-12/none"}, "is not valid"),
        ({"$ref": "#/$defs/none"}, "points to nothing"),
        ({"$ref": "#none"}, "points to nothing"),
        ({"allOf": [{"$ref": "#/allOf/" + "9" * 5000}]}, "is not valid"),
        ({"$ref": "#"}, "refers to itself"),
        ({"allOf": [{"not": {"$ref": "#/allOf/0"}}]}, "refers to itself"),
        ({"pattern": "(?<=a)b"}, "/pattern"),
        ({"pattern": r"(a)\1"}, "/pattern"),
        ({"patternProperties": {"(?=a)": {}}}, "patternProperties"),
        ({"pattern": "((a{100}){100}){100}"}, "/pattern"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "the limit is"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema, why):
    with pytest.raises(Invalid) as refused:
        compile_schema(schema)

    [problem] = refused.value.problems
    assert why in refused.value.message == problem.message
    assert problem.code.startswith("schema-")
    assert problem.hint


@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_a_schema_that_nests_too_deep_is_refused(depth):
    schema: dict = {}
    for _ in range(depth):
        schema = {"not": schema}

    with pytest.raises(Invalid):
        compile_schema(schema)
    while schema:
        schema = schema["not"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}},
        {"$ref": "#it", "$defs": {"x": {"$anchor": "it", "type": "string"}}},
        {"$dynamicRef": "#it", "$defs": {"x": {"$dynamicAnchor": "it", "type": "string"}}},
        {"$id": "https://example.com/me", "$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"x": {"type": "string"}},
            "$ref": "#/definitions/x",
        },
        {"allOf": [{"type": "string"}, {"$ref": "#/allOf/0"}]},
    ],
)
def test_references_inside_a_schema_are_followed(schema):
    assert told(schema, "x") == []
    assert told(schema, 1) != []


def test_a_schema_may_refer_to_the_schema_of_schemas():
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}

    assert told(schema, {"type": "string"}) == []
    assert told(schema, {"type": "nonsense"}) != []


def test_a_schema_may_refer_to_itself():
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "required": ["n"]}

    assert told(tree, {"n": 1, "left": {"n": 2}}) == []
    assert told(tree, {"n": 1, "left": {"n": 2, "right": {}}}) == [
        ("/left/right", '"n" is a required property', "required")
    ]


def doubling(keyword, steps, end):
    parts = {f"p{n}": {keyword: [{"$ref": f"#/$defs/p{n + 1}"}, {"$ref": f"#/$defs/p{n + 1}"}]} for n in range(steps)}
    return {"$defs": {**parts, f"p{steps}": end}, "$ref": "#/$defs/p0"}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
def test_a_schema_whose_references_double_at_each_step_is_refused(keyword):
    with pytest.raises(Invalid, match="branches"):
        compile_schema(doubling(keyword, 40, {"type": "string"}))


def test_where_every_fault_would_be_too_much_work_the_verdict_is_still_right():
    schema = compile_schema(doubling("anyOf", 14, {"type": "string"}))

    assert schema.errors("x") == ()
    assert [error.message for error in schema.errors([1])] == [
        "it does not match, and the schema has too many branches to say where"
    ]


def chain(length, step, end):
    parts = {f"{n}": step({"$ref": f"#/$defs/{n + 1}"}) for n in range(length)}
    return {"$defs": {**parts, f"{length}": end}, "$ref": "#/$defs/0"}


STEPS = {
    "ref": lambda part: part,
    "not": lambda part: {"not": part},
    "all": lambda part: {"allOf": [part]},
    "any": lambda part: {"anyOf": [part]},
    "one": lambda part: {"oneOf": [part]},
    "if": lambda part: {"if": part},
    "unevaluated": lambda part: {"allOf": [part], "unevaluatedItems": False},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("end", [{"type": "string"}, {"items": {"$ref": "#/$defs/0"}}], ids=["ends", "recurs"])
def test_a_schema_with_a_long_way_through_its_parts_is_refused(step, end):
    with pytest.raises(Invalid, match=r"steps|branches"):
        compile_schema(chain(1_000, step, end))


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("length", [2, 8, 40])
def test_the_deepest_value_is_no_trouble_for_the_longest_way_that_is_allowed(step, length):
    value: object = 1
    for _ in range(190):
        value = [value]

    with suppress(Invalid):
        compile_schema(chain(length, step, {"items": {"$ref": "#/$defs/0"}})).errors(value)
        compile_schema(chain(length, step, {"items": {"$ref": "#/$defs/0"}, "type": "array"})).errors(value)


@pytest.mark.parametrize("depth", [2, 40, 120])
def test_a_schema_that_refers_to_itself_twice_costs_no_more_at_each_level(depth):
    inner = {"type": "array", "items": {"$ref": "#"}}
    schema = compile_schema({"anyOf": [inner, {**inner, "minItems": 2}, {"type": "string"}]})
    good: object = "x"
    bad: object = 1
    for _ in range(depth):
        good, bad = [good], [bad]

    assert schema.errors(good) == ()
    assert schema.errors(bad) != ()


@pytest.mark.long
def test_many_faults_in_a_large_value_do_not_all_have_to_be_found():
    schema = compile_schema({"allOf": [{"items": {"type": "string"}}] * 20})

    assert len(schema.errors([1] * 100)) == MAX_ERRORS
    assert len(schema.errors([1] * 50_000)) == 1


def test_a_value_that_would_take_too_long_with_so_many_branches_does_not_fit():
    schema = compile_schema({"items": {"anyOf": [*[{"type": "string"}] * 100, {"type": "integer"}]}})

    assert schema.errors([99] * 50_000) == ()
    assert schema.fits([99] * 50_000)
    [error] = schema.errors([99] * 150_000)
    assert "too large" in error.message
    assert not schema.fits([99] * 150_000)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"const": 3}, [99] * 20_000),
        ({"uniqueItems": True}, [[1, 1]] * 10_000),
        ({"pattern": "^a+b"}, ["a" * 300_000]),
        ({"format": "email"}, ["a" * 300_000]),
        ({"patternProperties": {"^a+b": False}}, [{"a" * 300_000: 1}]),
    ],
    ids=["const", "unique", "pattern", "format", "names"],
)
def test_parts_that_take_longer_count_for_more(part, value):
    often = compile_schema({"items": {"anyOf": [*[part] * 100, {}]}})

    assert not often.fits(value)
    assert often.fits(value[:1] if len(value) > 1 else ["ab"])
    assert compile_schema({"items": {"anyOf": [part, {}]}}).fits(value)


def test_a_large_value_of_an_ordinary_form_is_told_its_faults():
    fields = {f"field{number}": {"type": "string", "maxLength": 40} for number in range(20)}
    schema = compile_schema(
        {"type": "array", "items": {"type": "object", "properties": fields, "required": ["field0"]}}
    )
    good = dict.fromkeys(fields, "a text")

    assert schema.errors([good] * 10_000) == ()
    assert [(error.path, error.rule) for error in schema.errors([*[good] * 1_000, {**good, "field7": 7}])] == [
        ("/1000/field7", "type")
    ]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\ud800"], ids=["nan", "set", "half a character"])
def test_what_is_no_json_does_not_fit(value):
    assert not compile_schema(True).fits(value)
    assert compile_schema(True).errors(value) != ()


def test_a_pattern_runs_in_linear_time():
    assert told({"pattern": "^(a+)+$"}, "a" * 50_000 + "!") != []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "not valid JSON"),
        (float("inf"), "not valid JSON"),
        ([{"a": object()}], "not valid JSON"),
        (["NaN", float("nan")], "not valid JSON"),
        ("\ud800", "not valid JSON"),
        ("x" * 8_400_000, "the limit is"),
    ],
)
def test_a_value_that_is_no_json_or_too_large_does_not_fit(value, why):
    [(path, message, rule)] = told(True, value)

    assert (path, rule) == ("", "json")
    assert why in message


@pytest.mark.parametrize("depth", [300, 50_000])
def test_a_value_that_nests_too_deep_does_not_fit(depth):
    value: list = []
    for _ in range(depth):
        value = [value]

    assert told(True, value) == [("", "it is nested too deeply", "json")]
    while value:
        value = value[0]


def test_words_and_numbers_that_only_look_odd_are_json():
    assert told(True, ["NaN", "Infinity", 10**400, -0.0, "\x00"]) == []


def test_the_same_content_is_compiled_once():
    assert compile_schema({"type": "string"}) is compile_schema({"type": "string"})


def test_a_schema_that_changes_later_leaves_the_compiled_one_as_it_was():
    schema = {"type": "string"}
    compiled = compile_schema(schema)
    schema["type"] = "integer"

    assert compiled.errors("x") == ()


def test_defaults_are_filled_in_where_a_property_is_missing_and_are_nobodys_own():
    schema = {"properties": {"a": {"default": []}, "b": {"default": None}, "c": {}, "d": True}}
    filled = fill_defaults(schema, {"b": 1})
    filled["a"].append(1)

    assert filled == {"a": [1], "b": 1}
    assert fill_defaults(schema, {}) == {"a": [], "b": None}
    assert fill_defaults(True, {"x": 1}) == fill_defaults({"properties": 3}, {"x": 1}) == {"x": 1}


def test_depth_is_counted_up_to_a_number():
    assert measure_depth(1, limit=5) == 0
    assert measure_depth({"a": [1]}, limit=5) == 2
    assert measure_depth([[[[1]]]], limit=2) == 3


@pytest.mark.parametrize(
    ("divisor", "numbers", "fits"),
    [
        (0.01, [19.5] * 1_000 + [1e22] * 50, True),
        (0.01, [1e308] * 200_000, False),
        (0.01, [1e308] * 20_000, False),
        (0.01, [10**300] * 20_000, False),
        (3, [-3e200] * 20_000, False),
        (1e-300, [1.0] * 100_000, False),
    ],
)
def test_numbers_of_many_digits_are_divided_only_where_they_are_few(divisor, numbers, fits):
    schema = compile_schema({"properties": {"prices": {"items": {"multipleOf": divisor}}}})
    errors = schema.errors({"prices": numbers})
    assert schema.fits({"prices": numbers}) is fits
    assert [error.rule for error in errors] == ([] if fits else ["json"])


def test_texts_with_digits_are_not_taken_for_numbers_that_are_divided():
    schema = compile_schema({"items": {"properties": {"n": {"multipleOf": 2}}}})
    assert schema.fits([{"n": 2, "hash": f"{number:040d}", "size": "1e30"} for number in range(20_000)])


LEAVES = st.sampled_from(
    [{}, True, False, {"type": "string"}, {"type": "integer"}, {"minimum": 2}, {"required": ["a"]}]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "$ref": st.just("#"),
        },
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.integers(0, 4) | st.sampled_from(["", "a"]) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(SCHEMAS.filter(lambda schema: "$ref" not in json.dumps(schema)), VALUES)
def test_the_verdict_is_that_of_the_reference_implementation(schema, value):
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)

    assert (compile_schema(schema).errors(value) == ()) == expected


@given(SCHEMAS, VALUES)
def test_schemas_that_refer_to_themselves_in_any_way_come_to_an_end(schema, value):
    with suppress(Invalid):
        compile_schema(schema).errors(value)
