"""Making models from values that are already what the fields ask for, without paying for validation again.

Reading SKILL.md files is the hot path: a catalog reads thousands at once. A model made here equals the validated one.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from prowess.skill.kinds import Instructions
from prowess.skill.model import Skill

Model = TypeVar("Model", bound=BaseModel)

_set = object.__setattr__


def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    """All fields in their order, with the defaults that are one value for all; the others are given each time."""
    return {name: None if field.is_required() else field.default for name, field in model.model_fields.items()}


_SKILL = _defaults(Skill)
_INSTRUCTIONS = _defaults(Instructions)


def trusted_skill(values: dict[str, Any]) -> Skill:
    """The skill with these values, every one of which has the exact type of its field."""
    return _made(Skill, {**_SKILL, "metadata": {}, "policy": {}, "extra": {}, **values}, set(values))


def trusted_instructions(path: str, content: str) -> Instructions:
    """The artifact that the body of a document is."""
    values = {"name": "instructions", "path": path, "content": content}
    return _made(Instructions, {**_INSTRUCTIONS, "metadata": {}, **values}, set(values))


def _made(model: type[Model], values: dict[str, Any], given: set[str]) -> Model:
    made = model.__new__(model)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", given)
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made
