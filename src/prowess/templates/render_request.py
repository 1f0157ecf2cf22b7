"""What a worker is sent: a template and its values, checked to be plain JSON within the limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from prowess.errors import Invalid
from prowess.skill.template_faults import fault
from prowess.skill.template_variables import Syntax, check_template
from prowess.skill.text.hidden import shown_source
from prowess.templates.limits import RenderLimits

_SMALL = 100_000
"""About as many characters are written in a millisecond."""
_TEXT = frozenset({str})
_SCALARS = frozenset({int, float, bool, type(None)})
_HINT = "Pass texts, numbers, booleans, null, and lists and objects of these, with texts as keys."


def render_request(
    template: str, values: Mapping[str, Any], syntax: Syntax, limits: RenderLimits, *, checked: bool = False
) -> bytes:
    """The request; `Invalid` where the template is too large or the values are no JSON, too large or too deep.

    Values that are small need no further check.
    """
    check_template(template, syntax)
    plain = dict(values)
    if not checked:
        _check_values(plain, limits)
    try:
        encoded = json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()
        head = json.dumps({"template": template, "syntax": syntax}, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise _not_json(_odd_one(plain), "cannot be written as JSON") from None
    if len(encoded) > limits.values_bytes:
        raise _too_large(limits, f"{len(encoded):,} bytes")
    return head[:-1] + b', "values": ' + encoded + b"}"


def is_small(values: Mapping[str, Any], limits: RenderLimits) -> bool:
    """Whether the values are plain at first sight, within the limits, and so few that writing them takes no time."""
    room, depth = _SMALL, 0
    level: list[Any] = [dict(values)]
    while level:
        depth += 1
        inner: list[Any] = []
        for value in level:
            kind = value.__class__
            if kind is str:
                room -= len(value)
            elif kind is dict or kind is list:
                room -= 20 * len(value)
                if room < 0 or (kind is dict and not _TEXT.issuperset(map(type, value))):
                    return False
                inner += value.values() if kind is dict else value
            elif kind not in _SCALARS:
                return False
        level = inner
    return room > 0 and depth <= limits.depth


def _check_values(values: dict[str, Any], limits: RenderLimits) -> None:
    """Walk the values, and no longer than their JSON may be: lists that hold themselves end there too."""
    room = limits.values_bytes
    waiting: list[tuple[Any, str, int]] = [(values, "", 0)]
    while waiting:
        value, name, depth = waiting.pop()
        if depth > limits.depth:
            raise _not_json(name, f"nests deeper than {limits.depth} levels")
        if value is None or isinstance(value, int | float):
            continue
        if not isinstance(value, str | list | tuple | dict):
            raise _not_json(name, f"is or holds a {type(value).__name__}")
        inner = cast("str | list[Any] | dict[Any, Any]", value)
        room -= len(inner) * (1 if isinstance(inner, str) else 2) + 2  # at the least
        if room < 0:
            raise _too_large(limits, "more")
        if isinstance(inner, dict):
            waiting += _members(inner, name, depth + 1)
        elif not isinstance(inner, str):
            waiting += [(item, name, depth + 1) for item in inner]


def _members(members: dict[Any, Any], name: str, depth: int) -> list[tuple[Any, str, int]]:
    for key in members:
        if not isinstance(key, str):
            raise _not_json(name, f"has a key that is a {type(key).__name__}")
    return [(item, name or key, depth) for key, item in members.items()]


def _odd_one(values: dict[str, Any]) -> str:
    """The first of the inputs that cannot be written by itself."""
    for name, value in values.items():
        try:
            json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return name
    return ""


def _not_json(name: str, reason: str) -> Invalid:
    whose = f"The input {shown_source(name)}" if name else "The inputs"
    return fault("template-values", f"{whose} {reason}.", _HINT)


def _too_large(limits: RenderLimits, size: str) -> Invalid:
    message = f"The inputs of a template may have {limits.values_bytes:,} bytes as JSON; these have {size}."
    return fault("template-values", message, "Pass less, or split the work.")
