"""Parse the JSON and YAML files of a skill within limits. Problems are reported, never raised."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any, cast

from prowess.errors import Problem
from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.forms.form import error, too_large_problem, warning
from prowess.skill.json_values import is_encodable, json_list
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.text.yaml import YamlRefused, load

DATA_DEPTH = 64
"""The maximum nesting of a JSON or YAML file. Schemas nest deeper than frontmatter."""

_SHOWN = 20
_SURROGATE = lazy_pattern(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The value of a file, or None with the reason in `problems`. `lines` has the line of each top-level YAML key."""

    value: Any
    problems: tuple[Problem, ...] = ()
    lines: dict[str, int] | None = None

    @property
    def object(self) -> dict[str, Any] | None:
        """Return the value if it is an object, else None."""
        return cast("dict[str, Any]", self.value) if isinstance(self.value, dict) else None

    def line(self, key: str) -> int | None:
        """Return the line of a top-level key, or None if unknown."""
        return self.lines.get(key) if self.lines else None


def parse_file(path: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> ParsedFile:
    """Parse a file by its suffix: JSON, or else YAML (a superset of JSON)."""
    if path.endswith(".json"):
        return parse_json(path, data, limits.file_bytes)
    return parse_yaml(path, data, limits)


def parse_json(path: str, data: bytes, cap: int = DEFAULT_LIMITS.file_bytes) -> ParsedFile:
    """Parse JSON. Reports NaN, repeated keys, deep nesting and lone surrogates."""
    if len(data) > cap:
        return ParsedFile(None, (too_large_problem(path, len(data), cap),))
    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) < len(items):
            counted = Counter(key for key, _ in items)
            repeated.extend(key for key in counted if counted[key] > 1)
        return result

    value: Any = None
    try:
        # Editors on Windows write a byte order mark, which `json` refuses.
        text = data.decode("utf-8-sig")
        # Lone surrogates are valid in JSON escapes but not in UTF-8: they would fail later, when the value is stored.
        # Walking through all strings is slow, so it is done only if the text has such an escape at all.
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse_constant, parse_float=_finite)
        fault = _find_fault(value, check_text=_SURROGATE.search(text) is not None)
    except json.JSONDecodeError as problem:
        hint = "Fix the JSON at this position."
        message = f"{path} is not valid JSON: {problem.msg} in column {problem.colno}."
        return ParsedFile(None, (error("json-unreadable", message, hint, field=path, line=problem.lineno),))
    except UnicodeDecodeError as problem:
        fault = f"is not UTF-8 text (byte {problem.start + 1})"
    # Python's parser recurses. Its own limit is far above `DATA_DEPTH`, which `_find_fault` checks without recursion.
    except RecursionError:
        fault = f"is nested deeper than {DATA_DEPTH} levels"
    except ValueError as problem:
        fault = f"contains an unsupported number ({str(problem).partition(';')[0]})"
    if fault:
        return ParsedFile(
            None, (error("json-unreadable", f"{path} {fault}.", "Save it as plain JSON in UTF-8.", field=path),)
        )
    return ParsedFile(value, tuple(_repeated(path, key) for key in list(dict.fromkeys(repeated))[:_SHOWN]))


def parse_yaml(path: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> ParsedFile:
    """Parse YAML with types, by the same rules as frontmatter but with deeper nesting."""
    roomy = replace(limits, frontmatter_bytes=limits.skill_md_bytes, yaml_depth=DATA_DEPTH)
    try:
        loaded = load(data.decode("utf-8-sig"), typed=True, limits=roomy)
    except UnicodeDecodeError as problem:
        message = f"{path} is not UTF-8 text (byte {problem.start + 1})."
        return ParsedFile(None, (error("yaml-unreadable", message, "Save it as UTF-8.", field=path),))
    except YamlRefused as refused:
        message = f"{path} is not valid YAML. {refused.message}"
        return ParsedFile(None, (error("yaml-unreadable", message, "Fix this line.", field=path, line=refused.line),))
    return ParsedFile(loaded.value, (), loaded.lines)


def json_text(value: Any) -> str:
    """Return the value as indented JSON with a final newline."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def same_json(left: Any, right: Any) -> bool:
    """Return True if two JSON values are equal including types (1 is neither true nor 1.0)."""
    if isinstance(left, dict) and isinstance(right, dict):
        left_object, right_object = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return left_object.keys() == right_object.keys() and all(
            same_json(value, right_object[key]) for key, value in left_object.items()
        )
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        mine, other = cast("list[Any]", left), cast("list[Any]", right)
        return len(mine) == len(other) and all(same_json(a, b) for a, b in zip(mine, other, strict=True))
    first, second = cast("tuple[object, object]", (left, right))
    # In Python `1 == True == 1.0`; written as JSON or YAML they differ.
    return type(first) is type(second) and first == second


def _repeated(path: str, key: str) -> Problem:
    return warning(
        "json-duplicate-key", f"{path} has the key {key[:80]!r} twice in one object.", "Remove one of them.", field=path
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text[:40])
    return number


def _find_fault(value: Any, *, check_text: bool) -> str:
    """Return the fault of a parsed value: nesting, or lone surrogates if the text had such escapes."""
    level: list[Any] = [value]
    for _ in range(DATA_DEPTH + 1):
        if check_text and any(isinstance(item, str) and not is_encodable(item) for item in level):
            return "has an escape that stands for an unpaired surrogate"
        level = [part for item in level for part in _parts(item)]
        if not level:
            return ""
    return f"is nested deeper than {DATA_DEPTH} levels"


def _parts(item: Any) -> list[Any]:
    if isinstance(item, dict):
        mapping = cast("dict[str, Any]", item)
        return [*mapping.keys(), *mapping.values()]
    return json_list(item)
