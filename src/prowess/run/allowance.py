"""How far a run may go and what of it is kept: what a skill's `policy` and `observability` say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from prowess.skill.model import Skill

DEFAULT_SECONDS = 120.0
MOST_SECONDS = 3_600.0
WITHHELD = "[withheld]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits of one run, and what its trace may hold."""

    seconds: float = DEFAULT_SECONDS
    max_cost: float | None = None
    asks_first: bool = False
    """Whether an agent may run it only after a person has agreed."""
    log_input: bool = True
    log_output: bool = True
    withheld: frozenset[str] = frozenset()
    """The names of inputs whose values are not kept."""

    def kept_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs as the trace may hold them."""
        if not self.log_input:
            return {}
        return {name: WITHHELD if name in self.withheld else value for name, value in inputs.items()}

    def withheld_texts(self, inputs: Mapping[str, Any]) -> list[str]:
        """Every text and number in the inputs that are withheld, to be kept out of everything else too."""
        waiting = [value for name, value in inputs.items() if name in self.withheld]
        found: list[str] = []
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += cast("dict[str, Any]", value).values()
            elif isinstance(value, list):
                waiting += cast("list[Any]", value)
            elif value is not None and not isinstance(value, bool):
                found.append(str(value))
        return found


def allowance_of(skill: Skill, *, seconds: float = DEFAULT_SECONDS, asked: float | None = None) -> Allowance:
    """What the skill says, within the limits here: a skill can only lower them.

    `seconds` is the time that a run has by default, `asked` what the caller wants instead. A value that cannot be read
    counts as the strictest one.
    """
    policy = skill.policy
    observed: object = skill.extra.get("observability")
    seen = cast("Mapping[str, Any]", observed if isinstance(observed, Mapping) else {})
    limit = min(asked or seconds, MOST_SECONDS)
    own = _positive(policy.get("timeout_seconds"))
    fields: object = seen.get("redact_fields")
    names = cast("list[object]", fields) if isinstance(fields, list) else []
    return Allowance(
        seconds=limit if own is None else min(own, limit),
        max_cost=_cost(policy),
        asks_first=policy.get("requires_approval") not in (None, False),
        log_input=seen.get("log_input") in (None, True),
        log_output=seen.get("log_output") in (None, True),
        withheld=frozenset(str(name) for name in names),
    )


def _cost(policy: Mapping[str, Any]) -> float | None:
    if policy.get("max_cost_usd") is None:
        return None
    return _positive(policy["max_cost_usd"]) or 0.0


def _positive(value: object) -> float | None:
    """The value as a number above 0; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    return None
