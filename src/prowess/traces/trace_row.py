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
"""The longest text of a trace."""
MAX_JSON_CHARS = 1024 * 1024
"""About how much text the values of one JSON column may have together."""
MAX_JSON_DEPTH = 32

_CUT_MARGIN = 8 * 1024
"""So much of the end of a text that was cut is not kept: the rest of a secret may have been cut away with it."""


def replace_unstorable(text: str) -> str:
    """The text without NUL characters and halves of surrogate pairs, which are replaced."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cap_text(text: str, redactor: Redactor, most: int = MAX_TEXT_CHARS) -> str:
    """The text without secrets, cut to about `most` characters with a mark that says how many it had."""
    length = len(text)
    if length <= most:
        return redactor.text(replace_unstorable(text))
    kept = redactor.text(replace_unstorable(text[: 2 * most]))
    end = min(most, len(kept) - _CUT_MARGIN) if length > 2 * most else most
    return f"{kept[: max(end, 0)]}\n[cut: {length} characters in all]"


def cap_json(value: Any, redactor: Redactor) -> Any:
    """The same for a JSON value; what no JSON can hold is replaced by words that say so."""
    return redactor.value(_JsonCapper(redactor).value(value, MAX_JSON_DEPTH))


class _JsonCapper:
    """One walk through a value, which stops to keep texts when there are too many of them."""

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
"""A character that is part of no secret."""

_MAX_DIGITS = 400
_field_values = attrgetter(*_FIELDS)


def to_row(trace: Trace, redactor: Redactor) -> dict[str, Any]:
    """The row that is written: secrets removed, long texts cut, every character one that a database can hold."""
    row = _row(trace, now())
    if not _is_storable(_all_text([row]), redactor):
        _make_storable(row, redactor)
    return row


def to_rows_if_clean(traces: Sequence[Trace], redactor: Redactor) -> list[dict[str, Any]] | None:
    """The rows of several traces, where one look at all of them shows that nothing need be removed, cut or replaced.

    They nearly always are so, and one look at many costs less than many looks.
    """
    moment = now()
    rows = [_row(trace, moment) for trace in traces]
    return rows if _is_storable(_all_text(rows), redactor) else None


def from_row(row: Mapping[str, Any]) -> Trace:
    """The trace of a row; what the row leaves out is as it is in a trace of which nothing is known."""
    return Trace(**{name: row[name] for name in _FIELDS if name in row})


def _row(trace: Trace, moment: str) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(_FIELDS, _field_values(trace), strict=True))
    row["created_at"] = trace.created_at or moment
    return row


def _all_text(rows: Sequence[dict[str, Any]]) -> str | None:
    """All that rows say in texts and documents, for one look; None where that cannot be written."""
    said: list[str] = []
    try:
        for row in rows:
            labels = "".join([value for value in row.values() if isinstance(value, str)])
            if "\0" in labels or not labels.encode():
                return None
            said += [row[name] for name in _TEXTS if row[name]]
            said.append(_readable_json([row[name] for name in _DOCUMENTS]))
    except (TypeError, ValueError, RecursionError):
        return None
    return _SEPARATOR.join(said)


def _readable_json(value: Any) -> str:
    """The JSON of a value; `ValueError` for one that is not JSON, or has a number so long that nobody reads it again."""
    text = dump_json(value)
    if len(text) > _MAX_DIGITS and compile_linear(f"[0-9]{{{_MAX_DIGITS}}}").search(text):
        raise ValueError("a number is too long")
    return text


def _is_storable(text: str | None, redactor: Redactor) -> bool:
    """Whether a text, or JSON, is short, without secrets, and has only characters that can be stored."""
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
