"""An answer that is to be JSON of a schema: how it is asked for, how it is read, what is said where it does not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from prowess.errors import OutputInvalid, Problem
from prowess.run.extraction import extract_json
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import Schema, SchemaError

MOST_TOLD = 20
"""How many faults a model is told of; mending these mostly mends the rest."""


def with_schema(text: str, schema: JsonObject) -> str:
    """What is asked, for a model that cannot be held to a schema."""
    written = json.dumps(schema, ensure_ascii=False)
    return f"{text}\n\nAnswer with JSON alone, which satisfies this JSON Schema:\n{written}"


def read_answer(text: str, schema: Schema) -> tuple[Any, tuple[SchemaError, ...]]:
    """The JSON value in an answer and how it differs from the schema; where there are several values, one that fits."""
    try:
        value = extract_json(text, prefer=lambda one: not schema.errors(one))
    except OutputInvalid as fault:
        return None, (SchemaError(path="", message=fault.message, rule="json"),)
    errors = schema.errors(value)
    return (None if errors else value), errors


def told_again(errors: Sequence[SchemaError]) -> str:
    """What a model is told of an answer that does not fit."""
    faults = "\n".join(f"- {error.path or 'the answer'}: {error.message}" for error in errors[:MOST_TOLD])
    return (
        f"That answer does not satisfy the schema:\n{faults}\n\n"
        "Answer once more, with the whole JSON and nothing else, and with these faults mended."
    )


def problems_of(errors: Sequence[SchemaError]) -> list[Problem]:
    """The faults as problems of an error."""
    return [
        Problem(code="output-invalid", severity="error", message=error.message, field=error.path) for error in errors
    ]
