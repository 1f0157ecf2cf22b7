"""The inputs of a run, held to what its skill and its template declare."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from prowess.errors import Invalid, Problem
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import compile_schema, with_defaults

_TOLD = 3


def checked_inputs(inputs: Mapping[str, Any], *schemas: JsonObject | None) -> JsonObject:
    """The inputs with the defaults of every schema filled in; `Invalid` names each that breaks one.

    A schema that allows nothing but what it declares does not speak against inputs that another one declares, nor against
    what earlier artifacts of the same run gave, which is among the inputs of a later one.
    """
    given = [schema for schema in schemas if schema]
    values = dict(inputs)
    problems: list[Problem] = []
    for schema in given:
        values = with_defaults(schema, values)
        others = [name for other in given if other is not schema for name in declared(other)]
        problems += _problems(schema, _concerned(schema, values, others))
    problems = list(dict.fromkeys(problems))  # two schemas may ask for the same
    if problems:
        names = dict.fromkeys(name for schema in given for name in declared(schema))
        told = "; ".join(problem.message for problem in problems[:_TOLD])
        raise Invalid(
            f"The inputs are not what is asked for: {told}.",
            hint=f"It takes {', '.join(names)}." if names else "Give the inputs that the skill declares.",
            problems=problems,
        )
    return values


def declared(schema: JsonObject) -> tuple[str, ...]:
    """The names of the inputs that a schema declares."""
    properties = schema.get("properties")
    return tuple(cast("JsonObject", properties)) if isinstance(properties, dict) else ()


def _concerned(schema: JsonObject, values: JsonObject, others: Collection[str]) -> JsonObject:
    """The inputs that the schema speaks about."""
    if schema.get("additionalProperties") is not False:
        return values
    own, later = declared(schema), "previous" in values
    return {name: value for name, value in values.items() if name in own or not (later or name in others)}


def _problems(schema: JsonObject, values: JsonObject) -> list[Problem]:
    return [
        Problem(
            code="input-invalid",
            severity="error",
            message=f"{error.path or 'inputs'}: {error.message}",
            field=error.path,
        )
        for error in compile_schema(schema).errors(values)
    ]
