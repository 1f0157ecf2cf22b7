"""Arguments of a command from templates: a value fills an argument or a part of one, and can never become two, nor an option."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prowess.errors import Invalid
from prowess.skill.declared_command import Template
from prowess.skill.slots import Pieces, Slot, pieces_of, slots_in

_OTHER = re.compile(r"\{\{|\{%")
_HINT = "A command knows {{ name }} only; whatever else is to be computed is computed before it."


def arguments(templates: Sequence[Template], values: Mapping[str, Any]) -> list[str]:
    """The arguments. A value that would begin an option is refused, unless an argument `--` stands before it."""
    filled: list[str] = []
    only_values = False
    for template in templates:
        if not isinstance(template, str) and any(slot.value(values) is None for slot in slots_in(list(template))):
            continue
        for one in (template,) if isinstance(template, str) else template:
            filled.append(_argument(one, values, only_values=only_values))
            only_values = only_values or one == "--"
    return filled


def filled_text(template: str, values: Mapping[str, Any]) -> str:
    """A text with the values in place; `Invalid` names an input that has none."""
    pieces = _pieces(template)
    return "".join(piece if isinstance(piece, str) else _written(values, piece) for piece in pieces)


def _pieces(template: str) -> Pieces:
    try:
        pieces = pieces_of(template)
    except Invalid:
        pieces = (template,)
    if any(isinstance(piece, str) and _OTHER.search(piece) for piece in pieces):
        raise Invalid(f"{template[:80]!r} is not a template of a command.", hint=_HINT)
    return pieces


def _argument(template: str, values: Mapping[str, Any], *, only_values: bool) -> str:
    text = filled_text(template, values)
    if text.startswith("-") and isinstance(_pieces(template)[0], Slot) and not only_values:
        raise Invalid(
            f"The value for {template[:80]!r} begins with '-', so that the program would take it for an option.",
            hint="Write the option with it, such as --name={{ name }}, or put the argument -- before it.",
        )
    return text


def _written(values: Mapping[str, Any], slot: Slot) -> str:
    value = slot.value(values)
    if value is None:
        raise Invalid(
            f"The command needs the input {'.'.join(slot.path)[:80]!r}.",
            hint="Give it, or give it a default in the schema.",
        )
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
