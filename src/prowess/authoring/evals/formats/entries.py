"""Cases and checks as all formats make them, each valid or reported as a problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prowess.authoring.evals.case import Check, EvalCase
from prowess.authoring.evals.exact import SCORERS, check_settings
from prowess.authoring.evals.formats.source import At, EvalSource, as_number, as_object, as_text
from prowess.errors import Invalid
from prowess.skill.assertion_specs import ASSERTION_CHECKS, read_assertion
from prowess.skill.kinds import JsonObject
from prowess.suggestions import did_you_mean

MAX_PROMPT_CHARS = 400_000
MAX_CHECKS = 100
MAX_TEXT_CHARS = 8_000
"""The longest expectation."""
MAX_NAME_CHARS = 200

LIMIT_TYPES = {"cost": "max", "latency": "max_ms", "tokens": "max"}
"""Limits on what a run may use, each with the name of its setting."""
JUDGED_TYPES = ("expectation", "rubric")
CHECK_TYPES = (*SCORERS, *ASSERTION_CHECKS, *JUDGED_TYPES, *LIMIT_TYPES, "skill_used")

_NEEDED = {
    "expectation": ("text", "Write the statement that the output must fulfil."),
    "rubric": ("rubric", "Run `prowess rubrics list` to see the rubrics."),
}
_COMMON = frozenset({"type", "weight", "description", "not", "severity"})


def expectation(text: str, **common: Any) -> Check:
    """Return a statement that a model judges."""
    return Check(type="expectation", settings={"text": text[:MAX_TEXT_CHARS]}, **common)


def contains(values: Sequence[str], *, mode: str = "all", ignore_case: bool = False, **common: Any) -> Check:
    """Return a check for texts in the output."""
    return Check(type="contains", settings={"values": list(values), "mode": mode, "ignore_case": ignore_case}, **common)


def pattern(regex: str, *, wanted: bool = True) -> Check:
    """Return a check for a regular expression that occurs, or does not."""
    settings = {"type": "pattern", "check": "match" if wanted else "no_match", "pattern": regex}
    return Check(type="pattern", settings=settings)


def structural(check: str, **settings: Any) -> JsonObject:
    """Return the settings of a structural assertion."""
    return {"type": "structural", "check": check, **settings}


def valid_check(source: EvalSource, at: At, check: Check, expected: Any = None) -> list[Check]:
    """Return the check in a list, or an empty list and a problem if its settings are not valid."""
    faults = list(_faults(check, expected))
    for fault, hint in faults:
        source.report_check(f"{fault[:1].upper()}{fault[1:]}.", *at, hint=hint)
    return [] if faults else [check]


def _faults(check: Check, expected: Any) -> Iterable[tuple[str, str]]:
    settings, kind = check.settings, check.type
    if kind in SCORERS:
        return [(fault, "") for fault in check_settings(kind, settings, expected)]
    if kind in LIMIT_TYPES:
        limit = as_number(settings.get(LIMIT_TYPES[kind]))
        is_valid = limit is not None and limit >= 0
        return [] if is_valid else [(f"`{kind}` needs `{LIMIT_TYPES[kind]}`, a number of 0 or more", "")]
    if kind in _NEEDED:
        name, hint = _NEEDED[kind]
        return [] if as_text(settings.get(name)) else [(f"`{kind}` needs `{name}`", hint)]
    if kind == "skill_used":
        is_valid = isinstance(settings.get("skill", ""), str)
        return [] if is_valid else [("`skill` must be the name of a skill", "")]
    try:
        read_assertion(settings)
    except Invalid as fault:
        return [(fault.message.rstrip("."), fault.hint)]
    return []


def written_check(source: EvalSource, at: At, written: Any, expected: Any) -> list[Check]:
    """Return a check in our own format: a statement as text, or an object with `type`."""
    if isinstance(written, str) and written.strip():
        return [expectation(written.strip())]
    fields = as_object(written)
    kind = fields.get("type") if fields else None
    if fields is None or not isinstance(kind, str):
        message = "A check must be a statement, or an object with `type`."
        source.report_check(message, *at, hint=f"Types: {', '.join(CHECK_TYPES)}.")
        return []
    # A name with a dot is a plugin's; only the plugin knows whether it is valid.
    if kind not in CHECK_TYPES and "." not in kind:
        hint = did_you_mean(kind, CHECK_TYPES) or f"Types: {', '.join(CHECK_TYPES)}."
        source.report_check(f"Unknown check type {kind[:60]!r}.", *at, hint=hint)
        return []
    if not isinstance(fields.get("not") or False, bool):
        source.report_check("`not` must be true or false.", *at)
        return []
    is_ours = kind in SCORERS or kind in LIMIT_TYPES or kind in (*JUDGED_TYPES, "skill_used")
    settings = {name: value for name, value in fields.items() if name not in _COMMON} if is_ours else fields
    check = Check(
        type=kind,
        settings=settings if is_ours else {name: one for name, one in fields.items() if name not in ("weight", "not")},
        description=as_text(fields.get("description"))[:MAX_NAME_CHARS],
        weight=read_weight(source, at, fields),
        negate=fields.get("not") is True,
    )
    return valid_check(source, at, check, expected)


def read_weight(source: EvalSource, at: At, fields: JsonObject) -> float:
    """Return the weight of a check, 1 if there is none or it is not valid."""
    number = fields.get("weight")
    weight = 1.0 if number is None else as_number(number)
    if weight is None or weight < 0:
        source.report("eval-setting", "`weight` must be a number of 0 or more; 1 is used.", *at, "weight")
        return 1.0
    return weight


def read_share(source: EvalSource, at: At, value: Any) -> float | None:
    """Return a share from 0 to 1; None if there is none or it is not valid."""
    share = as_number(value)
    if value is None or (share is not None and 0 <= share <= 1):
        return share
    source.report("eval-setting", "A threshold must be a number from 0 to 1; it is ignored.", *at)
    return None


MAX_TRIALS = 100
MAX_CONCURRENCY = 64
MAX_TIMEOUT_SECONDS = 24 * 3600.0


def run_settings(source: EvalSource, settings: JsonObject, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a suite that a file gives, as fields of `EvalSuite`; `names` are the keys of the file."""
    found: dict[str, Any] = {"model": as_text(settings.get(names.get("model", "")))[:MAX_NAME_CHARS]}
    for name, most in (("trials", MAX_TRIALS), ("concurrency", MAX_CONCURRENCY)):
        key = names.get(name, "")
        if (count := _read_count(source, key, settings.get(key), most)) is not None:
            found[name] = count
    key = names.get("timeout_seconds", "")
    seconds = as_number(settings.get(key))
    if seconds is not None and 0 < seconds <= MAX_TIMEOUT_SECONDS:
        found["timeout_seconds"] = seconds
    elif settings.get(key) is not None:
        source.report("eval-setting", "The timeout must be a number of seconds, at most a day; it is ignored.", key)
    key = names.get("threshold", "")
    if (share := read_share(source, (key,), settings.get(key))) is not None:
        found["pass_threshold"] = share
    return found


