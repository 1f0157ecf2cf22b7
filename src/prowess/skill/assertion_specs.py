"""The assertions of an artifact as authors write them: `type`, `check`, and the settings of the check.

| type | check | settings |
|---|---|---|
| `structural` | `json_schema` | `schema` |
| | `required_fields` | `fields`: names, or paths such as `report.title` |
| | `format` | `format`: one of `OUTPUT_FORMATS` |
| `length` | `char_range`, `token_range` | `min`, `max` or both |
| `pattern` | `match`, `no_match` | `pattern`, in RE2 syntax |
| `semantic` | `llm_eval` | `prompt`; `expected`, by default `yes` |

Each may have a `severity` (`hard` by default, or `soft`) and a `description`. Plugins add their own types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.skill.json_values import json_list
from prowess.skill.kinds import Artifact, JsonObject
from prowess.skill.linear_regex import RegexRefused, compile_regex
from prowess.skill.schema import compile_schema
from prowess.skill.text.hidden import quote_source

SettingsCheck = Callable[[JsonObject], Iterable[Problem]]
"""Returns the problems with the settings an author gave to a check."""

AssertionSeverity = Literal["hard", "soft"]

OUTPUT_FORMATS = ("json", "json_object", "json_array", "line", "not_empty")
MAX_ASSERTIONS = 50
MAX_REGEX_CHARS = 1_000
MAX_REGEX_STEPS = 10_000
"""The largest compiled pattern. Each step may run once for every character of an output."""
MAX_QUESTION_CHARS = 4_000
MAX_EXPECTED_CHARS = 200
_MAX_FIELD_CHARS = 200

_PLUGIN_TYPE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)+", re.ASCII)
_HINT = 'For example: `{"type": "length", "check": "char_range", "max": 500}`.'


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionSpec:
    """One valid assertion; `settings` holds everything its author wrote."""

    type: str
    check: str
    severity: AssertionSeverity
    description: str
    settings: JsonObject


def list_assertions(artifact: Artifact) -> tuple[Any, ...]:
    """Return every assertion of an artifact as written, including unreadable ones from its metadata."""
    unread = artifact.metadata.get("assertions")
    if unread is None:
        return artifact.assertions
    return (*artifact.assertions, *(cast("list[Any]", unread) if isinstance(unread, list) else [unread]))


def read_assertion(written: Any) -> AssertionSpec:
    """Return the assertion; raise `Invalid` with every problem if it is not valid."""
    problems = list(_find_problems(written))
    if problems:
        raise Invalid(problems[0].message, hint=problems[0].hint, problems=problems)
    settings = cast("JsonObject", written)
    return AssertionSpec(
        type=settings["type"],
        check=settings["check"],
        severity=settings.get("severity") or "hard",
        description=settings.get("description") or "",
        settings=settings,
    )


def check_assertions(written: Iterable[Any], field: str = "assertions") -> list[Problem]:
    """Return every problem with these assertions; each names its position in `field`."""
    items = list(written)
    found = [
        replace(problem, field=f"{field}[{position}]")
        for position, item in enumerate(items[:MAX_ASSERTIONS])
        for problem in _find_problems(item)
    ]
    if len(items) > MAX_ASSERTIONS:
        message = f"The skill has {len(items):,} assertions; the limit is {MAX_ASSERTIONS}."
        found.append(_problem("assertions-many", message, "Remove or combine some of them.", field))
    return found


def _find_problems(written: Any) -> Iterator[Problem]:
    if not isinstance(written, dict):
        yield _problem("assertion-invalid", "An assertion must be an object with `type` and `check`.", _HINT)
        return
    settings = cast("JsonObject", written)
    kind, check = settings.get("type"), settings.get("check")
    checks = ASSERTION_CHECKS.get(kind) if isinstance(kind, str) else None
    if checks is None and isinstance(kind, str) and _PLUGIN_TYPE.fullmatch(kind):
        message = f"The assertion type {kind[:60]!r} is not installed. Runs fail until a plugin provides it."
        hint = "Install the plugin that provides this type."
        yield Problem(code="assertion-not-installed", severity="warning", message=message, hint=hint)
    elif checks is None:
        yield _unknown_problem("type", kind, ASSERTION_CHECKS)
    elif not isinstance(check, str) or check not in checks:
        yield _unknown_problem(f"{kind} check", check, checks)
    else:
        yield from checks[check](settings)
    if settings.get("severity") not in (None, "hard", "soft"):
        yield _problem("assertion-invalid", "`severity` must be `hard` or `soft`.", _HINT)
    if not isinstance(settings.get("description") or "", str):
        yield _problem("assertion-invalid", "`description` must be a string.", _HINT)


def _unknown_problem(what: str, written: Any, known: Iterable[str]) -> Problem:
    name = f" {written[:60]!r}" if isinstance(written, str) else ""
    text = f"Unknown assertion {what}{name}" if name else f"The assertion has no {what}"
    return _problem("assertion-unknown", f"{text}. Use one of: {', '.join(known)}.", _HINT)


def _problem(code: str, message: str, hint: str, field: str | None = None) -> Problem:
    return Problem(code=code, severity="error", message=message, hint=hint, field=field)


def _check_schema(settings: JsonObject) -> Iterator[Problem]:
    try:
        compile_schema(settings.get("schema"))
    except Invalid as fault:
        yield _problem("assertion-schema", f"The assertion's schema is not usable: {fault.message}", fault.hint)


def _check_fields(settings: JsonObject) -> Iterator[Problem]:
    names = json_list(settings.get("fields"))
    if not names or not all(isinstance(name, str) and 0 < len(name) <= _MAX_FIELD_CHARS for name in names):
        yield _problem("assertion-invalid", "`required_fields` needs `fields`, a non-empty list of names.", _HINT)


def _check_format(settings: JsonObject) -> Iterator[Problem]:
    if settings.get("format") not in OUTPUT_FORMATS:
        yield _problem("assertion-invalid", f"`format` must be one of: {', '.join(OUTPUT_FORMATS)}.", _HINT)


def _check_range(settings: JsonObject) -> Iterator[Problem]:
    minimum, maximum = settings.get("min"), settings.get("max")
    bounds = [bound for bound in (minimum, maximum) if bound is not None]
    if not bounds or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in bounds):
        yield _problem("assertion-invalid", "A range needs `min`, `max` or both, as integers of 0 or more.", _HINT)
    elif len(bounds) == 2 and bounds[0] > bounds[1]:
        message = f"The range is empty: `min` ({bounds[0]:,}) is greater than `max` ({bounds[1]:,})."
        yield _problem("assertion-range", message, "Swap `min` and `max`.")


def _check_pattern(settings: JsonObject) -> Iterator[Problem]:
    pattern = settings.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        yield _problem("assertion-invalid", "A pattern assertion needs `pattern`, a regular expression.", _HINT)
        return
    if len(pattern) > MAX_REGEX_CHARS:
        message = (
            f"The pattern {quote_source(pattern)} is {len(pattern):,} characters long; the limit is "
            f"{MAX_REGEX_CHARS:,}."
        )
        yield _problem("assertion-pattern", message, "Split it into several assertions.")
        return
    try:
        steps = compile_regex(pattern).steps
    except RegexRefused as reason:
        message = f"The pattern {quote_source(pattern)} is not valid RE2: {reason}."
        hint = "RE2 has no look-around or back-references."
        yield _problem("assertion-pattern", message, f"{hint} Use separate `match` and `no_match` assertions instead.")
        return
    if steps > MAX_REGEX_STEPS:
        message = f"The pattern {quote_source(pattern)} compiles to {steps:,} steps; the limit is {MAX_REGEX_STEPS:,}."
        yield _problem("assertion-pattern", message, "Lower the repeat counts: `x{1000}` counts as 1,000 steps.")


def _check_question(settings: JsonObject) -> Iterator[Problem]:
    prompt, expected = settings.get("prompt"), settings.get("expected")
    if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > MAX_QUESTION_CHARS:
        message = f"`llm_eval` needs `prompt`, a question of at most {MAX_QUESTION_CHARS:,} characters."
        yield _problem("assertion-invalid", message, _HINT)
    answer = expected.strip() if isinstance(expected, str) else expected
    if answer == "" or not isinstance(answer, str | bool | None) or len(str(answer)) > MAX_EXPECTED_CHARS:
        message = f"`expected` must be the expected answer, in at most {MAX_EXPECTED_CHARS} characters."
        yield _problem("assertion-invalid", message, _HINT)


ASSERTION_CHECKS: dict[str, Mapping[str, SettingsCheck]] = {
    "structural": {"json_schema": _check_schema, "required_fields": _check_fields, "format": _check_format},
    "length": {"char_range": _check_range, "token_range": _check_range},
    "pattern": {"match": _check_pattern, "no_match": _check_pattern},
    "semantic": {"llm_eval": _check_question},
}
"""Every assertion type with its checks. Each check returns the problems with its settings."""


def add_assertion_type(name: str, checks: Mapping[str, SettingsCheck]) -> None:
    """Register a plugin's assertion type for the whole process. Raise `ValueError` if it is not valid."""
    if not _PLUGIN_TYPE.fullmatch(name):
        raise ValueError(f"the assertion type {name[:100]!r} needs a namespace, as in 'acme.tone'")
    if not checks or not all(callable(check) for check in checks.values()):
        raise ValueError(f"the assertion type {name} has no checks")
    if ASSERTION_CHECKS.setdefault(name, checks) is not checks:
        raise ValueError(f"the assertion type {name} is already registered")
