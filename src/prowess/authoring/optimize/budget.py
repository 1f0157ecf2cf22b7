"""The budget of an optimization, what is used of it, and what is kept back for the test at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from prowess.errors import Refused

DEFAULT_CALLS = 500
DEFAULT_MINUTES = 30.0
LONGER_PROMPTS = 1.5
"""How much more a run of the candidate may cost than one of the base: it may have demos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of an optimization. The minutes are those of the search; the test after it has no limit."""

    usd: float | None = None
    calls: int = DEFAULT_CALLS
    minutes: float = DEFAULT_MINUTES


class Meter:
    """Counts model requests, dollars and minutes, and says when the search has to end so that the test can be paid."""

    def __init__(
        self, budget: Budget, *, calls: int = 0, cost: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.budget = budget
        self.calls = calls
        self.cost = cost
        self._clock = clock
        self._began = clock()
        self._kept_calls = 0
        self._kept_usd = 0.0

    def count(self, calls: int, cost: float | None) -> None:
        """Count requests that were sent, and their cost if it is known."""
        self.calls += calls
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def keep_back(self, runs: int, *, calls_per_run: float, cost_per_run: float) -> None:
        """Keep calls and dollars for the runs of the test, half of which are the candidate's.

        Raise `Refused` if they do not leave room for a search.
        """
        self._kept_calls = round(runs * max(calls_per_run, 1.0))
        self._kept_usd = runs * cost_per_run * (1 + LONGER_PROMPTS) / 2
        needed = self.calls + 2 * self._kept_calls
        if needed > self.budget.calls:
            raise Refused(
                f"The budget of {self.budget.calls:,} calls is too small: the test on held-out cases alone takes "
                f"{self._kept_calls:,}, and {self.calls:,} are used.",
                hint=f"Allow at least {needed:,} with `--max-calls`.",
            )
        least = (self.cost or 0.0) + 2 * self._kept_usd
        if self.budget.usd is not None and least > self.budget.usd:
            raise Refused(
                f"The budget of ${self.budget.usd:g} is too small: the test on held-out cases alone takes about "
                f"${self._kept_usd:.4f}, and ${self.cost or 0.0:.4f} is spent.",
                hint=f"Allow at least ${least:.2f} with `--budget-usd`.",
            )

    @property
    def calls_left(self) -> int:
        """The calls that the search may still make."""
        return max(self.budget.calls - self._kept_calls - self.calls, 0)

    @property
    def spent(self) -> str:
        """Why the search has to end; '' while it may go on."""
        if not self.calls_left:
            return f"the budget of {self.budget.calls:,} calls is used, except for the test"
        if self.budget.usd is not None and (self.cost or 0.0) >= self.budget.usd - self._kept_usd:
            return f"the budget of ${self.budget.usd:g} is used, except for the test"
        if self._clock() - self._began >= self.budget.minutes * 60:
            return f"the {self.budget.minutes:g} minutes are over"
        return ""
