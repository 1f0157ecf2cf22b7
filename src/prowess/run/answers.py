"""Read JSON from a model's answer, check it against a schema, and describe what does not fit.

Answers are parsed, never evaluated, in time that grows linearly with their length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from prowess.errors import OutputInvalid, Problem
from prowess.llm.model import Reply
from prowess.run.call import Call
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import Schema, SchemaError, measure_depth
from prowess.threads import offload_if_large

MAX_TEXT_CHARS = 2 * 1024 * 1024
MAX_VALUES = 64
MAX_VALUE_DEPTH = 128

MAX_TRIED = 16
"""How many values may be put before whoever prefers one."""

_PASSES = 2
"""How often a character may be read on average: what stands in brackets in prose is mostly no JSON, and ends at once."""
_FREE = 200_000
"""So many characters may be read besides: a short text may have many brackets that are no JSON."""
_COST_OF_FAILING = 200
"""What it takes to find out that no value starts at a bracket, in characters; to it comes counting the lines up to there."""
_HINT = "Ask for JSON alone, or use a model that can be held to a schema."
_DECODER = json.JSONDecoder()
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[^\n`]*+\n(.*?)(?:^[ \t]*+\1|\Z)", re.MULTILINE | re.DOTALL)
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""A string that is never closed goes on to the end, so that no part of it is read again."""
_START = re.compile(r"\{(?=\s*+[\"}])|\[(?=\s*+[\[{\"\]\-0-9tfn])")
"""What may be the beginning of an object or a list; most brackets of prose and of code are not."""
_BRACKET = re.compile(rf"{_STRING}|[\[{{]|[\]}}]", re.DOTALL)
_ENDLESS = re.compile(r"NaN|Infinity|[0-9][eE]|[0-9]{300}")
"""What a number that is not finite has in it."""
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[\]}}])", re.DOTALL)


def extract_json(text: str, *, prefer: Callable[[Any], bool] | None = None) -> Any:
    """The JSON value in a text: the whole text, else the first fence that holds one, else the first object or list in it.

    A byte order mark, commas before a closing bracket and anything around the value do no harm. A list of numbers, such
    as the mark [1] of a note, is taken only where there is nothing else. With `prefer`, the first value that it says yes
    to, of 16 that it is asked about, comes before all others. `OutputInvalid` says why there is none.
    """
    text = text.removeprefix("\ufeff").strip()
    if len(text) > MAX_TEXT_CHARS:
        raise _nothing(f"it has {len(text):,} characters; {MAX_TEXT_CHARS:,} are the most")
    reading = _Reading(text)
    values = reading.values()
    if not values:
        raise _nothing(reading.why)
    good = (value for value in values[:MAX_TRIED] if prefer is not None and prefer(value))
    told = (value for value in values if not _is_mark(value))
    return next(good, next(told, values[0]))


