"""Convert traces to rows that any database can store (redacted, capped, valid text), and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, cast

from prowess.redaction import Redactor
from prowess.redaction.regex import compile_linear
from prowess.storage.clock import now
from prowess.storage.traces import dump_json
from prowess.traces.trace import Trace

MAX_TEXT_CHARS = 256 * 1024
"""The longest text in a trace."""
MAX_JSON_CHARS = 1024 * 1024
"""About how much text one JSON column may contain."""
MAX_JSON_DEPTH = 32

_CUT_MARGIN = 8 * 1024
"""How much of the end of a cut text is dropped as well: it may hold the first part of a secret, which is not recognised
without the rest."""


def replace_unstorable(text: str) -> str:
    """Replace NUL characters and lone surrogates, which PostgreSQL rejects."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # UTF-16 joins the two halves of a character; only a half without its counterpart is replaced.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cap_text(text: str, redactor: Redactor, most: int = MAX_TEXT_CHARS) -> str:
    """Return the text without secrets, cut to about `most` characters with a note of its full length."""
    length = len(text)
    if length <= most:
        return redactor.text(replace_unstorable(text))
    # Redact before cutting: half a secret would not be recognised. The text is cut once before that, to bound the work,
    # so its end may hold half a secret. That end is dropped, even if redaction has shortened the text so much that it
    # would fit.
    kept = redactor.text(replace_unstorable(text[: 2 * most]))
    end = min(most, len(kept) - _CUT_MARGIN) if length > 2 * most else most
    return f"{kept[: max(end, 0)]}\n[cut: {length} characters in all]"


def cap_json(value: Any, redactor: Redactor) -> Any:
    """Return a JSON value without secrets, cut to size; values that JSON cannot hold become a text that says so."""
    return redactor.value(_JsonCapper(redactor).value(value, MAX_JSON_DEPTH))


class _JsonCapper:
    """Copies a value until it has collected too much text, and leaves out the rest."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._left = MAX_JSON_CHARS

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value.bit_length() < 1024 else f"[a number of {value.bit_length()} bits]"
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth == 0:
            return "[cut: nested too deeply]"
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), depth)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return self._list(cast("Sequence[Any]", value), depth)
        return f"[a value that is not JSON: {type(value).__name__}]"

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, inner in value.items():
            if self._left <= 0:
                made["[cut]"] = f"{len(value) - len(made)} more"
                break
            made[self._text(str(key))] = self.value(inner, depth - 1)
        return made

    def _list(self, value: Sequence[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        for inner in value:
            if self._left <= 0:
                made.append(f"[cut: {len(value) - len(made)} more]")
                break
            self._left -= 2
            made.append(self.value(inner, depth - 1))
        return made

    def _text(self, text: str) -> str:
        self._left -= len(text)
        return replace_unstorable(text) if len(text) <= MAX_TEXT_CHARS else cap_text(text, self._redactor)


_FIELDS = tuple(field.name for field in fields(Trace))
_DOCUMENTS = ("verdicts", "detail", "inputs")
_TEXTS = ("model_id", "error", "rendered_input", "raw_output")
_SEPARATOR = "\x01"
"""A character that no secret contains, so that two texts joined by it cannot look like one secret."""

_MAX_DIGITS = 400
_field_values = attrgetter(*_FIELDS)


def to_row(trace: Trace, redactor: Redactor) -> dict[str, Any]:
    """Return the row to write: without secrets, with long texts cut, and with storable characters only."""
    row = _row(trace, now())
    if not _is_storable(_all_text([row]), redactor):
        _make_storable(row, redactor)
    return row


def to_rows_if_clean(traces: Sequence[Trace], redactor: Redactor) -> list[dict[str, Any]] | None:
    """Return the rows of several traces if none needs redacting, cutting or replacing; otherwise None.

    Nearly all traces are clean, and one scan over the joined text costs less than a scan of each.
    """
    moment = now()
    rows = [_row(trace, moment) for trace in traces]
    return rows if _is_storable(_all_text(rows), redactor) else None


def from_row(row: Mapping[str, Any]) -> Trace:
    """Return the trace of a row; columns that were not read have their defaults."""
    return Trace(**{name: row[name] for name in _FIELDS if name in row})


def _row(trace: Trace, moment: str) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(_FIELDS, _field_values(trace), strict=True))
    row["created_at"] = trace.created_at or moment
    return row


def _all_text(rows: Sequence[dict[str, Any]]) -> str | None:
    """Return all texts and documents of the rows, joined for one scan; None if something cannot be stored as it is."""
    texts: list[str] = []
    try:
        for row in rows:
            labels = "".join([value for value in row.values() if isinstance(value, str)])
            if "\0" in labels or not labels.encode():  # `encode` raises for a lone surrogate
                return None
            texts += [row[name] for name in _TEXTS if row[name]]
            texts.append(_readable_json([row[name] for name in _DOCUMENTS]))
    except (TypeError, ValueError, RecursionError):
        return None
    return _SEPARATOR.join(texts)


def _readable_json(value: Any) -> str:
    """Return the JSON of a value; raise `ValueError` if it is not JSON, or has an integer too long to be parsed again."""
    text = dump_json(value)
    if len(text) > _MAX_DIGITS and compile_linear(f"[0-9]{{{_MAX_DIGITS}}}").search(text):
        raise ValueError("a number is too long")
    return text


def _is_storable(text: str | None, redactor: Redactor) -> bool:
    """Return True if a text, or JSON, is short, without secrets, and storable as it is."""
    # PostgreSQL rejects NUL in JSON as well, where it is escaped.
    if text is None or len(text) > MAX_TEXT_CHARS or "\\u0000" in text:
        return False
    return redactor.is_clean(text)


def _make_storable(row: dict[str, Any], redactor: Redactor) -> None:
    for name, value in row.items():
        if name in _DOCUMENTS:
            row[name] = _storable_document(value, redactor)
        elif name in _TEXTS and value:
            row[name] = cap_text(value, redactor)
        elif isinstance(value, str):
            row[name] = replace_unstorable(value)


def _storable_document(value: Any, redactor: Redactor) -> Any:
    try:
        text = _readable_json(value)
    except (ValueError, RecursionError):
        text = None
    return value if _is_storable(text, redactor) else cap_json(value, redactor)
