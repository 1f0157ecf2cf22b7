"""An answer that is to be JSON of a schema: how it is asked for, how it is read, what is said where it does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from prowess.errors import OutputInvalid, Problem
from prowess.llm.model import Reply
from prowess.run.beside import beside
from prowess.run.call import Call
from prowess.run.extraction import extract_json
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import Schema, SchemaError

MOST_TOLD = 20
"""How many faults a model is told of; mending these mostly mends the rest."""


_SHOWN = 3
"""How many faults an error tells in its own words."""
_FENCE = re.compile(r"\A```(?:json)?[^\S\n]*+\n(.*)\n```\Z", re.DOTALL | re.IGNORECASE)
"""It has one way to match, whatever stands in the text."""


def noted(call: Call, reply: Reply) -> str:
    """The text of the last answer, which is noted, and with it whether it was cut at the limit of its length."""
    call.notes.raw = reply.text
    call.notes.detail.pop("truncated", None)
    if not reply.complete:
        call.notes.detail["truncated"] = True
    return reply.text


async def read_answer(text: str, schema: Schema) -> tuple[Any, tuple[SchemaError, ...]]:
    """The JSON value in an answer and how it differs from the schema; where there are several values, one that fits."""
    return await beside(len(text), _read, text, schema)


def whole_object(text: str, *, longest: int) -> JsonObject:
    """The object that an answer is, and nothing besides, in a code fence at most; an empty one where it is none.

    One that is longer than it may be, or names a field twice, is none.
    """
    bare = text.removeprefix("\ufeff").strip()
    if len(bare) > longest:
        return {}
    inside = _FENCE.match(bare)
    try:
        answer: Any = json.loads(inside[1] if inside else bare, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", answer) if isinstance(answer, dict) else {}


def _each_once(fields: list[tuple[str, Any]]) -> JsonObject:
    made = dict(fields)
    if len(made) < len(fields):
        raise ValueError("a field is named twice")
    return made


def _read(text: str, schema: Schema) -> tuple[Any, tuple[SchemaError, ...]]:
    try:
        value = extract_json(text, prefer=schema.fits)
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


def unfit(call: Call, errors: Sequence[SchemaError], *, attempts: int = 1, hint: str) -> OutputInvalid:
    """The error of an artifact none of whose answers satisfies its schema; it has all faults of the last."""
    is_cut = "truncated" in call.notes.detail
    told = "; ".join(str(error) for error in errors[:_SHOWN])
    tries = "once" if attempts == 1 else f"{attempts} times"
    problems = [
        Problem(code="output-invalid", severity="error", message=error.message, field=error.path) for error in errors
    ]
    return OutputInvalid(
        f"{call.artifact.name!r} was asked {tries} and gave nothing that satisfies its output schema: {told.rstrip('.')}."
        + (" The answer was cut at the limit of its length." if is_cut else ""),
        hint="Raise max_tokens, or ask for less." if is_cut else hint,
        problems=problems,
    )
