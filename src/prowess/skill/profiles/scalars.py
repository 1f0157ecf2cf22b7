"""What YAML 1.1 readers, which most clients are built on, make of the plain values in a frontmatter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from prowess.skill.profiles.strict import BACK, NOT_BREAKS, parse_events

_PREFIX = "tag:yaml.org,2002:"
_RESOLVERS: dict[Any, list[tuple[str, Any]]] = yaml.SafeLoader.yaml_implicit_resolvers


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A value or key as it stands in the text, with the type that it would get.

    `type` is the name of a YAML type: `str`, `int`, `float`, `bool`, `null`, `timestamp` and so on.
    `key` is the top-level key it belongs to, and `depth` is 1 for the top level itself.
    """

    text: str
    type: str
    key: str
    line: int
    depth: int
    is_key: bool


def scalars(raw: str) -> Iterator[Scalar]:
    """Every scalar of a YAML text, in order; nothing more once the text stops being YAML."""
    stack: list[list[Any]] = []
    top = ""
    try:
        for event in parse_events(raw.translate(NOT_BREAKS)):
            if isinstance(event, yaml.CollectionStartEvent):
                _toggle(stack)
                stack.append([isinstance(event, yaml.MappingStartEvent), False])
            elif isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
            elif isinstance(event, yaml.ScalarEvent):
                is_key = _toggle(stack)
                text = str(event.value).translate(BACK)
                top = text if is_key and len(stack) == 1 else top
                mark: Any = event.start_mark
                yield Scalar(
                    text=text,
                    type="str" if event.style else plain_type(text),
                    key=top,
                    line=mark.line + 1,
                    depth=len(stack),
                    is_key=is_key,
                )
    except yaml.YAMLError:
        return


def _toggle(stack: list[list[Any]]) -> bool:
    """Note that a node begins; whether it stands in the place of a key."""
    if not stack or not stack[-1][0]:
        return False
    stack[-1][1] = not stack[-1][1]
    return stack[-1][1]


def plain_type(text: str) -> str:
    """The type that a YAML 1.1 reader gives to plain text."""
    for tag, pattern in _RESOLVERS.get(text[:1], []) + _RESOLVERS.get(None, []):
        if pattern.match(text):
            return tag.removeprefix(_PREFIX)
    return "str"
