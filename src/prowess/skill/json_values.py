"""Handle JSON values of unknown shape, from files and answers that others wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any, NoReturn, cast


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, or raise `ValueError` or `RecursionError`.

    NaN, Infinity and numbers that are too large for a float are refused.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_finite(number: str) -> float:
    value = float(number)
    # 1e999 is a number in JSON, but infinity here, which could not be written as JSON again.
    if isfinite(value):
        return value
    raise ValueError(f"the number {number[:20]} is too large")


def json_value(text: str | bytes, default: Any = None) -> Any:
    """Return the value of a JSON text, or the default if it is none. NaN and Infinity are accepted."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


def json_object(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def json_list(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def map_texts(value: Any, change: Callable[[str], str], *, names: Callable[[str], str] | None = None) -> Any:
    """Return a JSON value with each text changed, at any depth. The names of members are changed by `names`, if given."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_texts(item, change, names=names) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value).items()
        return {
            map_texts(name, names) if names else name: map_texts(item, change, names=names) for name, item in members
        }
    return value


def equal_json(value: object, other: object) -> bool:
    """Return True if two JSON values are equal. Numbers are equal by value, but True is not 1."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, dict) and isinstance(other, dict):
        first, second = cast("dict[str, object]", value), cast("dict[str, object]", other)
        return first.keys() == second.keys() and all(equal_json(first[key], second[key]) for key in first)
    if isinstance(value, list) and isinstance(other, list):
        pairs = cast("list[object]", value), cast("list[object]", other)
        return len(pairs[0]) == len(pairs[1]) and all(equal_json(*pair) for pair in zip(*pairs, strict=True))
    return value == other


def is_encodable(text: str) -> bool:
    """Return True if a text can be written as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
