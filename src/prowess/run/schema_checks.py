"""Check the inputs of a run, and its output, against the schemas that the skill declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from prowess.errors import Invalid, OutputInvalid, Problem
from prowess.run.allowance import PREVIOUS
from prowess.run.call import Call
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import SchemaError, compile_schema, fill_defaults
from prowess.suggestions import did_you_mean, near_names

_QUOTED = 6
_OPEN = ("patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "unevaluatedProperties")
"""Keywords of a schema that may allow or declare inputs that `properties` does not have."""


def check_inputs(
    inputs: Mapping[str, Any], *schemas: JsonObject | None, is_used: Callable[[str], bool] | None = None
) -> JsonObject:
    """Return the inputs with the defaults of every schema; raise `Invalid` with every violation.

    Unknown and missing names come first. `additionalProperties: false` does not reject inputs that another schema
    declares, nor outputs of earlier artifacts, which are among the inputs of later ones. With `is_used`, a name that no
    schema declares is unknown unless it returns True for it, or a schema says that it allows other inputs.
    """
    declared = [schema for schema in schemas if schema]
    values = dict(inputs)
    if not declared:
        return values
    errors: list[SchemaError] = []
    refused: set[str] = set()
    for schema in declared:
        # Defaults of one schema may be inputs that the next one requires.
        values = fill_defaults(schema, values)
        others = [name for other in declared if other is not schema for name in declared_inputs(other)]
        judged = _judged_inputs(schema, values, others)
        errors += compile_schema(schema).errors(judged)
        if schema.get("additionalProperties") is False:
            refused |= judged.keys()
    names = list(dict.fromkeys(name for schema in declared for name in declared_inputs(schema)))
    missing = [name for name in _required(declared) if name not in values]
    unknown = _unknown(inputs, names, refused, missing)
    if (
        is_used is not None
        and names
        and PREVIOUS not in inputs
        and not any(_allows_others(schema) for schema in declared)
    ):
        unknown = [name for name in inputs if name in unknown or not (name in names or is_used(name))]
    if not errors and not unknown:
        return values
    problems = [
        *(_problem(f"{name[:80]!r} is unknown", name) for name in unknown),
        *(_problem(f"{name[:80]!r} is missing", name) for name in missing),
        # The names are reported already, by the names themselves.
        *(
            _problem(f"{error.path or 'inputs'}: {error.message}", error.path)
            for error in errors
            if not _is_name(error)
        ),
    ]
    problems = list(dict.fromkeys(problems))  # two schemas may report the same violation
    messages = "; ".join(problem.message for problem in problems[:_QUOTED])
    more = f"; and {len(problems) - _QUOTED} more" if len(problems) > _QUOTED else ""
    suggestions = [did_you_mean(name, set(names) - inputs.keys(), count=1) for name in unknown]
    takes = ", ".join(f"{name} (required)" if name in _required(declared) else name for name in names)
    hint = f"The skill takes: {takes}." if names else "Run `prowess show SLUG` to see the inputs of a skill."
    raise Invalid(
        f"Invalid inputs: {messages}{more}.", hint=" ".join([*filter(None, suggestions), hint]), problems=problems
    )


def _required(schemas: Sequence[JsonObject]) -> list[str]:
    """Return the names of the required inputs."""
    found = [schema.get("required") for schema in schemas]
    lists = [cast("list[Any]", names) for names in found if isinstance(names, list)]
    return list(dict.fromkeys(str(name) for names in lists for name in names))


def _unknown(
    inputs: Mapping[str, Any], names: Sequence[str], refused: Collection[str], missing: Sequence[str]
) -> list[str]:
    """Return the given names that no schema declares, if a schema refuses them or they are probably typing errors.

    A schema that does not refuse other inputs accepts them, as JSON Schema has it. But a name next to a missing one, or
    much like one that was not given, was meant to be that one.
    """
    # Only later artifacts have `previous`; their other inputs may be fields of earlier outputs, under any name.
    if not names or PREVIOUS in inputs:
        return []
    free = [name for name in names if name not in inputs]
    others = [name for name in inputs if name not in names]
    return [name for name in others if name in refused or missing or near_names(name, free)]


def _allows_others(schema: JsonObject) -> bool:
    """Return True if a schema says what inputs of other names may be."""
    others = schema.get("additionalProperties")
    return others is True or isinstance(others, dict) or not schema.keys().isdisjoint(_OPEN)


def _is_name(error: SchemaError) -> bool:
    return not error.path and error.rule in ("required", "additionalProperties")


def _problem(message: str, field: str) -> Problem:
    return Problem(code="input-invalid", severity="error", message=message, field=field)


def declared_inputs(schema: JsonObject) -> tuple[str, ...]:
    """Return the names of the inputs that a schema declares."""
    return tuple(json_object(schema.get("properties")))


def _judged_inputs(schema: JsonObject, values: JsonObject, others: Collection[str]) -> JsonObject:
    """Return the inputs that the schema may judge."""
    if schema.get("additionalProperties") is not False:
        return values
    # Only later artifacts have `previous`; their other inputs may be fields of earlier outputs, under any name.
    own, later = declared_inputs(schema), PREVIOUS in values
    return {name: value for name, value in values.items() if name in own or not (later or name in others)}


_SHOWN = 3


def check_output(call: Call, result: Any) -> None:
    """Raise `OutputInvalid` with every violation if the result does not satisfy the skill's output schema."""
    schema = call.skill.output_schema
    errors = compile_schema(schema).errors(result) if schema else ()
    if errors:
        problems = [
            Problem(code="output-invalid", severity="error", message=str(error), field=error.path) for error in errors
        ]
        messages = "; ".join(problem.message for problem in problems[:_SHOWN])
        raise OutputInvalid(
            f"The result does not match the output schema of {call.skill.slug!r}: {messages}.",
            hint=f"Fix {call.artifact.name!r} or the output schema.",
            problems=problems,
        )
