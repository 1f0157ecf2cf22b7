"""Parse the inputs of a run from the command line: NAME=TEXT, NAME:=JSON, NAME=@FILE or @FILE.json."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.output import escape_path
from prowess.skill.json_values import parse_json

INPUT_HELP = "Use NAME=TEXT, NAME:=JSON, NAME=@FILE, NAME=@- for stdin, or @FILE.json for an object of inputs."
_MAX_INPUT_BYTES = 4_000_000
_JSON_TYPES = ("integer", "number", "boolean", "array", "object", "null")


def read_inputs(words: Sequence[str], schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Parse the inputs given on the command line. If a name is given twice, the last one wins.

    Text is converted to a number, boolean, list or object if `schema` declares that type for the input. Raise
    `Invalid` for malformed input and `NotFound` for a missing file. Blocking: reads files and standard input.
    """
    inputs: dict[str, Any] = {}
    for word in words:
        inputs |= _parse_input(word, _schema_types(schema))
    return inputs


def _parse_input(word: str, types: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    if word.startswith("@"):
        return _read_object(word[1:])
    name, equals, text = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        raise Invalid(f"Invalid input {word[:80]!r}.", hint=INPUT_HELP)
    if is_json:
        return {name: _parse_json(text, f"input {name}")}
    if text.startswith("@"):
        content = _read_text(text[1:])
        return {name: _parse_json(content, text[1:]) if text.endswith(".json") else content}
    return {name: _convert(text, types.get(name, frozenset()))}


def _read_object(path: str) -> dict[str, Any]:
    value = _parse_json(_read_text(path), path)
    if not isinstance(value, dict):
        raise Invalid(f"{path} is not a JSON object.", hint=INPUT_HELP)
    return cast("dict[str, Any]", value)


def _read_text(path: str) -> str:
    """Read a file as text, or standard input for `-`. Raise `Invalid` if it is too large or not UTF-8."""
    data = sys.stdin.buffer.read(_MAX_INPUT_BYTES + 1) if path == "-" else _read_file(path)
    if len(data) > _MAX_INPUT_BYTES:
        raise Invalid(f"{path} is larger than {_MAX_INPUT_BYTES:,} bytes.", hint="Use a smaller file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8 text.", hint="Convert it to UTF-8 first.") from error


def _read_file(path: str) -> bytes:
    if not path:
        raise Invalid("Missing file name after @.", hint=INPUT_HELP)
    try:
        with Path(path).expanduser().open("rb") as file:
            return file.read(_MAX_INPUT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"File {escape_path(path)} not found.", hint=INPUT_HELP) from error
    except IsADirectoryError as error:
        raise Invalid(f"{escape_path(path)} is a folder, not a file.", hint=INPUT_HELP) from error
    except ValueError as error:  # the path contains a NUL character
        raise Invalid(f"Invalid file name {escape_path(path)}.", hint=INPUT_HELP) from error


def _parse_json(text: str, what: str) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"Invalid JSON in {what}: {error}.", hint=INPUT_HELP) from error


def _schema_types(schema: Mapping[str, Any] | None) -> dict[str, frozenset[str]]:
    """Return the JSON types that the schema declares for each input. Malformed entries have none."""
    properties: object = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return {}
    found: dict[str, frozenset[str]] = {}
    for name, entry in cast("Mapping[str, Any]", properties).items():
        kind: object = cast("Mapping[str, Any]", entry).get("type") if isinstance(entry, Mapping) else None
        kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
        found[name] = frozenset(one for one in kinds if isinstance(one, str))
    return found


def _convert(text: str, types: frozenset[str]) -> Any:
    """Convert text to one of the declared types. Return it unchanged if a string is allowed or it is not valid JSON."""
    if not types or "string" in types:
        return text
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return text
    return value if types & set(_JSON_TYPES) and not isinstance(value, str) else text