class _Reading:
    """One reading of one text. `why` says what is in the way, where nothing is found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.why = "there is no JSON in it" if text else "it is empty"
        self._left = _PASSES * len(text) + _FREE

    def values(self) -> list[Any]:
        """What is found, in the order of preference."""
        return self._whole(self.text) or [*self._fenced(), *self._in_prose()]

    def _in_prose(self) -> list[Any]:
        """Every object and list that does not stand in another."""
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
        """The value that a text is, commas before closing brackets left aside; none where it is no JSON or too much."""
        found, stop = self._tried(text)
        if stop is not None and _is_comma_fault(text, stop) and _balanced_end(text, 0) == len(text):
            found, _ = self._tried(_TRAILING_COMMA.sub(r"\1", text))
        return found

    def _tried(self, text: str) -> tuple[list[Any], int | None]:
        """The value that a text is, and where the parser stopped; None where it did not, or where it makes no difference."""
        try:
            return self._usable(json.loads(text), text), None
        except json.JSONDecodeError as error:
            if text[:1] not in ("{", "["):
                return [], None
            self.why = _told(error)
            return [], error.pos
        except (ValueError, RecursionError) as error:
            self.why = "it nests too deep" if isinstance(error, RecursionError) else "a number in it is too long"
            return [], None

    def _at(self, start: int) -> tuple[list[Any], int]:
        """The value that starts here, and where to look for the next one."""
        try:
            value, end = _DECODER.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            self._left -= _reach(error) - start + _COST_OF_FAILING + start // 16
            if _is_comma_fault(self.text, error.pos):
                return self._mended(start)
        except (ValueError, RecursionError):
            self._left -= len(self.text) - start
        else:
            self._left -= end - start
            return self._usable(value, self.text[start:end]), end
        return [], start + 1

    def _mended(self, start: int) -> tuple[list[Any], int]:
        """The same for a value with commas before closing brackets."""
        end = _balanced_end(self.text, start)
        self._left -= 2 * ((end or len(self.text)) - start)
        found = self._whole(self.text[start:end]) if end else []
        return (found, end) if end and found else ([], start + 1)

    def _usable(self, value: Any, text: str) -> list[Any]:
        """The value, written so, where it may be used: it does not nest too deep, and its numbers are finite."""
        is_deep = (
            text.count("[") + text.count("{") > MAX_VALUE_DEPTH
            and measure_depth(value, most=MAX_VALUE_DEPTH) > MAX_VALUE_DEPTH
        )
        if is_deep:
            self.why = f"it nests deeper than {MAX_VALUE_DEPTH} levels"
        elif _ENDLESS.search(text) and not _is_finite(value):
            self.why = "a number in it is not finite"
        else:
            return [value]
        return []


def _nothing(why: str) -> OutputInvalid:
    return OutputInvalid(f"The answer cannot be read as JSON: {why}.", hint=_HINT)


def _told(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()):
        return "it breaks off before it is complete"
    return f"{error.msg} at line {error.lineno}, column {error.colno}"


def _reach(error: json.JSONDecodeError) -> int:
    """How far the parser has read; where a string is not closed it names the beginning, and has read all."""
    return len(error.doc) if error.msg.startswith("Unterminated") else error.pos + 1


def _is_mark(value: Any) -> bool:
    """Whether a value is what the mark of a note looks like."""
    return isinstance(value, list) and all(type(item) in (int, float) for item in cast("list[Any]", value))


def _is_comma_fault(text: str, position: int) -> bool:
    """Whether a parser that stopped here stopped at a comma that nothing follows; they differ in where they stop."""
    return text[position : position + 1] == "," or text[max(0, position - 1_024) : position].rstrip()[-1:] == ","


def _is_finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _balanced_end(text: str, start: int) -> int | None:
    """Where the bracket that opens here is closed; None where it never is, or where too many open inside."""
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
"""How many faults a model is told of; mending these mostly mends the rest."""


_SHOWN = 3
"""How many faults an error tells in its own words."""
_WHOLE_FENCE = re.compile(r"\A```(?:json)?[^\S\n]*+\n(.*)\n```\Z", re.DOTALL | re.IGNORECASE)
"""It has one way to match, whatever stands in the text."""


def note_reply(call: Call, reply: Reply) -> str:
    """The text of the last answer, which is noted, and with it whether it was cut at the limit of its length."""
    call.notes.raw = reply.text
    call.notes.detail.pop("truncated", None)
    if not reply.complete:
        call.notes.detail["truncated"] = True
    return reply.text


async def read_answer(text: str, schema: Schema) -> tuple[Any, tuple[SchemaError, ...]]:
    """The JSON value in an answer and how it differs from the schema; where there are several values, one that fits."""
    return await offload_if_large(len(text), _read, text, schema)


def parse_whole_object(text: str, *, longest: int) -> JsonObject:
    """The object that an answer is, and nothing besides, in a code fence at most; an empty one where it is none.

    One that is longer than it may be, or names a field twice, is none.
    """
    bare = text.removeprefix("\ufeff").strip()
    if len(bare) > longest:
        return {}
    inside = _WHOLE_FENCE.match(bare)
    try:
        answer: Any = json.loads(inside[1] if inside else bare, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", answer) if isinstance(answer, dict) else {}


def _each_once(fields: list[tuple[str, Any]]) -> JsonObject:
    made = dict(fields)
    if len(made) < len(fields):
        raise ValueError("a field is named twice")
    return made


def _read(text: str, schema: Schema) -> tuple[Any, tuple[SchemaError, ...]]:
    try:
        value = extract_json(text, prefer=schema.fits)
    except OutputInvalid as fault:
        return None, (SchemaError(path="", message=fault.message, rule="json"),)
    errors = schema.errors(value)
    return (None if errors else value), errors


def write_correction(errors: Sequence[SchemaError]) -> str:
    """What a model is told of an answer that does not fit."""
    faults = "\n".join(f"- {error.path or 'the answer'}: {error.message}" for error in errors[:MAX_ERRORS_SENT])
    return (
        f"That answer does not satisfy the schema:\n{faults}\n\n"
        "Answer once more, with the whole JSON and nothing else, and with these faults mended."
    )


def output_error(call: Call, errors: Sequence[SchemaError], *, attempts: int = 1, hint: str) -> OutputInvalid:
    """The error of an artifact none of whose answers satisfies its schema; it has all faults of the last."""
    is_cut = "truncated" in call.notes.detail
    told = "; ".join(str(error) for error in errors[:_SHOWN])
    tries = "once" if attempts == 1 else f"{attempts} times"
    problems = [
        Problem(code="output-invalid", severity="error", message=error.message, field=error.path) for error in errors
    ]
    return OutputInvalid(
        f"{call.artifact.name!r} was asked {tries} and gave nothing that satisfies its output schema: {told.rstrip('.')}."
        + (" The answer was cut at the limit of its length." if is_cut else ""),
        hint="Raise max_tokens, or ask for less." if is_cut else hint,
        problems=problems,
    )
