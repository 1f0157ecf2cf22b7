"""Options of templates and optimizers: declared in tables, checked before use, and listed in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prowess_dspy.channel import JsonObject
from prowess_dspy.errors import InvalidOptions


@dataclass(frozen=True, slots=True)
class Option:
    """A number or a text that may be set. The type is that of the default."""

    default: int | float | str
    description: str
    least: float = 0
    greatest: float = 1_000_000

    def check(self, name: str, value: Any) -> int | float | str:
        """Return the value. Raises `InvalidOptions`."""
        if isinstance(self.default, str):
            if isinstance(value, str) and len(value) <= 20_000:
                return value
            raise InvalidOptions(f"The option {name} is not text of at most 20000 characters.")
        kinds = (int, float) if isinstance(self.default, float) else int
        if isinstance(value, bool) or not isinstance(value, kinds) or not self.least <= value <= self.greatest:
            raise InvalidOptions(f"The option {name} is not a number between {self.least} and {self.greatest}.")
        return value

    def describe(self) -> JsonObject:
        """Return the option as the manifest lists it."""
        entry: JsonObject = {"default": self.default, "description": self.description}
        return entry if isinstance(self.default, str) else entry | {"minimum": self.least, "maximum": self.greatest}


def check_options(table: Mapping[str, Option], values: Any) -> dict[str, Any]:
    """Return a value for every option of the table. Raises `InvalidOptions`."""
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise InvalidOptions("The options are not a JSON object.")
    if unknown := set(values) - set(table):
        allowed = f"the options {', '.join(table)}" if table else "no options"
        raise InvalidOptions(f"Unknown option {', '.join(sorted(unknown))[:200]}. There are {allowed}.")
    return {
        name: option.check(name, values[name]) if values.get(name) is not None else option.default
        for name, option in table.items()
    }
