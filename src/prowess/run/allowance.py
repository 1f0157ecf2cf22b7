"""The limits of one run (time, money, questions to models) and what its trace may keep, from the skill's `policy` and `observability`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from prowess.errors import Invalid
from prowess.skill.model import Skill
from prowess.skill.profiles.declarations import is_limit

MAX_QUESTIONS = 100
"""How many questions the code of one run may ask models, by itself and by the skills that it runs."""


@dataclass(slots=True, kw_only=True)
class SpendLimit:
    """What one run of a skill may cost by the skill's own word, in US dollars, and what it has cost or may yet.

    What it holds, the purse of the run that started it holds as well, and that has to have room for it.
    """

    limit: float | None = None
    held: float = 0.0
    outer: SpendLimit | None = None

    def full(self, amount: float) -> SpendLimit | None:
        """The purse that has no room for so much more; None where all have."""
        if self.limit is not None and self.held + amount > self.limit:
            return self
        return self.outer.full(amount) if self.outer else None

    def hold(self, amount: float) -> None:
        """Hold so much more; less than nothing gives back."""
        self.held += amount
        if self.outer:
            self.outer.hold(amount)


@dataclass(slots=True)
class QuestionLimit:
    """The questions that the code of a run has asked models so far."""

    asked: int = 0

    def count(self, questions: int) -> None:
        """Count so many more; `Invalid` where they are too many, and none of them is asked."""
        if self.asked + questions > MAX_QUESTIONS:
            raise Invalid(
                f"A script may ask models {MAX_QUESTIONS} questions a run.", hint="Ask several in one prompt."
            )
        self.asked += questions


DEFAULT_SECONDS = 120.0
MAX_SECONDS = 3_600.0
WITHHELD = "[withheld]"
PREVIOUS = "previous"
"""The name under which an artifact is given the output before its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits of one run, and what its trace may hold."""

    seconds: float = DEFAULT_SECONDS
    shortened: bool = False
    """Whether it is the skill itself that leaves no more time."""
    max_cost: float | None = None
    asks_first: bool = False
    """Whether an agent may run it only after a person has agreed."""
    log_input: bool = True
    log_output: bool = True
    withheld: frozenset[str] = frozenset()
    """The names of inputs whose values are not kept."""

    def kept_inputs(self, inputs: Mapping[str, Any], handed_on: Collection[str] = ()) -> dict[str, Any]:
        """The inputs as the trace may hold them; those `handed_on` by earlier artifacts only where outputs are kept."""
        if not self.log_input:
            return {}
        left_out = {PREVIOUS, *(() if self.log_output and not self.withheld else handed_on)} & set(handed_on)
        kept = {name: value for name, value in inputs.items() if name not in left_out}
        return {name: WITHHELD if name in self.withheld else value for name, value in kept.items()}

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


def read_allowance(skill: Skill, *, seconds: float = DEFAULT_SECONDS, asked: float | None = None) -> Allowance:
    """What the skill says, within the limits here: a skill can only lower them.

    `seconds` is the time that a run has by default, `asked` what the caller wants instead. `Invalid` for a limit or a time
    that is no number above 0; whatever else cannot be read counts as the strictest value.
    """
    policy = skill.policy
    observed: object = skill.extra.get("observability")
    strictest = {"log_input": False, "log_output": False}
    seen = cast(
        "Mapping[str, Any]", observed if isinstance(observed, Mapping) else {} if observed is None else strictest
    )
    if asked is not None and not 0 < asked < float("inf"):
        raise Invalid(f"A run cannot have {asked} seconds.", hint="Give a number of seconds above 0.")
    limit = min(asked or seconds, MAX_SECONDS)
    own = _limit(policy, "timeout_seconds")
    names = _names(seen.get("redact_fields"))
    return Allowance(
        seconds=limit if own is None else min(own, limit),
        shortened=own is not None and own < limit,
        max_cost=_limit(policy, "max_cost_usd"),
        asks_first=policy.get("requires_approval") not in (None, False),
        log_input=names is not None and seen.get("log_input") in (None, True),
        log_output=seen.get("log_output") in (None, True),
        withheld=frozenset(names or ()),
    )


def _names(value: object) -> list[str] | None:
    """The names in a list, or one name; None for what is neither."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    names = [name for name in listed if isinstance(name, str)]
    return names if len(names) == len(listed) else None


def _limit(policy: Mapping[str, Any], name: str) -> float | None:
    """A number above 0, or None where the policy says nothing."""
    value: object = policy.get(name)
    if value is None:
        return None
    if is_limit(value):
        return float(str(value))
    raise Invalid(f"The skill's policy has {str(value)[:40]!r} for {name}.", hint="It takes a number above 0.")
