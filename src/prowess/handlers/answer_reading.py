"""What is made of an answer to a declared request: its text or JSON, and the part of it that is wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

from prowess.errors import OutputInvalid
from prowess.outbound.request import OutboundAnswer
from prowess.redaction.known import readable
from prowess.skill.declared_request import DeclaredResponse
from prowess.skill.schema import depth_of

DEEPEST_ANSWER = 100

_CHARSETS = {
    "us-ascii": "ascii",
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "windows-1252": "cp1252",
    "utf-16": "utf-16",
}
"""The encodings that are read besides UTF-8, as those who serve them mean them."""
_TEXTS = ("text/", "application/xml", "application/javascript", "application/yaml", "application/x-ndjson")
_EACH = "*"
_MISSING = object()


def text_of(answer: OutboundAnswer) -> str:
    """The body as text; what is none is shown as replacement signs."""
    _, _, parameters = answer.headers.get("content-type", "").partition(";")
    stated = parameters.lower().partition("charset=")[2].partition(";")[0].strip(" \"'")
    return answer.body.decode(_CHARSETS.get(stated, "utf-8-sig"), errors="replace")


def value_of(answer: OutboundAnswer, text: str, wanted: DeclaredResponse) -> Any:
    """The text or the JSON of an answer, as it is wanted, or the parts of it that are selected; None where it is empty."""
    read_as = wanted.read_as or _kind(answer)
    if read_as == "":
        kind = answer.headers.get("content-type", "")[:60]
        raise OutputInvalid(f"The answer is of the type {kind!r}, which is no text.", hint="Ask for JSON or text.")
    if not text.strip() and read_as == "json":
        return None
    value = readable(text) if read_as == "text" else _json(text)
    if isinstance(wanted.select, str):
        return _selected(value, wanted.select) if wanted.select else value
    return {name: _selected(value, path) for name, path in wanted.select.items()}


def _kind(answer: OutboundAnswer) -> Literal["", "json", "text"]:
    """What an answer says it is; one that does not say is taken for text if it is."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return "json"
    if kind.startswith(_TEXTS) or kind.endswith("+xml") or not answer.body:
        return "text"
    try:
        answer.body.decode()
    except UnicodeDecodeError:
        return ""
    return "" if b"\0" in answer.body else "text"


def _json(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise OutputInvalid("The answer is no JSON.", hint="Say `response: {as: text}`, or ask for JSON.") from None
    if depth_of(value, most=DEEPEST_ANSWER) > DEEPEST_ANSWER:
        raise OutputInvalid(f"The answer nests more than {DEEPEST_ANSWER} deep.", hint="Ask for less of it.")
    return _readable(value)


def _readable(value: Any) -> Any:
    """The same without halves of characters, which nothing can store."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {readable(name): _readable(inner) for name, inner in cast("dict[str, Any]", value).items()}
    return [_readable(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON.")


def _selected(value: Any, path: str) -> Any:
    found = _at(value, path.split("."))
    if found is _MISSING:
        raise OutputInvalid(f"The answer has nothing at {path[:80]!r}.", hint="Correct `select` of the response.")
    return found


def _at(value: Any, path: list[str]) -> Any:
    """What lies at a path; after `*`, what lies there in each item of a list that has something there."""
    found = value
    for at, part in enumerate(path):
        if part == _EACH and isinstance(found, list):
            inner = [_at(item, path[at + 1 :]) for item in cast("list[Any]", found)]
            return [item for item in inner if item is not _MISSING]
        found = _member(found, part)
        if found is _MISSING:
            return _MISSING
    return found


def _member(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name, _MISSING)
    if isinstance(value, list) and name.isdecimal() and len(name) < 10:
        items = cast("list[Any]", value)
        return items[int(name)] if int(name) < len(items) else _MISSING
    return _MISSING
