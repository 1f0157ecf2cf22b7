"""What a skill says about its own runs and cannot mean: limits that are no numbers, answers that are neither yes nor no."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.forms.form import Reading

_LIMITS = ("timeout_seconds", "max_cost_usd")
_KEPT = ("log_input", "log_output")
CODE = "policy-invalid"


def unreadable_policies(reading: Reading) -> Iterator[Problem]:
    """An error for a limit without which the skill cannot be run; a warning for what counts as the strictest value."""
    if reading.skill is None:
        return
    policy = reading.skill.policy
    for name in _LIMITS:
        if policy.get(name) is not None and not is_limit(policy[name]):
            yield _problem(f"policy.{name}", policy[name], "a number above 0", "error")
    if policy.get("requires_approval") not in (None, True, False):
        yield _problem("policy.requires_approval", policy["requires_approval"], "true or false", "warning")
    yield from _observability(reading.skill.extra.get("observability"))


def is_limit(value: object) -> bool:
    """Whether it is a number above 0, or the text of one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    try:
        return 0 < float(str(value)) < float("inf")
    except ValueError:
        return False


def _observability(written: object) -> Iterator[Problem]:
    if written is None:
        return
    if not isinstance(written, Mapping):
        yield _problem("observability", written, "an object", "warning")
        return
    said = cast("Mapping[str, Any]", written)
    for name in _KEPT:
        if said.get(name) not in (None, True, False):
            yield _problem(f"observability.{name}", said[name], "true or false", "warning")
    if said.get("redact_fields") is not None and not _are_names(said["redact_fields"]):
        yield _problem("observability.redact_fields", said["redact_fields"], "a list of names", "warning")


def _are_names(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return all(isinstance(name, str) for name in listed)


def _problem(field: str, value: object, takes: str, severity: Any) -> Problem:
    message = f"{str(value)[:40]!r} is nothing that {field} can be."
    return Problem(code=CODE, severity=severity, message=message, hint=f"It takes {takes}.", field=field)
