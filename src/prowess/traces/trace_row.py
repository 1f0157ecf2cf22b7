"""Convert traces to rows that any database can store: redacted, capped, valid text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, cast

from prowess.redaction import Redactor
from prowess.redaction.regex import compile_linear
from prowess.storage.clock import now
from prowess.storage.rows import row_values
from prowess.storage.traces import COLUMNS, DOCUMENT_PLACES, DOCUMENTS, Trace, Values, column_values, dump_json

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


def cap_text(text: str, redactor: Redactor) -> str:
    """Return the text without secrets, cut to about `MAX_TEXT_CHARS` characters with a note of its full length."""
    length = len(text)
    if length <= MAX_TEXT_CHARS:
        return redactor.text(replace_unstorable(text))
    # Redact before cutting: half a secret would not be recognised. The text is cut once before that, to bound the work,
    # so its end may hold half a secret. That end is dropped, even if redaction has shortened the text so much that it
    # would fit.
    redacted = redactor.text(replace_unstorable(text[: 2 * MAX_TEXT_CHARS]))
    end = min(MAX_TEXT_CHARS, len(redacted) - _CUT_MARGIN) if length > 2 * MAX_TEXT_CHARS else MAX_TEXT_CHARS
    return f"{redacted[: max(end, 0)]}\n[cut: {length} characters in all]"


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
        capped: dict[str, Any] = {}
        for key, inner in value.items():
            if self._left <= 0:
                capped["[cut]"] = f"{len(value) - len(capped)} more"
                break
            capped[self._text(str(key))] = self.value(inner, depth - 1)
        return capped

    def _list(self, value: Sequence[Any], depth: int) -> list[Any]:
        capped_list: list[Any] = []
        for inner in value:
            if self._left <= 0:
                capped_list.append(f"[cut: {len(value) - len(capped_list)} more]")
                break
            self._left -= 2
            capped_list.append(self.value(inner, depth - 1))
        return capped_list

    def _text(self, text: str) -> str:
        self._left -= len(text)
        return replace_unstorable(text) if len(text) <= MAX_TEXT_CHARS else cap_text(text, self._redactor)


_TEXTS = frozenset({"model_id", "error", "rendered_input", "raw_output"})
_NUMBERS = {
    *("duration_ms", "input_tokens", "output_tokens"),
    *("estimated_cost", "assertions_run", "assertions_passed"),
}
_SEPARATOR = "\x01"
"""A character that no secret contains, so that two texts joined by it cannot look like one secret."""

_MAX_DIGITS = 400
_DIGITS = frozenset("0123456789")
_CREATED_AT = COLUMNS.index("created_at")
_scanned_values = itemgetter(*(COLUMNS.index(name) for name in COLUMNS if name in _TEXTS | DOCUMENTS))
_label_values = itemgetter(*(COLUMNS.index(name) for name in COLUMNS if name not in _TEXTS | DOCUMENTS | _NUMBERS))


def to_row(trace: Trace, redactor: Redactor) -> Trace:
    """Return the row to write: without secrets, with long texts cut, and with storable characters only."""
    trace = replace(trace, created_at=trace.created_at or now())
    return trace if to_values_if_clean([trace], redactor) is not None else _make_storable(trace, redactor)


def to_values_if_clean(traces: Sequence[Trace], redactor: Redactor) -> list[Values] | None:
    """Return the rows of several traces if none needs redacting, cutting or replacing; otherwise None.

    Nearly all traces are clean, and one scan over the joined text costs less than a scan of each.
    """
    moment = now()
    labels: list[str] = []
    texts: list[str] = []
    try:
        rows = [_values(trace, moment) for trace in traces]
        for row in rows:
            labels += filter(None, _label_values(row))
            texts += filter(None, _scanned_values(row))
        label, text = "".join(labels), _SEPARATOR.join(texts)
        if "\0" in label or "\0" in text:
            return None
        (label + text).encode()  # raises for a lone surrogate
    except (TypeError, ValueError, RecursionError):
        return None
    return rows if _is_storable(text, redactor) else None


def _values(trace: Trace, moment: str) -> Values:
    values = list(column_values(trace))
    values[_CREATED_AT] = values[_CREATED_AT] or moment
    for place in DOCUMENT_PLACES:
        values[place] = _readable_json(values[place])
    return tuple(values)


def _readable_json(value: Any) -> str:
    """Return the JSON of a value; raise `ValueError` if it is not JSON, or has an integer too long to be parsed again."""
    text = dump_json(value)
    # A number of that many digits covers at least one of these characters, and few texts have a digit there.
    has_digits = not _DIGITS.isdisjoint(text[_MAX_DIGITS - 1 :: _MAX_DIGITS])
    if has_digits and compile_linear(f"[0-9]{{{_MAX_DIGITS}}}").search(text):
        raise ValueError("a number is too long")
    return text


def _is_storable(text: str | None, redactor: Redactor) -> bool:
    """Return True if a text, or JSON, is short, without secrets, and storable as it is."""
    # PostgreSQL rejects NUL in JSON as well, where it is escaped.
    if text is None or len(text) > MAX_TEXT_CHARS or "\\u0000" in text:
        return False
    return redactor.is_clean(text)


def _make_storable(trace: Trace, redactor: Redactor) -> Trace:
    row = row_values(trace)
    for name, value in row.items():
        if name in DOCUMENTS:
            row[name] = _storable_document(value, redactor)
        elif name in _TEXTS and value:
            row[name] = cap_text(value, redactor)
        elif isinstance(value, str):
            row[name] = replace_unstorable(value)
    return Trace(**row)


def _storable_document(value: Any, redactor: Redactor) -> Any:
    try:
        text = _readable_json(value)
    except (ValueError, RecursionError):
        text = None
    return value if _is_storable(text, redactor) else cap_json(value, redactor)
