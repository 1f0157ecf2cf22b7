"""Read JSON from a model's answer, check it against a schema, and describe what does not fit.

Answers are parsed, never evaluated, in time that grows linearly with their length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from prowess.errors import OutputInvalid, Problem
from prowess.llm.model import Message, Reply, Request
from prowess.run.call import Call
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import Schema, SchemaError, measure_depth
from prowess.threads import offload_if_large

MAX_TEXT_CHARS = 2 * 1024 * 1024
MAX_VALUES = 64
MAX_VALUE_DEPTH = 128

_LONGEST_REPEATED = 50_000
"""Characters of an invalid answer that the model sees again."""
MAX_TRIED = 16
"""Values that `prefer` is asked about."""

_PASSES = 2
"""How often each character may be parsed on average. Brackets in prose are rarely JSON and fail at once."""
_EXTRA_CHARS = 200_000
"""Extra characters for short texts, which may have many brackets that are not JSON."""
_FAILURE_COST = 200
"""Cost of one failed attempt, in characters; the error also counts the lines up to there."""
_HINT = "Ask for JSON only, or use a model that supports structured output (`--model`)."
_DECODER = json.JSONDecoder()
# Answers are untrusted, so quantifiers are possessive where they can be: backtracking could take quadratic time.
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[^\n`]*+\n(.*?)(?:^[ \t]*+\1|\Z)", re.MULTILINE | re.DOTALL)
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""An unclosed string extends to the end, so that no part of it is scanned again."""
_START = re.compile(r"\{(?=\s*+[\"}])|\[(?=\s*+[\[{\"\]\-0-9tfn])")
"""A bracket that may start an object or list; most brackets in prose and code cannot."""
_BRACKET = re.compile(rf"{_STRING}|[\[{{]|[\]}}]", re.DOTALL)
_MAYBE_INFINITE = re.compile(r"NaN|Infinity|[0-9][eE]|[0-9]{300}")
"""Occurs in every text with a number that may not be finite: a float overflows at 1.8e308, with an exponent or about 300 digits."""
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[\]}}])", re.DOTALL)


def extract_json(text: str, *, prefer: Callable[[Any], bool] | None = None) -> Any:
    """Return the JSON value in a text: the whole text, else the first code fence with one, else the first object or list.

    A byte order mark and trailing commas are accepted. A list of numbers, such as the footnote mark `[1]`, is the last
    choice. With `prefer`, the first of 16 values that it accepts comes before all others. Raise `OutputInvalid`, with the
    reason, if there is none.
    """
    text = text.removeprefix("\ufeff").strip()
    if len(text) > MAX_TEXT_CHARS:
        raise _no_json(f"it has {len(text):,} characters, more than the limit of {MAX_TEXT_CHARS:,}")
    reading = _Reading(text)
    values = reading.values()
    if not values:
        raise _no_json(reading.why)
    # An answer may hold other JSON before the value that was asked for.
    good = (value for value in values[:MAX_TRIED] if prefer is not None and prefer(value))
    readable = (value for value in values if not _is_mark(value))
    return next(good, next(readable, values[0]))


