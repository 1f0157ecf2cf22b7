"""The assertions of promptfoo that Prowess can check, by their names, with and without `not-`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from prowess.authoring.evals.case import Check
from prowess.authoring.evals.formats.entries import (
    MAX_NAME_CHARS,
    contains,
    expectation,
    pattern,
    read_weight,
    structural,
    valid_check,
)
from prowess.authoring.evals.formats.source import At, EvalSource, as_list, as_object, as_text, read_schema
from prowess.skill.kinds import JsonObject
from prowess.suggestions import did_you_mean

Fill = Callable[[str], str]
"""Fills the variables of a test into a text."""

CODE_TYPES = frozenset({"javascript", "python", "ruby", "exec", "webhook"})
SIMILARITY_TYPES = frozenset({"similar", "levenshtein", "rouge-n", "bleu", "gleu", "meteor", "perplexity"})
MAX_NESTING = 3

_TRAJECTORY = "trajectory:"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """One assertion as written, with its variables filled in."""

    source: EvalSource
    at: At
    kind: str
    value: Any
    threshold: Any

    @property
    def texts(self) -> list[str]:
        """The texts of `value`: a list, or a text with commas."""
        values = self.value.split(",") if isinstance(self.value, str) else as_list(self.value)
        return [text for one in values if (text := as_text(one))]


def read_assertions(source: EvalSource, at: At, written: Any, fill: Fill, *, depth: int = 0) -> list[Check]:
    """Return the checks of a list of assertions. Those that cannot be checked are reported and left out."""
    found: list[Check] = []
    for index, entry in enumerate(as_list(written)):
        fields = as_object(entry)
        if fields is None or not isinstance(fields.get("type"), str):
            source.report_check("An assertion must be an object with `type`.", *at, index)
        elif fields["type"] == "assert-set" and depth < MAX_NESTING:
            found += _read_set(source, (*at, index), fields, fill, depth)
        else:
            found += _read_one(source, (*at, index), fields, fill)
    return found


def _read_set(source: EvalSource, at: At, fields: JsonObject, fill: Fill, depth: int) -> list[Check]:
    """Return the checks of a set. They share the set's weight; its own threshold is not supported."""
    inner = read_assertions(source, (*at, "assert"), fields.get("assert"), fill, depth=depth + 1)
    if fields.get("threshold") is not None:
        source.report("eval-setting", "A threshold of an `assert-set` is ignored; its checks count individually.", *at)
    total = sum(check.weight for check in inner) or 1.0
    weight = read_weight(source, at, fields)
    return [replace(check, weight=check.weight * weight / total) for check in inner]


def _read_one(source: EvalSource, at: At, fields: JsonObject, fill: Fill) -> list[Check]:
    kind: str = fields["type"]
    negate, name = kind.startswith("not-"), kind.removeprefix("not-")
    make = _MAKERS.get(name)
    if make is None:
        _report_unsupported(source, at, name)
        return []
    value = fields.get("value")
    filled = fill(value) if isinstance(value, str) and not value.startswith("file://") else _fill_list(value, fill)
    parsed = make(_Written(source=source, at=at, kind=name, value=filled, threshold=fields.get("threshold")))
    weight = read_weight(source, at, fields)
    title = as_text(fields.get("metric"))[:MAX_NAME_CHARS]
    return [
        valid
        for check in parsed
        for valid in valid_check(
            source, at, replace(check, weight=weight / len(parsed), negate=check.negate != negate, description=title)
        )
    ]


def _fill_list(value: Any, fill: Fill) -> Any:
    return [fill(one) if isinstance(one, str) else one for one in as_list(value)] if isinstance(value, list) else value


def _report_unsupported(source: EvalSource, at: At, name: str) -> None:
    if name in CODE_TYPES:
        message = f"A {name!r} assertion is code, which eval files never run. The check is left out."
        source.report("eval-code", message, *at, hint="Describe the result with `llm-rubric`, `contains` or `is-json`.")
    elif name.startswith((_TRAJECTORY, "trace-", "tool-call", "is-valid")):
        source.report_check(f"{name[:60]!r} is not supported: the tool calls of an agent are not known.", *at)
    elif name in SIMILARITY_TYPES:
        hint = "Use `llm-rubric` to compare meanings, or `equals`."
        source.report_check(f"The similarity {name!r} is not supported.", *at, hint=hint)
    else:
        hint = did_you_mean(name, _MAKERS) or f"Supported: {', '.join(_MAKERS)}."
        source.report_check(f"The assertion type {name[:60]!r} is not supported.", *at, hint=hint)


def _contains(one: _Written) -> list[Check]:
    ignore_case = one.kind.startswith("i")
    if one.kind.endswith(("-all", "-any")):
        return [contains(one.texts, mode=one.kind[-3:], ignore_case=ignore_case)]
    return [contains([as_text(one.value)] if as_text(one.value) else [], ignore_case=ignore_case)]


def _json(one: _Written) -> list[Check]:
    schema = one.value
    if isinstance(schema, str) and schema.startswith("file://"):
        schema = read_schema(one.source, schema.removeprefix("file://"), (*one.at, "value"), (one.source.folder, ""))
    if isinstance(schema, dict):
        return [Check(type="structural", settings=structural("json_schema", schema=schema))]
    if one.kind == "contains-json":
        return [Check(type="structural", settings=structural("json_schema", schema={"type": ["object", "array"]}))]
    return [Check(type="structural", settings=structural("format", format="json"))]


def _rubric(one: _Written) -> list[Check]:
    return [expectation(as_text(value)) for value in as_list(one.value) or [""]]


def _factuality(one: _Written) -> list[Check]:
    return [expectation(f"The output agrees with these facts and contradicts none of them: {as_text(one.value)}")]


def _goal(one: _Written) -> list[Check]:
    fields = as_object(one.value)
    goal = fields.get("goal") if fields else one.value
    return [expectation(f"The output shows that this goal was reached: {as_text(goal)}" if as_text(goal) else "")]


def _skill(one: _Written) -> list[Check]:
    fields = as_object(one.value)
    names = [fields.get("name")] if fields else as_list(one.value)
    return [Check(type="skill_used", settings={"skill": name}) for name in names] or [Check(type="skill_used")]


_MAKERS: dict[str, Callable[[_Written], list[Check]]] = {
    "equals": lambda one: [Check(type="equals", settings={"value": one.value})],
    "contains": _contains,
    "contains-all": _contains,
    "contains-any": _contains,
    "icontains": _contains,
    "icontains-all": _contains,
    "icontains-any": _contains,
    "starts-with": lambda one: [Check(type="starts_with", settings={"value": one.value})],
    "regex": lambda one: [pattern(as_text(one.value))],
    "is-json": _json,
    "contains-json": _json,
    "llm-rubric": _rubric,
    "g-eval": _rubric,
    "model-graded-closedqa": _rubric,
    "model-graded-factuality": _factuality,
    "factuality": _factuality,
    "answer-relevance": lambda _: [expectation("The output answers the message that was asked.")],
    "is-refusal": lambda _: [expectation("The output refuses the request.")],
    "trajectory:goal-success": _goal,
    "cost": lambda one: [Check(type="cost", settings={"max": one.threshold})],
    "latency": lambda one: [Check(type="latency", settings={"max_ms": one.threshold})],
    "skill-used": _skill,
}
