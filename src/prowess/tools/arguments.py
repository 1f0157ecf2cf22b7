"""The arguments of a tool: their schema for the agent that calls, and the check of what it sends."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from prowess.errors import Invalid, Problem
from prowess.policy.plain import plain

MOST_PROBLEMS = 20
"""So many wrong arguments are told at once."""


def arguments_of(function: Any) -> type[BaseModel]:
    """The arguments of a tool, but for the desk that it works at."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]
    }
    config = ConfigDict(extra="forbid", strict=True)
    return create_model(function.__name__, __config__=config, **fields)


def schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema that an agent is shown."""
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for value in schema.get("properties", {}).values():
        value.pop("title", None)
    return schema


def checked(arguments: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values to call with; `Invalid` tells what is wrong with what was given, and what the tool takes."""
    try:
        model = arguments.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)[:MOST_PROBLEMS]
        problems = [_fault(fault["loc"], fault["msg"]) for fault in faults]
        told = "; ".join(problem.message for problem in problems)
        raise Invalid(
            f"{arguments.__name__} cannot be called like this: {told}.", hint=_takes(arguments), problems=problems
        ) from error
    values = {name: getattr(model, name) for name in type(model).model_fields}
    refuse_no_text(arguments.__name__, values)
    return values


def refuse_no_text(tool: str, values: Mapping[str, Any]) -> None:
    """`Invalid` for arguments in which something is no text, at whatever depth."""
    for name, value in values.items():
        if any(map(_is_no_text, _texts([name, value]))):
            raise Invalid(
                f"{tool} cannot be called like this: {plain(name, limit=80)} has a NUL or half of a surrogate pair, which is no text.",
                hint="Write the whole character, or leave it out.",
            )


def _takes(arguments: type[BaseModel]) -> str:
    return f"It takes {', '.join(arguments.model_fields) or 'no arguments'}."


def _fault(place: tuple[int | str, ...], said: str) -> Problem:
    """What is wrong with one argument; an unknown one can have any name, so that its name has an end."""
    field = ".".join(plain(str(part), limit=80) for part in place) or "arguments"
    return Problem(code="argument", severity="error", message=f"{field}: {plain(said, limit=200)}", field=field)


def _texts(value: object) -> Iterator[str]:
    """Every text in a value, the keys of mappings included, however deep it goes."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            mapping = cast("Mapping[object, object]", one)
            waiting += [*mapping.keys(), *mapping.values()]
        elif isinstance(one, (list, tuple)):
            waiting += cast("list[object]", one)


def _is_no_text(text: str) -> bool:
    return "\x00" in text or (not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text))
