"""Texts with places for values: `{{ name }}`, `{{ name.part.0 }}`, and `{{ env.NAME }}` for what is given in confidence.

A text is taken apart once; whoever fills it decides for each place how a value is written there, so that no value can become
more than a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from prowess.errors import Invalid

_SLOT = re.compile(r"\{\{[ \t]*([A-Za-z_]\w*(?:\.\w+)*)[ \t]*\}\}", re.ASCII)
_OTHER = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_ENV = "env"
_HINT = "Only {{ name }} is known here; whatever else is to be computed is computed before."


@dataclass(frozen=True, slots=True)
class Slot:
    """One place for a value, by its path."""

    path: tuple[str, ...]

    @property
    def secret(self) -> str:
        """The name of the environment that it stands for; '' where it stands for an input."""
        return ".".join(self.path[1:]) if self.path[0] == _ENV and len(self.path) > 1 else ""

    def __str__(self) -> str:
        return f"{{{{ {'.'.join(self.path)} }}}}"

    def value(self, values: Mapping[str, Any]) -> Any:
        """What the inputs have at its path; None where there is nothing."""
        found: Any = values
        for part in self.path:
            if isinstance(found, Mapping):
                found = cast("Mapping[str, Any]", found).get(part)
            elif isinstance(found, list) and part.isdecimal() and len(part) < 10:
                items = cast("list[Any]", found)
                found = items[int(part)] if int(part) < len(items) else None
            else:
                return None
        return found


Pieces = tuple[str | Slot, ...]


def pieces_of(text: str) -> Pieces:
    """The text and its slots in order, without empty texts; `Invalid` where it asks for more than values."""
    pieces: list[str | Slot] = []
    for at, piece in enumerate(_SLOT.split(text)):
        if at % 2:
            pieces.append(Slot(tuple(piece.split("."))))
            continue
        other = _OTHER.search(piece)
        if other is not None:
            raise Invalid(f"{other[0][:80]!r} is no place for a value.", hint=_HINT)
        if piece:
            pieces.append(piece)
    return tuple(pieces)


def tight(text: str) -> str:
    """The text with its slots written without white space, so that each stays in one word."""
    return _SLOT.sub(r"{{\1}}", text)


def slots_in(value: Any) -> list[Slot]:
    """Every slot in the texts of a JSON value."""
    if isinstance(value, str):
        return [piece for piece in pieces_of(value) if isinstance(piece, Slot)]
    inner = value
    if isinstance(value, Mapping):
        inner = list(cast("Mapping[str, Any]", value).values())
    return [slot for one in cast("list[Any]", inner) for slot in slots_in(one)] if isinstance(inner, list) else []
