"""Check the inputs of a run, and its output, against the schemas that the skill declares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from prowess.errors import Invalid, OutputInvalid, Problem
from prowess.run.call import Call
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import compile_schema, fill_defaults

_QUOTED = 3


def check_inputs(inputs: Mapping[str, Any], *schemas: JsonObject | None) -> JsonObject:
    """Return the inputs with the defaults of every schema; raise `Invalid` with every violation.

    `additionalProperties: false` does not reject inputs that another schema declares, nor outputs of earlier artifacts, which
    are among the inputs of later ones.
    """
    given = [schema for schema in schemas if schema]
    values = dict(inputs)
    problems: list[Problem] = []
    for schema in given:
        # Defaults of one schema may be inputs that the next one requires.
        values = fill_defaults(schema, values)
        others = [name for other in given if other is not schema for name in declared_inputs(other)]
        problems += _problems(schema, _judged_inputs(schema, values, others))
    problems = list(dict.fromkeys(problems))  # two schemas may report the same violation
    if problems:
        names = dict.fromkeys(name for schema in given for name in declared_inputs(schema))
        told = "; ".join(problem.message for problem in problems[:_QUOTED])
        raise Invalid(
            f"The inputs are not what is asked for: {told}.",
            hint=f"It takes {', '.join(names)}." if names else "Give the inputs that the skill declares.",
            problems=problems,
        )
    return values


def declared_inputs(schema: JsonObject) -> tuple[str, ...]:
    """Return the names of the inputs that a schema declares."""
    properties = schema.get("properties")
    return tuple(cast("JsonObject", properties)) if isinstance(properties, dict) else ()


def _judged_inputs(schema: JsonObject, values: JsonObject, others: Collection[str]) -> JsonObject:
    """Return the inputs that the schema may judge."""
    if schema.get("additionalProperties") is not False:
        return values
    # Only later artifacts have `previous`; their other inputs may be fields of earlier outputs, under any name.
    own, later = declared_inputs(schema), "previous" in values
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


_SHOWN = 3


def check_output(call: Call, result: Any) -> None:
    """Raise `OutputInvalid` with every violation if the result does not satisfy the skill's output schema."""
    schema = call.skill.output_schema
    errors = compile_schema(schema).errors(result) if schema else ()
    if errors:
        problems = [
            Problem(code="output-invalid", severity="error", message=str(error), field=error.path) for error in errors
        ]
        told = "; ".join(problem.message for problem in problems[:_SHOWN])
        raise OutputInvalid(
            f"The result is not what {call.skill.slug!r} promises: {told}.",
            hint=f"Correct {call.artifact.name!r}, or the output schema.",
            problems=problems,
        )
