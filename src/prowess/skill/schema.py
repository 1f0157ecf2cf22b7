"""Compile the JSON Schemas of skills once, and check values offline, in bounded time.

A schema is untrusted. It can reach nothing outside itself, its patterns run in linear time, and its size and depth are
limited. If listing every error of a value would take too long, the verdict is still right and only the list is short.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, cast

from pydantic_core import to_json

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.skill.json_values import parse_json
from prowess.skill.schema_cost import InvalidReference, SchemaCost, measure_schema

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_VALUE_BYTES = 8 * 1024 * 1024
MAX_ERRORS = 50
MAX_MESSAGE_CHARS = 200
MAX_BRANCHES = 100_000
MAX_COST = 10_000_000
"""How many times parts of a schema may be applied to a value and everything in it, for a verdict alone."""
MAX_MATCHED_CHARS = 20_000_000
"""How many characters all patterns of a schema together may scan."""
MAX_LONG_DIVISIONS = 10_000
"""How many divisions of very long numbers are allowed."""
MAX_NESTING = 1_000
"""How many parts may be nested, over all levels of a value, for its errors to be listed."""
MAX_ERROR_COST = 50_000
"""The same as `MAX_COST` for listing every error, which costs far more for each part."""

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_TOO_DEEP = "it is nested too deeply"
# The compiled size of one pattern: repetitions such as `(a{1000}){1000}` are short to write and large to compile.
_MAX_PATTERN_BYTES = 1024 * 1024
# A number follows a bracket, a comma or a colon, since the JSON is compact. The possessive quantifiers keep the search
# linear.
_LONG_NUMBER = re.compile(rb"[\[,:]-?+[0-9](?:[0-9]{19}|[0-9.]*+[eE][-+]?+[0-9]{2})")
"""A number with very many digits, in any notation."""
_HINT = "Use a JSON Schema whose $refs stay inside it and whose patterns have no look-around or back-references."


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaError:
    """One mismatch: where (a JSON Pointer, '' for the whole value), why, and the keyword of the schema."""

    path: str
    message: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message}"

    def as_json(self) -> dict[str, str]:
        """Return the error as JSON, as it is shown and stored."""
        return {"path": self.path, "message": self.message, "rule": self.rule}


class Schema:
    """A compiled schema. It is immutable, and any number of threads may use it."""

    __slots__ = ("_cost", "_validator", "source")

    def __init__(self, source: dict[str, Any] | bool, validator: Any, cost: SchemaCost) -> None:
        self.source = source
        self._validator = validator
        self._cost = cost

    def errors(self, value: Any) -> tuple[SchemaError, ...]:
        """Return the first 50 mismatches of a JSON value; () if it fits.

        A value that is not JSON, too large or too deep does not fit. No message quotes the value.
        """
        try:
            text = _encode(value)
            fault = self._fault_of(text)
            if fault:
                return (_whole_value_error(fault),)
            # The verdict comes first: it costs far less than the list of errors.
            if self._validator.is_valid(value):
                return ()
            return self._faults(value, text)
        except (TypeError, ValueError, RecursionError) as error:
            return (_whole_value_error(_explain_not_json(error)),)

    def fits(self, value: Any) -> bool:
        """Return True if a JSON value fits: the same as no `errors`, without the cost of finding them."""
        try:
            return not self._fault_of(_encode(value)) and self._validator.is_valid(value)
        except (TypeError, ValueError, RecursionError):
            return False

    def _fault_of(self, text: bytes) -> str:
        """Return why a value cannot be checked; '' if it can."""
        if len(text) > MAX_VALUE_BYTES:
            return f"it is {len(text):,} bytes as JSON; the limit is {MAX_VALUE_BYTES:,}"
        if self._is_more(text, MAX_COST) or self._cost.patterns * len(text) > MAX_MATCHED_CHARS:
            return "it is too large to check against a schema with this many branches"
        if self._cost.divisions and self._cost.divisions * len(_LONG_NUMBER.findall(text)) > MAX_LONG_DIVISIONS:
            return "it has too many very long numbers to check against a schema with multipleOf"
        return ""

    def _faults(self, value: Any, text: bytes) -> tuple[SchemaError, ...]:
        # The error iterator recurses in native code: too deep a value would overflow the stack and end the process.
        # The stack grows by the longest chain of parts at each level of the value.
        levels = MAX_NESTING // self._cost.longest
        # The number of brackets is an upper bound for the depth and quick to count; most values need no walk.
        if _count_brackets(text) >= levels and measure_depth(value, limit=levels) >= levels:
            return (_whole_value_error("it does not match, and is nested too deeply to say where"),)
        # The estimate is not safe for a schema that refers to itself, where the work depends on the shape of the value:
        # that is counted exactly.
        is_little = not (self._cost.is_cyclic or self._is_more(text, MAX_ERROR_COST))
        if is_little or self._cost.within(value, MAX_ERROR_COST):
            return tuple(_convert_error(error) for error in islice(self._validator.iter_errors(value), MAX_ERRORS))
        return (_whole_value_error("it does not match, and the schema has too many branches to say where"),)

    def _is_more(self, text: bytes, limit: int) -> bool:
        """Return True if the cost of a value may exceed `limit`, estimated by the number of values in its text."""
        load = self._cost.load
        # Every value takes at least one byte. So the length alone settles most cases, and only the rest is counted.
        return load * len(text) > limit and load * _count_values(text) > limit


def compile_schema(schema: Any) -> Schema:
    """Return the compiled schema; the same content is compiled once.

    Raise `Invalid`, with every known problem, for a value that is not a schema, refers outside itself, has a pattern that cannot
    run in linear time, or is too large or nested too deeply.
    """
    try:
        text = to_json(schema)
    except ValueError as error:
        raise _schema_problem("schema-invalid", f"The schema is not valid JSON: {_shorten(str(error))}.") from error
    if len(text) > MAX_SCHEMA_BYTES:
        message = f"The schema is {len(text):,} bytes; the limit is {MAX_SCHEMA_BYTES:,}."
        raise _schema_problem("schema-large", message)
    # Cached by its text: a dict cannot be a key, and one that the caller changes later must not change the compiled
    # schema.
    return _compile_text(text)


def fill_defaults(schema: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value with the defaults of the schema for top-level properties that are missing."""
    filled = dict(value)
    properties: Any = cast("Any", schema).get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return filled
    for name, about in cast("Mapping[str, Any]", properties).items():
        if name not in filled and isinstance(about, Mapping) and "default" in about:
            filled[name] = copy.deepcopy(cast("Mapping[str, Any]", about)["default"])
    return filled


