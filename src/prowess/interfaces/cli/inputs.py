"""The inputs of a run as they are typed: NAME=TEXT, NAME:=JSON, NAME=@FILE or @FILE.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.printing import shown_path

FORMS = "Write NAME=TEXT, NAME:=JSON, NAME=@FILE, NAME=@- for standard input, or @FILE.json for an object of inputs."
_MOST_BYTES = 4_000_000
_WHOLE = ("integer", "number", "boolean", "array", "object", "null")


def read_inputs(words: Sequence[str], schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The inputs that these words give; later ones win. A text becomes a number, a list … where the schema asks for one."""
    inputs: dict[str, Any] = {}
    for word in words:
        inputs |= _one(word, _types(schema))
    return inputs


def _one(word: str, types: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    if word.startswith("@"):
        return _object(word[1:])
    name, equals, text = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        raise Invalid(f"The input {word[:80]!r} has no name and value.", hint=FORMS)
    if is_json:
        return {name: _json(text, f"The input {name}")}
    if text.startswith("@"):
        content = _read(text[1:])
        return {name: _json(content, text[1:]) if text.endswith(".json") else content}
    return {name: _typed(text, types.get(name, frozenset()))}


def _object(path: str) -> dict[str, Any]:
    value = _json(_read(path), path)
    if not isinstance(value, dict):
        raise Invalid(f"{path} holds no JSON object.", hint=FORMS)
    return cast("dict[str, Any]", value)


def _read(path: str) -> str:
    """A file, or standard input for `-`, as text."""
    data = sys.stdin.buffer.read(_MOST_BYTES + 1) if path == "-" else _file(path)
    if len(data) > _MOST_BYTES:
        raise Invalid(f"{path} has more than {_MOST_BYTES:,} bytes.", hint="Give less.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not text in UTF-8.", hint="Convert it to UTF-8 first.") from error


def _file(path: str) -> bytes:
    if not path:
        raise Invalid("An input is to be read from a file, and no file is named after the @.", hint=FORMS)
    try:
        with Path(path).expanduser().open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"There is no file {shown_path(path)}, from which an input is to be read.", hint=FORMS
        ) from error
    except IsADirectoryError as error:
        raise Invalid(f"{shown_path(path)} is a folder, and no file to read an input from.", hint=FORMS) from error
    except ValueError as error:  # a character that no path has
        raise Invalid(f"{shown_path(path)} is no path of a file.", hint=FORMS) from error


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{what} is no JSON: {error}.", hint=FORMS) from error


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _types(schema: Mapping[str, Any] | None) -> dict[str, frozenset[str]]:
    """The types that the schema gives each input."""
    properties: object = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return {}
    found: dict[str, frozenset[str]] = {}
    for name, entry in cast("Mapping[str, Any]", properties).items():
        kind: object = cast("Mapping[str, Any]", entry).get("type") if isinstance(entry, Mapping) else None
        kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
        found[name] = frozenset(one for one in kinds if isinstance(one, str))
    return found


def _typed(text: str, types: frozenset[str]) -> Any:
    """A text as what its type asks for; as it stands where that is a text, or it cannot be read as anything else."""
    if not types or "string" in types:
        return text
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return value if types & set(_WHOLE) and not isinstance(value, str) else text