def _read_count(source: EvalSource, key: str, value: Any, most: int) -> int | None:
    count = as_number(value)
    if value is None:
        return None
    if count is None or count != int(count) or not 1 <= count <= most:
        source.report("eval-setting", f"It must be a whole number from 1 to {most:,}; it is ignored.", key)
        return None
    return int(count)


def finish_case(source: EvalSource, at: At, case: EvalCase) -> list[EvalCase]:
    """Return the case in a list, or an empty list and a problem if it cannot be run or has nothing to check."""
    if not case.prompt and case.inputs is None:
        hint = "Give the case a `prompt`, or `inputs` for an artifact."
        source.report("eval-case", "The case has no message and no inputs.", *at, hint=hint, severity="error")
    elif len(case.prompt) > MAX_PROMPT_CHARS:
        message = f"The message has {len(case.prompt):,} characters; the limit is {MAX_PROMPT_CHARS:,}."
        source.report("eval-case", message, *at, hint="Shorten it.", severity="error")
    elif len(case.checks) > MAX_CHECKS:
        message = f"The case has {len(case.checks):,} checks; the limit is {MAX_CHECKS}."
        source.report("eval-case", message, *at, hint="Split it into several cases.", severity="error")
    elif not case.checks and case.inputs is None:
        message = "The case has nothing to check; it is skipped."
        source.report("eval-unchecked", message, *at, hint="Add statements that a good answer fulfils.")
    else:
        return [case]
    return []
