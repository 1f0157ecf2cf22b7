"""What a field means, whatever way it was written: text, lists, tools, flags; and what a body offers in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from prowess.skill.text.body import first_heading, first_paragraph

__all__ = ["as_flag", "as_list", "as_text", "as_tools", "first_heading", "first_paragraph"]

_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "n"), False),
}
_TOOL = re.compile(r"[^\s,;()\[\]]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?")
_DEPTH = 8


def as_text(value: Any) -> str:
    """The value as text for people: lists joined by commas, mappings as `key: value`, nothing as ''."""
    return _text(value, _DEPTH)


def _text(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None or not depth:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return "; ".join(f"{key}: {_text(item, depth - 1)}" for key, item in pairs)
    if isinstance(value, Sequence):
        texts = [_text(item, depth - 1) for item in cast("Sequence[Any]", value)]
        return ", ".join(text for text in texts if text)
    return str(value)


def as_list(value: Any) -> tuple[str, ...]:
    """The items of a list, of `a, b`, of `[a, b]` or of a mapping's values; each once, none empty."""
    return tuple(dict.fromkeys(_items(value, _DEPTH)))


def _items(value: Any, depth: int) -> list[str]:
    if not depth or value is None:
        return []
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, Mapping):
        return [text for item in cast("Mapping[Any, Any]", value).values() for text in _items(item, depth - 1)]
    if isinstance(value, Sequence):
        texts = [_text(item, depth - 1) for item in cast("Sequence[Any]", value)]
        return [text for text in texts if text]
    return [_text(value, depth)]


def _split(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    parts = re.split(r"[,;\n]", text)
    unquoted = (part.strip().removeprefix("- ").strip().strip("\"'").strip() for part in parts)
    return [part for part in unquoted if part]


def as_tools(value: Any) -> tuple[str, ...]:
    """The tools that `allowed-tools` names, each once: a list, or text with commas, spaces or brackets.

    A tool with its argument, such as `Bash(git add:*)`, is one. `WebFetch(domain: x)`, which YAML reads as a mapping when
    it stands in a list, is put together again.
    """
    return tuple(dict.fromkeys(_tools(value, _DEPTH)))


def _tools(value: Any, depth: int) -> list[str]:
    if not depth or value is None:
        return []
    if isinstance(value, str):
        names = (found[0].strip("'") for found in _TOOL.finditer(value.replace('"', " ")))
        return [name for name in names if name.strip("-'")]
    if isinstance(value, Mapping):
        return [tool for pair in cast("Mapping[Any, Any]", value).items() for tool in _pair(pair, depth)]
    if isinstance(value, Sequence):
        return [tool for item in cast("Sequence[Any]", value) for tool in _tools(item, depth - 1)]
    return [_text(value, depth)]


def _pair(pair: tuple[Any, Any], depth: int) -> list[str]:
    """A tool whose argument has a colon, split in two by YAML; or a tool with a flag; or a group of tools."""
    key, item = str(pair[0]), pair[1]
    if "(" in key and isinstance(item, str):
        return _tools(f"{key}: {item}", depth - 1)
    flag = as_flag(item)
    if flag is not None or item is None:
        return [] if flag is False else _tools(key, depth - 1)
    return _tools(item, depth - 1)


def as_flag(value: Any) -> bool | None:
    """Yes or no; None where it is neither."""
    if isinstance(value, bool):
        return value
    return _FLAGS.get(str(value).strip().lower())
