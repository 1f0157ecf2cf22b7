"""Exact scorers: compare an output with the expected one without any model.

| type | settings | the score |
|---|---|---|
| `equals` | `value` | 1 if the text, or the data, is exactly this |
| `normalized` | `value` | the same for text, whatever its case, spacing and final punctuation |
| `one_of` | `values` | 1 if the normalized text is one of these |
| `contains` | `value` or `values`, `mode` (`all`, `any`), `ignore_case` | the share of texts that occur; with `any`, 1 if one does |
| `starts_with` | `value`, `ignore_case` | 1 if the text starts with this |
| `number` | `value`, `tolerance`, `relative` | 1 if the last number of the text is near enough |
| `json_subset` | `value` | 1 if the data has at least these fields and items |
| `f1` | `values`, `min` | the F1 score of the items of the output |

Without `value` or `values`, the expected output of the case is used. `field`, such as `result.label`, compares one field of
the data instead of the whole output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from prowess.skill.json_values import equal_json, json_list
from prowess.skill.kinds import JsonObject

_SPACE = re.compile(r"\s+")
# A hyphen after a word or a number is not a minus sign: `10-20`, `2026-03-01`, `gpt-4`.
_NUMBER = re.compile(r"(?:(?<![\w.)\]])[-+])?(?:[0-9][0-9,]*+(?:\.[0-9]++)?|\.[0-9]++)(?:[eE][-+]?[0-9]{1,3})?+")
_ITEM = re.compile(r"[\n,;]")
_BULLET = re.compile(r"^\s*(?:[-*•]|[0-9]{1,4}[.)])\s+")
_SHOWN = 120
_MISSING: Any = object()

MAX_VALUES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How well an output fits, from 0 to 1, and why not fully. `minimum` is the score that passes."""

    score: float
    explanation: str = ""
    minimum: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The output that scorers compare. `data` is None if the output is not JSON."""

    text: str
    data: Any = None
    expected: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """One type of comparison. `names` are the settings that it takes besides `field`."""

    compare: Callable[[JsonObject, Any, str], Comparison]
    names: frozenset[str]
    takes: Callable[[Any], str]
    """Returns why a value cannot be compared with, or ''."""
    needs_data: bool = False


def check_settings(kind: str, settings: Mapping[str, Any], expected: Any) -> list[str]:
    """Return what is wrong with the settings of a scorer, for a case with this expected output."""
    scorer = SCORERS[kind]
    faults = [
        f"`{name}` is not a setting of `{kind}`" for name in settings if name not in scorer.names and name != "field"
    ]
    value = _wanted(settings, expected)
    if value is None:
        faults.append(
            f"`{kind}` needs `{'values' if 'values' in scorer.names else 'value'}`, or `expected` in the case"
        )
    elif fault := scorer.takes(value):
        faults.append(fault)
    if not isinstance(settings.get("field", ""), str):
        faults.append("`field` must be a name such as `result.label`")
    if settings.get("mode", "all") not in ("all", "any"):
        faults.append("`mode` must be `all` or `any`")
    if not isinstance(settings.get("ignore_case", False), bool):
        faults.append("`ignore_case` must be true or false")
    numbers = ("tolerance", "relative", "min")
    faults += [f"`{name}` must be a number of 0 or more" for name in numbers if not _is_amount(settings.get(name, 0))]
    return faults


def compare(kind: str, settings: JsonObject, subject: Compared) -> Comparison:
    """Return how well an output fits the settings of a scorer. The settings must be valid."""
    scorer = SCORERS[kind]
    expected = _wanted(settings, subject.expected)
    name: str = settings.get("field", "")
    if name:
        found = _field(subject.data, name)
        if found is _MISSING:
            return Comparison(score=0.0, explanation=f"The output has no field {name[:80]!r}.")
        return scorer.compare({**settings, "wanted": expected}, found, _text(found))
    if scorer.needs_data and subject.data is None:
        return Comparison(score=0.0, explanation="The output is not JSON.")
    return scorer.compare({**settings, "wanted": expected}, subject.data, subject.text)


def normalize(text: str) -> str:
    """Return text in lower case with single spaces, without quotes around it and punctuation at its end."""
    return _SPACE.sub(" ", text).casefold().strip(" .!?:;,\"'`*")


def _wanted(settings: Mapping[str, Any], expected: Any) -> Any:
    values = [settings[name] for name in ("value", "values") if settings.get(name) is not None]
    return values[0] if values else expected


def _equals(settings: JsonObject, data: Any, text: str) -> Comparison:
    expected = settings["wanted"]
    same = text == expected if isinstance(expected, str) else equal_json(data, expected)
    return _verdict(same, text, expected)


def _normalized(settings: JsonObject, _: Any, text: str) -> Comparison:
    expected = _text(settings["wanted"])
    return _verdict(normalize(text) == normalize(expected), text, expected)


def _one_of(settings: JsonObject, _: Any, text: str) -> Comparison:
    values = [_text(value) for value in _listed(settings["wanted"])]
    return _verdict(normalize(text) in {normalize(value) for value in values}, text, values)


def _contains(settings: JsonObject, _: Any, text: str) -> Comparison:
    values = [_text(value) for value in _listed(settings["wanted"])]
    ignore_case = settings.get("ignore_case", False)
    whole = text.casefold() if ignore_case else text
    missing = [value for value in values if (value.casefold() if ignore_case else value) not in whole]
    if settings.get("mode", "all") == "any":
        found = len(missing) < len(values)
        return Comparison(score=float(found), explanation="" if found else f"It has none of {_show(values)}.")
    return Comparison(
        score=1 - len(missing) / len(values), explanation=f"It does not have {_show(missing)}." if missing else ""
    )


def _starts_with(settings: JsonObject, _: Any, text: str) -> Comparison:
    expected = _text(settings["wanted"])
    start = text.lstrip()[: len(expected)]
    same = start.casefold() == expected.casefold() if settings.get("ignore_case", False) else start == expected
    return _verdict(same, text, expected, "It starts with")


def _number(settings: JsonObject, data: Any, text: str) -> Comparison:
    expected = _read_number(str(settings["wanted"]))
    found = _read_number(str(data)) if _is_number(data) else _last_number(text)
    if found is None:
        return Comparison(score=0.0, explanation="It has no number.")
    tolerance, relative = (_read_number(str(settings.get(name, 0))) for name in ("tolerance", "relative"))
    slack = max(tolerance, relative * abs(expected))
    # Without the smallest allowance, 0.1 + 0.2 would differ from 0.3.
    near = math.isclose(found, expected, rel_tol=1e-9, abs_tol=slack * (1 + 1e-9))
    return Comparison(score=float(near), explanation="" if near else f"It has {found:g}, expected {expected:g}.")


def _json_subset(settings: JsonObject, data: Any, _: str) -> Comparison:
    fault = next(_differences(data, settings["wanted"], "the output"), "")
    return Comparison(score=float(not fault), explanation=fault)


def _f1(settings: JsonObject, data: Any, text: str) -> Comparison:
    found = _listed(data) if isinstance(data, list) else [_BULLET.sub("", item) for item in _ITEM.split(text)]
    got = {normalize(_text(item)) for item in found} - {""}
    expected = {normalize(_text(item)) for item in _listed(settings["wanted"])} - {""}
    hits = len(got & expected)
    score = 2 * hits / (len(got) + len(expected)) if got or expected else 1.0
    wrong = sorted(expected - got), sorted(got - expected)
    differences = [
        f"{what} {_show(items)}" for what, items in zip(("missing", "not expected:"), wrong, strict=True) if items
    ]
    least = _read_number(str(settings.get("min", 1.0)))
    return Comparison(
        score=score, explanation=f"F1 {score:.2f}: {'; '.join(differences)}." if differences else "", minimum=least
    )


def _differences(data: Any, expected: Any, where: str) -> Iterator[str]:
    if isinstance(expected, dict):
        if not isinstance(data, dict):
            yield f"{where} is not an object."
            return
        fields = cast("JsonObject", data)
        for name, value in cast("JsonObject", expected).items():
            if name not in fields:
                yield f"{where} has no field {name[:80]!r}."
            else:
                yield from _differences(fields[name], value, f"{where}.{name[:80]}".removeprefix("the output."))
    elif isinstance(expected, list):
        items = json_list(data)
        for value in cast("list[Any]", expected):
            if not any(next(_differences(item, value, where), "") == "" for item in items):
                yield f"{where} has no item {_show(value)}."
    elif not equal_json(data, expected):
        yield f"{where} is {_show(data)}, expected {_show(expected)}."


def _verdict(same: bool, text: str, expected: Any, what: str = "It is") -> Comparison:
    return Comparison(
        score=float(same), explanation="" if same else f"{what} {_show(text)}, expected {_show(expected)}."
    )


def _field(data: Any, name: str) -> Any:
    """Return a field by its name or dotted path; list items by their number."""
    for step in name.split("."):
        if isinstance(data, dict) and step in data:
            data = cast("JsonObject", data)[step]
        elif isinstance(data, list) and step.isdecimal() and len(step) < 6 and int(step) < len(cast("list[Any]", data)):
            data = cast("list[Any]", data)[int(step)]
        else:
            return _MISSING
    return data


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return _read_number(found[-1]) if found else None


def _read_number(text: str) -> float:
    # From text, because an integer with 400 digits does not fit a float, while its text becomes infinite.
    return float(text.replace(",", ""))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value}"


def _show(value: Any) -> str:
    text = ", ".join(repr(one) for one in cast("list[Any]", value)) if isinstance(value, list) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    # Also as text: YAML such as `0.80` is read as it was written.
    is_number = _is_number(value) or (isinstance(value, str) and _NUMBER.fullmatch(value))
    return bool(is_number) and 0 <= _read_number(str(value)) < math.inf


def _any_value(_: Any) -> str:
    return ""


def _plain_value(value: Any) -> str:
    return "the value must be text or a number" if isinstance(value, dict | list) else ""


def _number_value(value: Any) -> str:
    is_number = _is_number(value) and math.isfinite(_read_number(str(value)))
    return (
        ""
        if is_number or (isinstance(value, str) and _NUMBER.fullmatch(value.strip()))
        else "the value must be a number"
    )


def _values(value: Any) -> str:
    items = _listed(value)
    if not items or "" in items:
        return "there is no text to look for"
    if len(items) > MAX_VALUES:
        return f"`values` has {len(items):,} items; the limit is {MAX_VALUES:,}"
    return "`values` must contain only text or numbers" if any(isinstance(item, dict | list) for item in items) else ""


SCORERS: dict[str, Scorer] = {
    "equals": Scorer(compare=_equals, names=frozenset({"value"}), takes=_any_value),
    "normalized": Scorer(compare=_normalized, names=frozenset({"value"}), takes=_plain_value),
    "one_of": Scorer(compare=_one_of, names=frozenset({"values"}), takes=_values),
    "contains": Scorer(compare=_contains, names=frozenset({"value", "values", "mode", "ignore_case"}), takes=_values),
    "starts_with": Scorer(compare=_starts_with, names=frozenset({"value", "ignore_case"}), takes=_plain_value),
    "number": Scorer(compare=_number, names=frozenset({"value", "tolerance", "relative"}), takes=_number_value),
    "json_subset": Scorer(compare=_json_subset, names=frozenset({"value"}), takes=_any_value, needs_data=True),
    "f1": Scorer(compare=_f1, names=frozenset({"values", "min"}), takes=_values),
}
"""Every exact scorer, by its type."""
