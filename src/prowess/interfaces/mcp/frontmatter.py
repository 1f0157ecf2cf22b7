"""The frontmatter of a SKILL.md as the skills extension sends it: every key, as JSON.

Values are typed as YAML 1.2 types them, which is what hosts compare with. What has no form in JSON is refused, and so is
all that the strict reader refuses, so that two hosts cannot read two things in one file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import yaml

from prowess.skill.profiles.strict import read_strictly
from prowess.skill.text.yaml import YamlRefused, load

_STYLE = frozenset({"strict-flow", "strict-indentation"})
"""What only the reference validator minds: as JSON, a value has no style."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_NAME_LIMIT, _DESCRIPTION_LIMIT, _COMPATIBILITY_LIMIT = 64, 1024, 500


_CSafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _CoreLoader(yaml.SafeLoader):
    """Types plain scalars by the core schema of YAML 1.2, and by nothing else."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as PyYAML has it


class _FastLoader(_CSafeLoader):
    """The same, over the parser in C where there is one."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as PyYAML has it


_CORE: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
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


def _resolve() -> None:
    for name, pattern, convert in _CORE:
        tag = f"!core-{name}"
        loaders: tuple[Any, ...] = (_CoreLoader, _FastLoader)
        for loader in loaders:
            loader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z"), None)
            loader.add_constructor(tag, _constructor(convert))


_resolve()


def frontmatter_json(skill_md: bytes) -> dict[str, Any] | None:
    """The frontmatter as JSON; None where hosts would refuse the file, or read different things in it."""
    strict = read_strictly(skill_md)
    if strict.fields is None or any(problem.code not in _STYLE for problem in strict.refusals):
        return None
    try:
        load(strict.raw)  # bounds depth and size, and lets no alias through
        value = _typed(strict.raw)
    except (YamlRefused, yaml.YAMLError, ValueError, TypeError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) and _is_json(value) else None


def _typed(text: str) -> Any:
    """The value of a YAML text; by the thorough parser where the fast one fails or treats a character otherwise."""
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


def is_named(frontmatter: dict[str, Any]) -> bool:
    """Whether name and description are as the extension demands of every skill."""
    name, description = frontmatter.get("name"), frontmatter.get("description")
    return (
        isinstance(name, str)
        and len(name) <= _NAME_LIMIT
        and _NAME.fullmatch(name) is not None
        and isinstance(description, str)
        and bool(description.strip())
        and len(description) <= _DESCRIPTION_LIMIT
    )


def is_regular(frontmatter: dict[str, Any]) -> bool:
    """Whether the other fields have the types of the standard.

    There are hosts that turn down a whole listing for one entry that does not, so such a skill is left out of it.
    """
    texts = (frontmatter.get(key, " ") for key in ("license", "allowed-tools", "compatibility"))
    metadata: Any = frontmatter.get("metadata", {})
    return (
        all(isinstance(text, str) for text in texts)
        and 0 < len(str(frontmatter.get("compatibility", " "))) <= _COMPATIBILITY_LIMIT
        and isinstance(metadata, dict)
        and all(isinstance(value, str) for value in cast("dict[str, Any]", metadata).values())
    )
