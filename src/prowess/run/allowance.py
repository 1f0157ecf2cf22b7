"""The limits of one run (time, money, questions to models) and what its trace may keep, from the skill's `policy` and `observability`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.skill.model import Skill
from prowess.skill.profiles.declarations import is_limit

MAX_QUESTIONS = 100
"""Model questions that the code of one run may ask, together with the skills that it runs."""


@dataclass(slots=True, kw_only=True)
class SpendLimit:
    """What one run may cost by its skill's policy, in US dollars, and what is spent or held so far.

    A nested run holds each amount against the limits of all outer runs too.
    """

    limit: float | None = None
    held: float = 0.0
    outer: SpendLimit | None = None

    def full(self, amount: float) -> SpendLimit | None:
        """Return the first limit, from the inside out, that this amount would exceed; None if there is room."""
        if self.limit is not None and self.held + amount > self.limit:
            return self
        return self.outer.full(amount) if self.outer else None

    def hold(self, amount: float) -> None:
        """Hold an amount; a negative one releases."""
        self.held += amount
        if self.outer:
            self.outer.hold(amount)


@dataclass(slots=True)
class QuestionLimit:
    """Counts the questions that the code of a run asks models."""

    asked: int = 0

    def count(self, questions: int) -> None:
        """Count questions before they are asked; raise `Invalid` if they are too many."""
        if self.asked + questions > MAX_QUESTIONS:
            raise Invalid(
                f"The script exceeded the limit of {MAX_QUESTIONS} model requests per run.",
                hint="Combine several questions into one prompt.",
            )
        self.asked += questions


DEFAULT_SECONDS = 120.0
MAX_SECONDS = 3_600.0
WITHHELD = "[withheld]"
PREVIOUS = "previous"
"""The input that holds the previous artifact's output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits of a run, and what its trace may store."""

    seconds: float = DEFAULT_SECONDS
    shortened: bool = False
    """True if the skill's own policy set the time limit."""
    max_cost: float | None = None
    asks_first: bool = False
    """True if an agent needs a person's approval to run it."""
    log_input: bool = True
    log_output: bool = True
    withheld: frozenset[str] = frozenset()
    """Names of inputs whose values are never stored."""

    def kept_inputs(self, inputs: Mapping[str, Any], handed_on: Collection[str] = ()) -> dict[str, Any]:
        """Return the inputs that the trace may store. `handed_on` inputs are outputs, and stored only if outputs are."""
        if not self.log_input:
            return {}
        # `previous` repeats an output that the trace of its own artifact has. Any other output may repeat a withheld
        # input, so all of them are left out as soon as something is withheld.
        left_out = {PREVIOUS, *(() if self.log_output and not self.withheld else handed_on)} & set(handed_on)
        recorded = {name: value for name, value in inputs.items() if name not in left_out}
        return {name: WITHHELD if name in self.withheld else value for name, value in recorded.items()}

    def withheld_texts(self, inputs: Mapping[str, Any]) -> list[str]:
        """Return every text and number in withheld inputs, to remove them from everything else too."""
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


def read_allowance(skill: Skill, *, seconds: float = DEFAULT_SECONDS, requested: float | None = None) -> Allowance:
    """Return the limits of a run. A skill can only lower them.

    `seconds` is the default time limit, `requested` the caller's. Raise `Invalid` for a limit that is not a positive number.
    Any other unreadable setting counts as the strictest value.
    """
    policy = skill.policy
    observed: object = skill.extra.get("observability")
    strictest = {"log_input": False, "log_output": False}
    seen = cast(
        "Mapping[str, Any]", observed if isinstance(observed, Mapping) else {} if observed is None else strictest
    )
    if requested is not None and not (isinstance(requested, int | float) and 0 < requested < float("inf")):
        raise Invalid(
            f"Invalid timeout of {requested!r} seconds.",
            hint="Pass a number of seconds above 0, for example `--timeout 60`.",
        )
    limit = min(requested or seconds, MAX_SECONDS)
    own = _limit(policy, "timeout_seconds")
    names = _names(seen.get("redact_fields"))
    return Allowance(
        seconds=limit if own is None else min(own, limit),
        shortened=own is not None and own < limit,
        max_cost=_limit(policy, "max_cost_usd"),
        asks_first=policy.get("requires_approval") not in (None, False),
        # An unreadable `redact_fields` may have meant any input, so then no input is stored.
        log_input=names is not None and seen.get("log_input") in (None, True),
        log_output=seen.get("log_output") in (None, True),
        withheld=frozenset(names or ()),
    )


def _names(value: object) -> list[str] | None:
    """Return a list of names, or a single name as one; None for anything else."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    names = [name for name in listed if isinstance(name, str)]
    return names if len(names) == len(listed) else None


def _limit(policy: Mapping[str, Any], name: str) -> float | None:
    """Return a positive number, or None if the policy has none."""
    value: object = policy.get(name)
    if value is None:
        return None
    if is_limit(value):
        return float(str(value))
    raise Invalid(
        f"Invalid value {str(value)[:40]!r} for {name} in the skill's policy.",
        hint="Set it to a number above 0 in the skill's `policy`.",
    )