class _Reading:
    """One search of one text. `why` is the reason if nothing is found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.why = "it contains no JSON" if text else "it is empty"
        self._left = _PASSES * len(text) + _EXTRA_CHARS

    def values(self) -> list[Any]:
        """Return the values, in order of preference."""
        return self._whole(self.text) or [*self._fenced(), *self._in_prose()]

    def _in_prose(self) -> list[Any]:
        """Return every object and list that is not inside another."""
        found: list[Any] = []
        position = self._next_start(0)
        while position >= 0 and self._left > 0 and len(found) < MAX_VALUES:
            value, end = self._at(position)
            found += value
            position = self._next_start(end)
        return found

    def _next_start(self, position: int) -> int:
        start = _START.search(self.text, position)
        return start.start() if start else -1

    def _fenced(self) -> Iterator[Any]:
        for fence in islice(_FENCE.finditer(self.text), MAX_VALUES):
            yield from self._whole(fence[2].strip())

    def _whole(self, text: str) -> list[Any]:
        """Return the value of a text that is JSON, trailing commas allowed; empty if it is not."""
        found, stop = self._parse(text)
        if stop is not None and _is_trailing_comma(text, stop) and _balanced_end(text, 0) == len(text):
            found, _ = self._parse(_TRAILING_COMMA.sub(r"\1", text))
        return found

    def _parse(self, text: str) -> tuple[list[Any], int | None]:
        """Return the value of a text, and where the parser stopped if trailing commas may be the cause."""
        try:
            return self._usable(json.loads(text), text), None
        except json.JSONDecodeError as error:
            if text[:1] not in ("{", "["):
                return [], None
            self.why = _describe_error(error)
            return [], error.pos
        except (ValueError, RecursionError) as error:
            self.why = (
                "it is nested too deeply"
                if isinstance(error, RecursionError)
                else "it contains a number that is too long"
            )
            return [], None

    def _at(self, start: int) -> tuple[list[Any], int]:
        """Return the value that starts here, and where to look for the next one."""
        try:
            value, end = _DECODER.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            # Making a `JSONDecodeError` counts the line ends before its position, so a failure costs more late in a
            # text.
            self._left -= _reach(error) - start + _FAILURE_COST + start // 16
            if _is_trailing_comma(self.text, error.pos):
                return self._without_trailing_commas(start)
        except (ValueError, RecursionError):
            # These errors do not say how far the parser came, so the whole rest counts as read.
            self._left -= len(self.text) - start
        else:
            self._left -= end - start
            return self._usable(value, self.text[start:end]), end
        return [], start + 1

    def _without_trailing_commas(self, start: int) -> tuple[list[Any], int]:
        """Return the same for a value with trailing commas."""
        end = _balanced_end(self.text, start)
        self._left -= 2 * ((end or len(self.text)) - start)
        found = self._whole(self.text[start:end]) if end else []
        return (found, end) if end and found else ([], start + 1)

    def _usable(self, value: Any, text: str) -> list[Any]:
        """Return the value unless it nests too deep or has infinite numbers."""
        # Counting brackets is much cheaper than walking the value, which cannot nest deeper than it has brackets.
        is_deep = (
            text.count("[") + text.count("{") > MAX_VALUE_DEPTH
            and measure_depth(value, limit=MAX_VALUE_DEPTH) > MAX_VALUE_DEPTH
        )
        if is_deep:
            self.why = f"it is nested more than {MAX_VALUE_DEPTH} levels deep"
        elif _MAYBE_INFINITE.search(text) and not _is_finite(value):
            self.why = "it contains a number that is not finite"
        else:
            return [value]
        return []


def _no_json(why: str) -> OutputInvalid:
    return OutputInvalid(f"The answer cannot be read as JSON: {why}.", hint=_HINT)


def _describe_error(error: json.JSONDecodeError) -> str:
    # The parser came to the end of the text: the answer was cut, not malformed.
    if error.pos >= len(error.doc.rstrip()):
        return "it ends before the JSON is complete"
    return f"{error.msg} at line {error.lineno}, column {error.colno}"


def _reach(error: json.JSONDecodeError) -> int:
    """Return how far the parser has read. For an unclosed string it reports the start, but has read everything."""
    return len(error.doc) if error.msg.startswith("Unterminated") else error.pos + 1


def _is_mark(value: Any) -> bool:
    """Return True if a value looks like a footnote mark."""
    return isinstance(value, list) and all(type(item) in (int, float) for item in cast("list[Any]", value))


def _is_trailing_comma(text: str, position: int) -> bool:
    """Return True if the parser stopped at a trailing comma; Python versions differ in where exactly."""
    return text[position : position + 1] == "," or text[max(0, position - 1_024) : position].rstrip()[-1:] == ","


def _is_finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _balanced_end(text: str, start: int) -> int | None:
    """Return the end of the bracket that opens here; None if it is never closed or nests too deep."""
    depth = 0
    for match in _BRACKET.finditer(text, start):
        sign = match[0][0]
        depth += (sign in "[{") - (sign in "]}")
        if depth == 0:
            return match.end()
        if depth > MAX_VALUE_DEPTH:
            return None
    return None


MAX_ERRORS_SENT = 20
"""Errors that a model is sent; fixing these mostly fixes the rest."""


_QUOTED_ERRORS = 3
"""Errors that our message quotes."""
_WHOLE_FENCE = re.compile(r"\A```(?:json)?[^\S\n]*+\n(.*)\n```\Z", re.DOTALL | re.IGNORECASE)
"""Possessive, so that it matches in one way only and never backtracks."""


def note_reply(call: Call, reply: Reply) -> str:
    """Note the model's answer, and whether it was cut off; return its text."""
    call.notes.raw = reply.text
    # A whole answer may follow one that was cut.
    call.notes.detail.pop("truncated", None)
    if not reply.complete:
        call.notes.detail["truncated"] = True
    return reply.text


