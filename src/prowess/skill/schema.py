"""JSON Schemas that skills bring: compiled once, checked offline, in bounded time.

A schema is somebody else's text. It reaches nothing outside itself, its patterns run in linear time, and it may be no
larger and no deeper than the limits here. Where finding every fault of a value would take too long, the verdict is
still right and only the list of faults is short.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn, cast

from pydantic_core import to_json

from prowess.errors import Invalid, Problem
from prowess.skill.schema_work import UnfitReference, Work, work_of

LARGEST_SCHEMA = 256 * 1024
DEEPEST_SCHEMA = 64
LARGEST_VALUE = 8 * 1024 * 1024
MOST_ERRORS = 50
LONGEST_MESSAGE = 200
MOST_BRANCHES = 100_000
MOST_WORK = 10_000_000
"""So many times parts of a schema may be applied to a value and all that is in it, for a verdict alone."""
MOST_MATCHED = 20_000_000
"""How many characters the patterns of a schema may go through, all together."""
MOST_DIVIDED = 10_000
"""How often numbers of very many digits may be divided."""
MOST_NESTING = 1_000
"""How many parts may follow upon each other, over all levels of a value, for its faults to be told."""
MOST_STEPS = 50_000
"""The same where every fault is told, which costs far more for each."""

_TOO_DEEP = "it nests too deep"
_LARGEST_PATTERN = 1024 * 1024
_LONG_NUMBER = re.compile(rb"[\[,:]-?+[0-9](?:[0-9]{19}|[0-9.]*+[eE][-+]?+[0-9]{2})")
"""A number of very many digits, however it is written."""
_HINT = "Write a JSON Schema whose $refs stay inside it and whose patterns have no look-around and no back-references."


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaError:
    """One way in which a value does not fit: where (a JSON Pointer, '' for the whole), why, and the keyword that says so."""

    path: str
    message: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message}"

    def as_json(self) -> dict[str, str]:
        """What is shown and stored of it."""
        return {"path": self.path, "message": self.message, "rule": self.rule}


class Schema:
    """A compiled schema. It never changes, and any number of threads may use it."""

    __slots__ = ("_validator", "_work", "source")

    def __init__(self, source: dict[str, Any] | bool, validator: Any, work: Work) -> None:
        self.source = source
        self._validator = validator
        self._work = work

    def errors(self, value: Any) -> tuple[SchemaError, ...]:
        """Every way in which a JSON value does not fit, the first 50 of them; none where it does.

        A value that is not JSON, too large or too deep does not fit. No message quotes the value itself.
        """
        try:
            text = _written(value)
            fault = self._fault_of(text)
            if fault:
                return (_whole(fault),)
            if self._validator.is_valid(value):
                return ()
            return self._faults(value, text)
        except (TypeError, ValueError, RecursionError) as error:
            return (_whole(_why_not_json(error)),)

    def fits(self, value: Any) -> bool:
        """Whether a JSON value satisfies it: the same as no `errors`, without the work of finding them."""
        try:
            return not self._fault_of(_written(value)) and self._validator.is_valid(value)
        except (TypeError, ValueError, RecursionError):
            return False

    def _fault_of(self, text: bytes) -> str:
        """Why a value is not checked at all; '' where it is."""
        if len(text) > LARGEST_VALUE:
            return f"it has {len(text):,} bytes as JSON; {LARGEST_VALUE:,} are the most"
        if self._is_more(text, MOST_WORK) or self._work.patterns * len(text) > MOST_MATCHED:
            return "it is too large to be held to a schema with so many branches"
        if self._work.divisions and self._work.divisions * len(_LONG_NUMBER.findall(text)) > MOST_DIVIDED:
            return "it has too many numbers of very many digits to be held to a schema with multipleOf"
        return ""

    def _faults(self, value: Any, text: bytes) -> tuple[SchemaError, ...]:
        levels = MOST_NESTING // self._work.longest
        if _brackets(text) >= levels and depth_of(value, most=levels) >= levels:
            return (_whole("it does not fit; it nests too deep to say where"),)
        is_little = not (self._work.is_cyclic or self._is_more(text, MOST_STEPS))
        if is_little or self._work.within(value, MOST_STEPS):
            return tuple(_told(error) for error in islice(self._validator.iter_errors(value), MOST_ERRORS))
        return (_whole("it does not fit; there are too many branches to say where"),)

    def _is_more(self, text: bytes, most: int) -> bool:
        """Whether the work on a value may be more than that, by the number of values in its text."""
        load = self._work.load
        return load * len(text) > most and load * _size(text) > most


def compile_schema(schema: Any) -> Schema:
    """The schema, compiled; the same content is compiled once.

    `Invalid` is raised, with every problem known, for what is not a schema, reaches outside itself, has a pattern that
    cannot run in linear time, or is larger or deeper than it may be.
    """
    try:
        text = to_json(schema)
    except ValueError as error:
        raise _refused("schema-invalid", f"The schema is not JSON: {_short(str(error))}.") from error
    if len(text) > LARGEST_SCHEMA:
        message = f"The schema has {len(text):,} bytes; {LARGEST_SCHEMA:,} are the most."
        raise _refused("schema-large", message)
    return _compiled(text)


def with_defaults(schema: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """The value with the defaults that the schema gives for its own properties where they are missing."""
    filled = dict(value)
    properties: Any = cast("Any", schema).get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return filled
    for name, about in cast("Mapping[str, Any]", properties).items():
        if name not in filled and isinstance(about, Mapping) and "default" in about:
            filled[name] = copy.deepcopy(cast("Mapping[str, Any]", about)["default"])
    return filled


def depth_of(value: Any, *, most: int) -> int:
    """How deep lists and objects nest, or `most` + 1 where that is deeper; a plain value is 0 deep."""
    depth, level = 0, [value]
    while depth <= most:
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return depth
        depth += 1
    return depth


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list | tuple) else ()


@lru_cache(maxsize=256)
def _compiled(text: bytes) -> Schema:
    import jsonschema_rs

    try:
        source = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _refused("schema-invalid", f"The schema is not JSON: {_short(str(error))}.") from error
    if not isinstance(source, dict | bool):
        raise _refused("schema-invalid", "A schema is an object, or true or false.")
    if depth_of(source, most=DEEPEST_SCHEMA) > DEEPEST_SCHEMA:
        raise _refused("schema-deep", f"The schema nests deeper than {DEEPEST_SCHEMA} levels.")
    source = cast("dict[str, Any] | bool", source)
    work = _work_of(source)
    options = jsonschema_rs.RegexOptions(size_limit=_LARGEST_PATTERN)
    try:
        validator = jsonschema_rs.validator_for(source, offline=True, mask="it", pattern_options=options)
    except jsonschema_rs.ValidationError as error:
        place = _pointer(error.instance_path)
        raise _refused(
            "schema-invalid", f"The schema cannot be used{place and f' at {place}'}: {_short(error.message)}."
        ) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise _refused("schema-invalid", f"The schema cannot be used: {_short(str(error))}.") from error
    return Schema(source, validator, work)


def _work_of(source: dict[str, Any] | bool) -> Work:
    try:
        work = work_of(source)
    except UnfitReference as error:
        raise _refused("schema-invalid", f"The schema cannot be used: {_short(str(error))}.") from error
    if work.spread > MOST_BRANCHES:
        message = f"The schema has more than {MOST_BRANCHES:,} branches when its references are followed."
        raise _refused("schema-branches", message)
    return work


def _refused(code: str, message: str) -> Invalid:
    problem = Problem(code=code, severity="error", message=message, hint=_HINT)
    return Invalid(message, hint=_HINT, problems=[problem])


def _whole(message: str) -> SchemaError:
    return SchemaError(path="", message=message, rule="json")


def _written(value: Any) -> bytes:
    """The value as JSON; `ValueError` where it is none."""
    text = to_json(value)
    if b"NaN" in text or b"Infinity" in text:
        json.dumps(value, allow_nan=False)
    return text


def _why_not_json(error: Exception) -> str:
    is_deep = isinstance(error, RecursionError) or "depth exceeded" in str(error)
    return _TOO_DEEP if is_deep else f"it is not JSON: {_short(str(error))}"


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _size(text: bytes) -> int:
    """How many values there are in a JSON text at most."""
    return 1 + text.count(b",") + _brackets(text)


def _brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _told(error: Any) -> SchemaError:
    return SchemaError(path=_short(_pointer(error.instance_path)), message=_short(error.message), rule=error.kind.name)


def _pointer(path: list[str | int]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def _short(text: str) -> str:
    text = text.partition("\n")[0].rstrip(".")
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"
