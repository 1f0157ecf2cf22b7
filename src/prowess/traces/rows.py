"""From a trace to its row, fit to be stored, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from prowess.redaction import Redactor
from prowess.redaction.linear import linear
from prowess.storage.clock import now
from prowess.storage.trace_rows import json_text
from prowess.traces.storable import TEXT_CHARS, capped, storable, storable_json
from prowess.traces.trace import Trace

_FIELDS = tuple(field.name for field in fields(Trace))
_DOCUMENTS = ("verdicts", "detail", "inputs")
_TEXTS = ("model_id", "error", "rendered_input", "raw_output")
_APART = "\x01"
"""A character that is part of no secret."""

_LONGEST_NUMBER = 400
_values = attrgetter(*_FIELDS)


def row_of(trace: Trace, redactor: Redactor) -> dict[str, Any]:
    """The row that is written: secrets removed, long texts cut, every character one that a database can hold."""
    row = _row(trace, now())
    if not _is_fit(_said([row]), redactor):
        _make_fit(row, redactor)
    return row


def rows_as_they_are(traces: Sequence[Trace], redactor: Redactor) -> list[dict[str, Any]] | None:
    """The rows of several traces, where one look at all of them shows that nothing need be removed, cut or replaced.

    They nearly always are so, and one look at many costs less than many looks.
    """
    moment = now()
    rows = [_row(trace, moment) for trace in traces]
    return rows if _is_fit(_said(rows), redactor) else None


def trace_of(row: Mapping[str, Any]) -> Trace:
    """The trace of a row; what the row leaves out is as it is in a trace of which nothing is known."""
    return Trace(**{name: row[name] for name in _FIELDS if name in row})


def _row(trace: Trace, moment: str) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(_FIELDS, _values(trace), strict=True))
    row["created_at"] = trace.created_at or moment
    return row


def _said(rows: Sequence[dict[str, Any]]) -> str | None:
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
    return _APART.join(said)


def _readable_json(value: Any) -> str:
    """The JSON of a value; `ValueError` for one that is not JSON, or has a number so long that nobody reads it again."""
    text = json_text(value)
    if len(text) > _LONGEST_NUMBER and linear(f"[0-9]{{{_LONGEST_NUMBER}}}").search(text):
        raise ValueError("a number is too long")
    return text


def _is_fit(text: str | None, redactor: Redactor) -> bool:
    """Whether a text, or JSON, is short, without secrets, and has only characters that can be stored."""
    if text is None or len(text) > TEXT_CHARS or "\\u0000" in text:
        return False
    return redactor.is_clean(text)


def _make_fit(row: dict[str, Any], redactor: Redactor) -> None:
    for name, value in row.items():
        if name in _DOCUMENTS:
            row[name] = _fit_document(value, redactor)
        elif name in _TEXTS and value:
            row[name] = capped(value, redactor)
        elif isinstance(value, str):
            row[name] = storable(value)


def _fit_document(value: Any, redactor: Redactor) -> Any:
    try:
        text = _readable_json(value)
    except (ValueError, RecursionError):
        text = None
    return value if _is_fit(text, redactor) else storable_json(value, redactor)
