"""Fill a declared HTTP request with values, each escaped for the place where it stands."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any, cast
from urllib.parse import quote, quote_plus, unquote

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.skill.declarations import DeclaredRequest, Slot, TextPieces, parse_slots

FORM_TYPE = "application/x-www-form-urlencoded"
JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"

_OMITTED = object()
"""Stands for a member that is left out."""
_DOTS = re.compile(r"\.{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledRequest:
    """A request with all values in place."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFiller:
    """Fills requests with inputs and environment values.

    `optional` names inputs that may be missing: a header, query field or body member that consists of such an input alone
    is left out. Anywhere else, raise `Invalid` for an input without a value.
    """

    inputs: Mapping[str, Any]
    optional: Collection[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def fill(self, declared: DeclaredRequest) -> FilledRequest:
        """Return the request with all values in place."""
        headers = self._headers(declared.headers)
        kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
        body, usual = self._body(declared.body, kind.partition(";")[0].strip().lower())
        if usual and not kind:
            headers["content-type"] = usual
        return FilledRequest(url=self._url(declared), headers=headers, body=body)

    def _url(self, declared: DeclaredRequest) -> str:
        path, mark, query = declared.url.partition("?")
        filled = self._path(path)
        fields = [_text_of(parse_slots(query), self._quoted)] if mark and query else []
        for name, value in declared.query.items():
            fields += [f"{_percent(name)}={_percent(text)}" for text in self._texts(value)]
        return f"{filled}?{'&'.join(fields)}" if fields else filled

    def _path(self, path: str) -> str:
        segments: list[str] = []
        for segment in path.split("/"):
            pieces = parse_slots(segment)
            filled = _text_of(pieces, self._in_path)
            # `.` and `..` survive percent-encoding: servers and proxies resolve them, and the request would leave its path.
            if any(isinstance(piece, Slot) for piece in pieces) and _DOTS.fullmatch(unquote(filled)):
                raise Invalid("An input would change the path of the request.", hint="Pass a value without dots.")
            segments.append(filled)
        return "/".join(segments)

    def _headers(self, declared: Mapping[str, str]) -> dict[str, str]:
        filled = {name: self._typed(value) for name, value in declared.items()}
        return {
            name: _scalar(value, name) for name, value in filled.items() if value is not _OMITTED and value is not None
        }

    def _texts(self, value: Any) -> list[str]:
        """Return the values of a query field: none, one, or one for each item of a list."""
        filled = self._typed(value)
        items = cast("list[Any]", filled) if isinstance(filled, list) else [filled]
        return [_scalar(item, "query") for item in items if item is not _OMITTED and item is not None]

    def _body(self, body: Any, kind: str) -> tuple[bytes, str]:
        """Return the content of a body, and its type if none is declared."""
        if body is None:
            return b"", ""
        if isinstance(body, str) and not _is_one_slot(parse_slots(body)):
            return _encoded(_text_of(parse_slots(body), self._escaping(kind, parse_slots(body)))), TEXT_TYPE
        value = self._typed(body)
        if value is _OMITTED:
            return b"", ""
        if kind == FORM_TYPE:
            return _encoded(_form(value)), FORM_TYPE
        if isinstance(value, str) and not _is_json(kind):
            return _encoded(value), TEXT_TYPE
        if kind and not _is_json(kind):
            raise Invalid(
                f"A body of the type {kind[:60]!r} must be a string.", hint=f"Use {JSON_TYPE} or {FORM_TYPE}."
            )
        return _encoded(_json(value)), JSON_TYPE

    def _typed(self, value: Any) -> Any:
        """Return a JSON value with its texts filled. A text that is a single slot becomes the value itself, with its type."""
        if isinstance(value, str):
            pieces = parse_slots(value)
            if _is_one_slot(pieces):
                return self._whole(cast("Slot", pieces[0]))
            return _text_of(pieces, lambda slot: _scalar(self._needed(slot), str(slot)))
        if isinstance(value, Mapping):
            filled = {name: self._typed(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
            return {name: inner for name, inner in filled.items() if inner is not _OMITTED}
        if isinstance(value, list):
            listed = [self._typed(inner) for inner in cast("list[Any]", value)]
            return [inner for inner in listed if inner is not _OMITTED]
        return value

    def _whole(self, slot: Slot) -> Any:
        if slot.secret:
            return self.env[slot.secret]
        # An input that was given as null is sent as null; one that was not given is left out.
        if slot.path[0] not in self.inputs and slot.path[0] in self.optional:
            return _OMITTED
        value = slot.value(self.inputs)
        return self._needed(slot) if value is None and slot.path[0] not in self.inputs else value

    def _needed(self, slot: Slot) -> Any:
        value = self.env[slot.secret] if slot.secret else slot.value(self.inputs)
        if value is None:
            raise Invalid(
                f"Missing input {'.'.join(slot.path)[:80]!r} for the request.", hint="Pass it with `-i NAME=VALUE`."
            )
        return value

    def _quoted(self, slot: Slot) -> str:
        return _percent(_scalar(self._needed(slot), str(slot)))

    def _in_path(self, slot: Slot) -> str:
        text = self._quoted(slot)
        # An empty segment leads to another path, such as `/items/` instead of `/items/ID`.
        if not text:
            raise Invalid(
                f"The input {'.'.join(slot.path)[:80]!r} is empty, but is part of the path.",
                hint="Pass a value that is not empty.",
            )
        return text

    def _escaping(self, kind: str, pieces: TextPieces) -> Callable[[Slot], str]:
        """Return how to escape values in a text of this type, so that no value can end the construct that it stands in."""
        writing = _writing(kind)
        if writing is None and any(isinstance(piece, Slot) for piece in pieces):
            raise Invalid(
                f"Placeholders are not supported in a body of the type {kind[:60]!r}.",
                hint="Write the body as a JSON object with placeholders in its strings.",
            )
        return lambda slot: (writing or str)(_scalar(self._needed(slot), str(slot)))


def _writing(kind: str) -> Callable[[str], str] | None:
    if kind == FORM_TYPE:
        return quote_plus
    if kind in ("text/html", "text/xml", "application/xml") or kind.endswith("+xml"):
        return html.escape
    return str if not kind or kind.startswith("text/") else None


def _is_json(kind: str) -> bool:
    return kind == JSON_TYPE or kind.endswith("+json")


def _is_one_slot(pieces: TextPieces) -> bool:
    return len(pieces) == 1 and isinstance(pieces[0], Slot)


def _text_of(pieces: TextPieces, write: Callable[[Slot], str]) -> str:
    return "".join(piece if isinstance(piece, str) else write(piece) for piece in pieces)


def _scalar(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise Invalid(f"The value for {where[:80]} is neither a string nor a number.", hint="Pass a single value.")


def _percent(text: str) -> str:
    # Not even `/` is safe: a value must not become two segments of a path.
    return quote(text, safe="", errors="replace")


def _form(value: Any) -> str:
    if not isinstance(value, Mapping):
        raise Invalid("The body of a form must be an object.", hint="Write it as a mapping from field names to values.")
    pairs: list[str] = []
    for name, inner in cast("Mapping[str, Any]", value).items():
        items = cast("list[Any]", inner) if isinstance(inner, list) else [inner]
        pairs += [
            f"{quote_plus(name, errors='replace')}={quote_plus(_scalar(item, name), errors='replace')}"
            for item in items
            if item is not None
        ]
    return "&".join(pairs)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"The body is not valid JSON: {error}.", hint="Use only strings, numbers, booleans, lists and objects."
        ) from None


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")
