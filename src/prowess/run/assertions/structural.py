"""Structural assertions: the form of an output, as JSON or as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from prowess.errors import OutputInvalid
from prowess.run.assertions.assertion import CheckedOutput, make_verdict
from prowess.run.call import Call, Verdict
from prowess.skill.assertion_specs import AssertionSeverity, AssertionSpec
from prowess.skill.json_values import parse_json
from prowess.skill.schema import compile_schema
from prowess.threads import offload_if_large

_QUOTED = 5
"""Errors that an explanation quotes."""


class StructuralAssertion:
    """The output satisfies a JSON Schema, has certain fields, or has a format."""

    def __init__(self, spec: AssertionSpec) -> None:
        self._spec = spec
        self._fault, description = _CHECKS[spec.check]
        self._description = spec.description or description(spec)

    @property
    def severity(self) -> AssertionSeverity:
        """The severity that the author chose."""
        return self._spec.severity

    @property
    def description(self) -> str:
        """The required form."""
        return self._description

    async def evaluate(self, subject: CheckedOutput, _call: Call, /) -> Verdict:
        """Check the form."""
        return make_verdict(self._spec, self._description, await self._fault(self._spec, subject))


async def _schema_fault(spec: AssertionSpec, subject: CheckedOutput) -> str:
    try:
        value = await subject.data()
    except OutputInvalid as fault:
        return fault.message
    errors = await offload_if_large(len(subject.text), compile_schema(spec.settings["schema"]).errors, value)
    messages = "; ".join(f"{error.path or 'the output'}: {error.message}" for error in errors[:_QUOTED])
    return f"{messages} (and {len(errors) - _QUOTED} more)" if len(errors) > _QUOTED else messages


async def _fields_fault(spec: AssertionSpec, subject: CheckedOutput) -> str:
    try:
        value = await subject.data()
    except OutputInvalid as fault:
        return fault.message
    if not isinstance(value, dict):
        return "It is not a JSON object."
    missing = [name for name in spec.settings["fields"] if not _has(cast("dict[str, Any]", value), name)]
    return f"Missing fields: {', '.join(missing)}." if missing else ""


def _has(fields: dict[str, Any], name: str) -> bool:
    """Return True if there is a field of that name or dotted path."""
    if name in fields:
        return True
    first, _, rest = name.partition(".")
    inner = fields.get(first)
    return bool(rest) and isinstance(inner, dict) and _has(cast("dict[str, Any]", inner), rest)


async def _format_fault(spec: AssertionSpec, subject: CheckedOutput) -> str:
    format_name: str = spec.settings["format"]
    text = subject.text.strip()
    if format_name == "not_empty":
        return "" if text else "It is empty."
    if format_name == "line":
        return "" if text and len(text.splitlines()) == 1 else f"It has {len(text.splitlines())} lines."
    try:
        value = await offload_if_large(len(text), parse_json, text) if subject.given is None else subject.given
    except (ValueError, RecursionError):
        return "It is not plain JSON."
    expected = {"json_object": dict, "json_array": list}.get(format_name)
    return (
        ""
        if expected is None or isinstance(value, expected)
        else f"It is JSON, but not an {format_name.removeprefix('json_')}."
    )


_FORMATS = {
    "json": "The output is plain JSON.",
    "json_object": "The output is a plain JSON object.",
    "json_array": "The output is a plain JSON array.",
    "line": "The output is one line.",
    "not_empty": "The output is not empty.",
}

_CHECKS: dict[str, tuple[Callable[[AssertionSpec, CheckedOutput], Awaitable[str]], Callable[[AssertionSpec], str]]] = {
    "json_schema": (_schema_fault, lambda _: "The output matches the JSON Schema."),
    "required_fields": (_fields_fault, lambda spec: f"The output has the fields {', '.join(spec.settings['fields'])}."),
    "format": (_format_fault, lambda spec: _FORMATS[spec.settings["format"]]),
}
