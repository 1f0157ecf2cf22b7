"""The assertions of an artifact as authors write them: `type`, `check`, and the settings of the check.

| type | check | settings |
|---|---|---|
| `structural` | `json_schema` | `schema` |
| | `required_fields` | `fields`: names, or paths such as `report.title` |
| | `format` | `format`: one of `OUTPUT_FORMATS` |
| `length` | `char_range`, `token_range` | `min`, `max` or both |
| `pattern` | `match`, `no_match` | `pattern`, in RE2 syntax |
| `semantic` | `llm_eval` | `prompt`; `expected`, by default `yes` |

Each may have a `severity` (`hard` by default, or `soft`) and a `description`. Plugins add types of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from prowess.errors import Invalid, Problem
from prowess.skill.kinds import Artifact, JsonObject
from prowess.skill.linear_regex import RegexRefused, compile_regex
from prowess.skill.schema import compile_schema
from prowess.skill.text.hidden import quote_source

SettingsCheck = Callable[[JsonObject], Iterable[Problem]]
"""Returns what is wrong with the settings that an author gave to a check."""

AssertionSeverity = Literal["hard", "soft"]

OUTPUT_FORMATS = ("json", "json_object", "json_array", "line", "not_empty")
MAX_ASSERTIONS = 50
MAX_REGEX_CHARS = 1_000
MAX_REGEX_STEPS = 10_000
"""The largest compiled pattern: each of its steps may be taken once for every character of an output."""
MAX_QUESTION_CHARS = 4_000
MAX_EXPECTED_CHARS = 200
_MAX_FIELD_CHARS = 200

_PLUGIN_TYPE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)+", re.ASCII)
_HINT = 'Write it like `{"type": "length", "check": "char_range", "max": 500}`.'


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionSpec:
    """One valid assertion; `settings` is everything that its author wrote."""

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
    """Return every problem of these assertions; each names its position in `field`."""
    items = list(written)
    found = [
        Problem(code=one.code, severity=one.severity, message=one.message, hint=one.hint, field=f"{field}[{place}]")
        for place, item in enumerate(items[:MAX_ASSERTIONS])
        for one in _find_problems(item)
    ]
    if len(items) > MAX_ASSERTIONS:
        message = f"There are {len(items):,} assertions; {MAX_ASSERTIONS} are the most."
        found.append(_problem("assertions-many", message, "Assert less, or in fewer words.", field))
    return found


def _find_problems(written: Any) -> Iterator[Problem]:
    if not isinstance(written, dict):
        yield _problem("assertion-invalid", "An assertion is an object with a type and a check.", _HINT)
        return
    settings = cast("JsonObject", written)
    kind, check = settings.get("type"), settings.get("check")
    checks = ASSERTION_CHECKS.get(kind) if isinstance(kind, str) else None
    if checks is None and isinstance(kind, str) and _PLUGIN_TYPE.fullmatch(kind):
        message = f"No installed plugin brings the assertion type {kind[:60]!r}; a run fails until one does."
        hint = "Install the plugin that brings it."
        yield Problem(code="assertion-not-installed", severity="warning", message=message, hint=hint)
    elif checks is None:
        yield _unknown_problem("type", kind, ASSERTION_CHECKS)
    elif not isinstance(check, str) or check not in checks:
        yield _unknown_problem(f"{kind} check", check, checks)
    else:
        yield from checks[check](settings)
    if settings.get("severity") not in (None, "hard", "soft"):
        yield _problem("assertion-invalid", "The severity of an assertion is `hard` or `soft`.", _HINT)
    if not isinstance(settings.get("description") or "", str):
        yield _problem("assertion-invalid", "The description of an assertion is a text.", _HINT)


def _unknown_problem(what: str, given: Any, known: Iterable[str]) -> Problem:
    name = f" {given[:60]!r}" if isinstance(given, str) else ""
    text = f"There is no {what}{name} of assertions" if name else f"The assertion has no {what}"
    return _problem("assertion-unknown", f"{text}; there are {', '.join(known)}.", _HINT)


def _problem(code: str, message: str, hint: str, field: str | None = None) -> Problem:
    return Problem(code=code, severity="error", message=message, hint=hint, field=field)


def _check_schema(settings: JsonObject) -> Iterator[Problem]:
    try:
        compile_schema(settings.get("schema"))
    except Invalid as fault:
        yield _problem("assertion-schema", f"The schema of an assertion cannot be used: {fault.message}", fault.hint)


def _check_fields(settings: JsonObject) -> Iterator[Problem]:
    fields = settings.get("fields")
    names = cast("list[Any]", fields) if isinstance(fields, list) else []
    if not names or not all(isinstance(name, str) and 0 < len(name) <= _MAX_FIELD_CHARS for name in names):
        yield _problem("assertion-invalid", "`required_fields` needs `fields`, a list of names.", _HINT)


def _check_format(settings: JsonObject) -> Iterator[Problem]:
    if settings.get("format") not in OUTPUT_FORMATS:
        yield _problem("assertion-invalid", f"`format` is one of {', '.join(OUTPUT_FORMATS)}.", _HINT)


def _check_range(settings: JsonObject) -> Iterator[Problem]:
    least, most = settings.get("min"), settings.get("max")
    given = [one for one in (least, most) if one is not None]
    if not given or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in given):
        yield _problem("assertion-invalid", "A range needs `min`, `max` or both, as whole numbers from 0.", _HINT)
    elif len(given) == 2 and given[0] > given[1]:
        message = f"The range from {given[0]:,} to {given[1]:,} has nothing in it."
        yield _problem("assertion-range", message, "Write the smaller number as `min`.")


def _check_pattern(settings: JsonObject) -> Iterator[Problem]:
    pattern = settings.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        yield _problem("assertion-invalid", "A pattern assertion needs `pattern`, a regular expression.", _HINT)
        return
    if len(pattern) > MAX_REGEX_CHARS:
        message = (
            f"The pattern {quote_source(pattern)} has {len(pattern):,} characters; {MAX_REGEX_CHARS:,} are the most."
        )
        yield _problem("assertion-pattern", message, "Say it in several assertions.")
        return
    try:
        steps = compile_regex(pattern).steps
    except RegexRefused as reason:
        message = f"RE2 refuses the pattern {quote_source(pattern)}: {reason}."
        hint = "Look-around and back-references are left out of RE2, since they can take more than linear time."
        yield _problem("assertion-pattern", message, f"{hint} Assert `match` and `no_match` apart instead.")
        return
    if steps > MAX_REGEX_STEPS:
        message = f"The pattern {quote_source(pattern)} comes to {steps:,} steps; {MAX_REGEX_STEPS:,} are the most."
        yield _problem("assertion-pattern", message, "Repeat less: a number in braces counts as often as it says.")


def _check_question(settings: JsonObject) -> Iterator[Problem]:
    prompt, expected = settings.get("prompt"), settings.get("expected")
    if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > MAX_QUESTION_CHARS:
        message = f"`llm_eval` needs `prompt`, a question of at most {MAX_QUESTION_CHARS:,} characters."
        yield _problem("assertion-invalid", message, _HINT)
    answer = expected.strip() if isinstance(expected, str) else expected
    if answer == "" or not isinstance(answer, str | bool | None) or len(str(answer)) > MAX_EXPECTED_CHARS:
        message = f"`expected` is the answer to the question, in at most {MAX_EXPECTED_CHARS} characters."
        yield _problem("assertion-invalid", message, _HINT)


ASSERTION_CHECKS: dict[str, Mapping[str, SettingsCheck]] = {
    "structural": {"json_schema": _check_schema, "required_fields": _check_fields, "format": _check_format},
    "length": {"char_range": _check_range, "token_range": _check_range},
    "pattern": {"match": _check_pattern, "no_match": _check_pattern},
    "semantic": {"llm_eval": _check_question},
}
"""Every type with its checks; each check returns the problems of the settings that it is given."""


def add_assertion_type(name: str, checks: Mapping[str, SettingsCheck]) -> None:
    """Add a plugin's type of assertion, for the whole process; `ValueError` says why it cannot be added."""
    if not _PLUGIN_TYPE.fullmatch(name):
        raise ValueError(f"the assertion type {name[:100]!r} has no namespace, as in 'acme.tone'")
    if not checks or not all(callable(check) for check in checks.values()):
        raise ValueError(f"the assertion type {name} has no checks")
    if ASSERTION_CHECKS.setdefault(name, checks) is not checks:
        raise ValueError(f"the assertion type {name} is there already")
