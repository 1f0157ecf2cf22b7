"""From rows to models, without validating again what was validated before it was written."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pydantic_core
import sqlalchemy as sa

from prowess.skill.kinds import Value

Model = TypeVar("Model", bound=Value)

_set = object.__setattr__


def built(model: type[Model], values: dict[str, Any]) -> Model:
    """A model with exactly these values, one for every field; equal to the one that validation gives.

    This is pydantic's `model_construct` without the search for aliases and defaults, which took a third of the time
    of reading a skill.
    """
    made = model.__new__(model)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", set(values))
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


def defaults_of(model: type[Value], names: tuple[str, ...]) -> dict[str, Any]:
    """The default of each of these fields; None where a field has none."""
    fields = model.model_fields
    return {
        name: None if fields[name].is_required() else fields[name].get_default(call_default_factory=True)
        for name in names
    }


def filled(defaults: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """What was stored, and the default of everything else; lists that stand for tuples are tuples again."""
    values: dict[str, Any] = {}
    for name, default in defaults.items():
        value = stored.get(name, default)
        if type(default) is tuple:
            value = tuple(value)
        elif value is default and type(default) is dict:
            value = {}  # a mapping that nobody else holds
        values[name] = value
    return values


def raw(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """A JSON column as the driver gives it; SQLAlchemy's own decoding costs several times what `decoded` does."""
    return sa.type_coerce(column, sa.Text).label(column.name)


def decoded(value: Any) -> Any:
    """The value of a `raw` column: text from SQLite; psycopg has decoded it already. Never a bare JSON string."""
    return from_json(value) if isinstance(value, str) else value


def from_json(text: str | bytes) -> Any:
    """JSON, fast; what the fast reader refuses (half a surrogate pair, which JSON may hold) is read the slow way."""
    try:
        return pydantic_core.from_json(text)
    except ValueError:
        return json.loads(text)