def measure_depth(value: Any, *, limit: int) -> int:
    """Return how deeply lists and objects nest, at most `limit` + 1; a plain value has depth 0."""
    depth, level = 0, [value]
    while depth <= limit:
        level = [inner for item in level for inner in _children_of(item)]
        if not level:
            return depth
        depth += 1
    return depth


def _children_of(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list | tuple) else ()


@lru_cache(maxsize=256)
def _compile_text(text: bytes) -> Schema:
    import jsonschema_rs

    try:
        # A separate copy, with each part once, so that identities in `schema_cost` stand for parts.
        source = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise _schema_problem("schema-invalid", f"The schema is not valid JSON: {_shorten(str(error))}.") from error
    if not isinstance(source, dict | bool):
        raise _schema_problem("schema-invalid", "A schema must be an object, true or false.")
    if measure_depth(source, limit=MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH:
        raise _schema_problem("schema-deep", f"The schema is nested deeper than {MAX_SCHEMA_DEPTH} levels.")
    source = cast("dict[str, Any] | bool", source)
    cost = _measure_cost(source)
    # RegexOptions selects the linear-time engine; the default one backtracks. `mask` keeps values out of messages.
    options = jsonschema_rs.RegexOptions(size_limit=_MAX_PATTERN_BYTES)
    try:
        validator = jsonschema_rs.validator_for(source, offline=True, mask="it", pattern_options=options)
    except jsonschema_rs.ValidationError as error:
        pointer = _format_pointer(error.instance_path)
        # The validator lists no types, only that none of the schemas for a type fits.
        reason = f"it is not one of {', '.join(TYPES)}" if pointer.endswith("/type") else _shorten(error.message)
        raise _schema_problem(
            "schema-invalid", f"The schema is not valid{pointer and f' at {pointer}'}: {reason}."
        ) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise _schema_problem("schema-invalid", f"The schema is not valid: {_shorten(str(error))}.") from error
    return Schema(source, validator, cost)


def _measure_cost(source: dict[str, Any] | bool) -> SchemaCost:
    try:
        cost = measure_schema(source)
    except InvalidReference as error:
        raise _schema_problem("schema-invalid", f"The schema is not valid: {_shorten(str(error))}.") from error
    if cost.spread > MAX_BRANCHES:
        message = f"The schema has more than {MAX_BRANCHES:,} branches after resolving its references."
        raise _schema_problem("schema-branches", message)
    return cost


def _schema_problem(code: str, message: str) -> Invalid:
    problem = Problem(code=code, severity="error", message=message, hint=_HINT)
    return Invalid(message, hint=_HINT, problems=[problem])


def _whole_value_error(message: str) -> SchemaError:
    return SchemaError(path="", message=message, rule="json")


def _encode(value: Any) -> bytes:
    """Return the value as JSON; raise `ValueError` if it is not JSON."""
    # pydantic writes NaN and Infinity, which are not JSON; the slow check runs only if the letters occur at all.
    text = to_json(value)
    if b"NaN" in text or b"Infinity" in text:
        json.dumps(value, allow_nan=False)
    return text


def _explain_not_json(error: Exception) -> str:
    is_deep = isinstance(error, RecursionError) or "depth exceeded" in str(error)
    return _TOO_DEEP if is_deep else f"it is not valid JSON: {_shorten(str(error))}"


def _count_values(text: bytes) -> int:
    """Return an upper bound for the number of values in a JSON text."""
    return 1 + text.count(b",") + _count_brackets(text)


def _count_brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _convert_error(error: Any) -> SchemaError:
    return SchemaError(
        path=_shorten(_format_pointer(error.instance_path)), message=_shorten(error.message), rule=error.kind.name
    )


def _format_pointer(path: list[str | int]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def _shorten(text: str) -> str:
    text = text.partition("\n")[0].rstrip(".")
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"
