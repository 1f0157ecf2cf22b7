"""The frontmatter of a SKILL.md as JSON, as the MCP skills extension sends it.

Values are typed by YAML 1.2, because hosts compare with that. Values without a JSON form are refused, and so is everything
that the strict reader refuses, so that two hosts cannot read the same file differently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import yaml

from prowess.patterns import lazy_pattern
from prowess.skill.profiles.strict_yaml import read_strictly
from prowess.skill.text.yaml import YamlRefused, load

_STYLE_CODES = frozenset({"strict-flow", "strict-indentation"})
"""Problems of style that only the reference validator reports. They do not matter here, because JSON has no style."""

_CSafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _CoreLoader(yaml.SafeLoader):
    """Loads plain scalars by the core schema of YAML 1.2 only, without YAML 1.1's types (`yes`, `12:30`, dates)."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as PyYAML has it


class _FastLoader(_CSafeLoader):
    """Does the same with the C parser, if PyYAML has it."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as PyYAML has it


_CORE_TYPES: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("null", r"~|null|Null|NULL|", lambda _: None),
    ("bool", r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    ("int", r"[-+]?[0-9]{1,400}", int),
    ("int-octal", r"0o[0-7]{1,400}", lambda text: int(text, 0)),
    ("int-hex", r"0x[0-9a-fA-F]{1,400}", lambda text: int(text, 0)),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", float),
    ("infinite", r"[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN", lambda _: math.inf),
)


def _constructor(convert: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    return lambda _, node: convert(node.value)


def _register_core_types() -> None:
    for name, pattern, convert in _CORE_TYPES:
        tag = f"!core-{name}"
        loaders: tuple[Any, ...] = (_CoreLoader, _FastLoader)
        for loader in loaders:
            loader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z"), None)
            loader.add_constructor(tag, _constructor(convert))


_register_core_types()


def frontmatter_json(skill_md: bytes) -> dict[str, Any] | None:
    """Return the frontmatter as JSON, or None if hosts would refuse the file or read it differently."""
    return _read_plain(skill_md) or _read_fully(skill_md)


_UNUSUAL = lazy_pattern("[\t\r\\\\\x85\u2028\u2029\ufeff]|<<")
_NOT_TEXT = lazy_pattern(rf"(?:{'|'.join(pattern for _, pattern, _ in _CORE_TYPES)})\Z")


def _read_plain(skill_md: bytes) -> dict[str, Any] | None:
    """Return the frontmatter if all its values are texts, quoted or not; else None. This takes a third of the full reading.

    `load` refuses whatever the strict reader does, except for its style. Where the text has a tab, a line end of another
    kind, an escape or `<<`, the two may differ, so that the full reading decides.
    """
    try:
        content = skill_md.decode()
    except UnicodeDecodeError:
        return None
    end = content.find("\n---", 2)
    raw = content[3 : end + 1]
    if end < 0 or not content.startswith("---") or _UNUSUAL.search(raw):
        return None
    try:
        value = load(raw).value
    except YamlRefused:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) and _is_text(value) else None


def _is_text(value: Any) -> bool:
    """Return True if every key and value is a text that YAML reads as text even without quotes."""
    if isinstance(value, dict):
        return all(_is_text(key) and _is_text(item) for key, item in cast("dict[Any, Any]", value).items())
    if isinstance(value, list):
        return all(map(_is_text, cast("list[Any]", value)))
    return isinstance(value, str) and not _NOT_TEXT.match(value)


def _read_fully(skill_md: bytes) -> dict[str, Any] | None:
    strict = read_strictly(skill_md)
    if strict.fields is None or any(problem.code not in _STYLE_CODES for problem in strict.refusals):
        return None
    try:
        load(strict.raw)  # called for its limits: it refuses aliases, deep nesting and large documents
        value = _load_typed(strict.raw)
    except (YamlRefused, yaml.YAMLError, ValueError, TypeError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) and _is_json(value) else None


def _load_typed(text: str) -> Any:
    """Parse YAML with the fast parser, or with the Python parser if the fast one fails.

    The two treat tabs and byte order marks differently, so text with these always goes to the Python parser.
    """
    if "\t" not in text and "\ufeff" not in text:
        with suppress(yaml.YAMLError):
            return yaml.load(text, Loader=_FastLoader)  # noqa: S506  a safe loader, with fewer types
    return yaml.load(text, Loader=_CoreLoader)  # noqa: S506  as above


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return all(isinstance(key, str) and _is_json(item) for key, item in pairs)
    if isinstance(value, list):
        return all(_is_json(item) for item in cast("list[Any]", value))
    return not isinstance(value, float) or math.isfinite(value)