async def read_answer(text: str, schema: Schema) -> tuple[Any, tuple[SchemaError, ...]]:
    """Return the JSON in an answer and its schema errors; of several values, one that fits."""
    return await offload_if_large(len(text), _read, text, schema)


def parse_whole_object(text: str, *, longest: int) -> JsonObject:
    """Return the object that an answer consists of, possibly in a code fence; empty if it is anything else.

    An object that is too long, or names a field twice, does not count.
    """
    bare = text.removeprefix("\ufeff").strip()
    if len(bare) > longest:
        return {}
    inside = _WHOLE_FENCE.match(bare)
    try:
        answer: Any = json.loads(inside[1] if inside else bare, object_pairs_hook=_unique_fields)
    except (ValueError, RecursionError):
        return {}
    return json_object(answer)


def _unique_fields(fields: list[tuple[str, Any]]) -> JsonObject:
    # `json.loads` would silently keep the last of two fields with the same name.
    patched = dict(fields)
    if len(patched) < len(fields):
        raise ValueError("a field occurs twice")
    return patched


def _read(text: str, schema: Schema) -> tuple[Any, tuple[SchemaError, ...]]:
    try:
        value = extract_json(text, prefer=schema.fits)
    except OutputInvalid as fault:
        return None, (SchemaError(path="", message=fault.message, rule="json"),)
    errors = schema.errors(value)
    return (None if errors else value), errors


def write_correction(errors: Sequence[SchemaError]) -> str:
    """Return the message that asks a model to correct its answer."""
    faults = "\n".join(f"- {error.path or 'the answer'}: {error.message}" for error in errors[:MAX_ERRORS_SENT])
    return (
        f"Your answer does not match the schema:\n{faults}\n\n"
        "Fix these errors and answer again with the complete JSON only."
    )


def correct_request(request: Request, answer: str, errors: Sequence[SchemaError]) -> Request:
    """Return the request again, followed by the invalid answer and its errors."""
    # An empty answer is not repeated to the model.
    previous = (Message(role="assistant", text=answer[:_LONGEST_REPEATED]),) if answer.strip() else ()
    return replace(
        request, messages=(*request.messages, *previous, Message(role="user", text=write_correction(errors)))
    )


def output_error(call: Call, errors: Sequence[SchemaError], *, attempts: int = 1, hint: str) -> OutputInvalid:
    """Return the error for answers that do not satisfy the schema, with all errors of the last one."""
    is_cut = "truncated" in call.notes.detail
    messages = "; ".join(str(error) for error in errors[:_QUOTED_ERRORS])
    tries = "" if attempts == 1 else f" after {attempts} attempts"
    problems = [
        Problem(code="output-invalid", severity="error", message=error.message, field=error.path) for error in errors
    ]
    return OutputInvalid(
        f"The answer does not match the output schema of {call.artifact.name!r}{tries}: {messages.rstrip('.')}."
        + (" The answer was truncated at its length limit." if is_cut else ""),
        hint="Raise `max_tokens` in the skill, or ask for a shorter answer." if is_cut else hint,
        problems=problems,
    )
