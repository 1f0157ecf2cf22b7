"""A request to optimize a skill, its budget and what is used of it, and an optimization as interfaces show it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast, get_args

from prowess.errors import Invalid, Refused
from prowess.llm.model import Model
from prowess.sidecar.protocol import OPTIMIZERS
from prowess.skill.kinds import JsonObject
from prowess.storage.proposals import ProposalRow, ProposalState
from prowess.storage.rows import convert_row

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
        """Why the search has to end; '' while it may continue."""
        if not self.calls_left:
            return f"the budget of {self.budget.calls:,} calls is used, except for the test"
        if self.budget.usd is not None and (self.cost or 0.0) >= self.budget.usd - self._kept_usd:
            return f"the budget of ${self.budget.usd:g} is used, except for the test"
        if self._clock() - self._began >= self.budget.minutes * 60:
            return f"the {self.budget.minutes:g} minutes are used up"
        return ""


Method = Literal["bootstrap_few_shot", "mipro_v2", "simba", "gepa", "rewrite", "phrases", "description"]
METHODS: tuple[Method, ...] = get_args(Method)
TRIGGER_METHODS = ("phrases", "description")
"""Methods that change what a skill says it is for, and are measured by trigger queries."""

DEFAULT_DAYS = 90.0
MAX_REPEATS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizationRequest:
    """A request to optimize a skill: the part, the measure, and the limits."""

    skill: str
    artifact: str = ""
    """A prompt_template or dspy_module; '' if the skill has only one."""
    method: Method = "bootstrap_few_shot"
    metric: str = "assertions"
    """`assertions` for the checks of the cases and the artifact, `exact` for the expected output, or `rubric:ID`."""
    budget: Budget = field(default_factory=Budget)
    repeats: int = 1
    """How often each held-out case is run."""
    model: Model | str = ""
    evaluation_model: Model | str = ""
    template: str = "predict"
    """The template of a new module."""
    cases: str = ""
    """The path of an eval file; '' for those of the skill."""
    traces: bool = True
    """Use the inputs of live runs as cases for training."""
    days: float = DEFAULT_DAYS
    """The age of the oldest traces that are used."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise Invalid(f"Unknown method {self.method[:40]!r}.", hint=f"Use one of: {', '.join(METHODS)}.")
        if self.metric not in ("assertions", "exact") and not self.metric.startswith("rubric:"):
            raise Invalid(f"Unknown metric {self.metric[:40]!r}.", hint="Use assertions, exact or rubric:ID.")
        if not 1 <= self.repeats <= MAX_REPEATS:
            raise Invalid(f"`repeats` must be 1 to {MAX_REPEATS}.", hint="Use more cases rather than more repeats.")
        if self.budget.calls < 1 or self.budget.minutes <= 0 or (self.budget.usd is not None and self.budget.usd <= 0):
            raise Invalid("The limits of a budget must be positive.", hint="For example `--max-calls 500`.")

    @property
    def needs_sidecar(self) -> bool:
        """True if the method is one of DSPy's."""
        return self.method in OPTIMIZERS

    def as_json(self) -> JsonObject:
        """Return the request as it is stored. Models must be names."""
        data = asdict(replace(self, model="", evaluation_model=""))
        return {**data, "model": _model_name(self.model), "evaluation_model": _model_name(self.evaluation_model)}


def stored_request(record: JsonObject) -> OptimizationRequest:
    """Return the request of a stored optimization."""
    data = {**record}
    budget = Budget(**cast("JsonObject", data.pop("budget")))
    return OptimizationRequest(**data, budget=budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One optimization: what it tried, what it measured, and what became of it."""

    id: str
    state: ProposalState
    skill: str
    scope: str
    artifact: str
    method: str
    user: str
    created_at: str
    updated_at: str
    finished_at: str | None
    base_digest: str
    candidate_digest: str
    calls: int
    cost_usd: float | None
    score: float | None
    """The best score so far on the validation cases."""
    reason: str
    test: JsonObject | None
    """The figures on the held-out cases."""
    live: JsonObject | None
    """The figures of live runs after the approval."""
    approver: str
    approved_at: str | None
    version: int | None

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return asdict(self)


def to_proposal(row: ProposalRow) -> Proposal:
    """Return a stored optimization as interfaces show it."""
    return convert_row(row, Proposal, skill=row.skill_slug, user=row.user_id, cost_usd=row.cost)


def event_data(row: ProposalRow) -> JsonObject:
    """Return the fields of the event `optimization_changed`."""
    return {
        "proposal_id": row.id,
        "skill": row.skill_slug,
        "artifact": row.artifact,
        "method": row.method,
        "state": row.state,
        "reason": row.reason,
        "version": row.version,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an optimization is."""

    phase: Literal["base", "search", "test"]
    calls: int
    limit: int
    """The calls that it may make."""
    cost: float | None = None
    base: float | None = None
    """The score of the base on the validation cases."""
    best: float | None = None
    """The best score so far on the validation cases."""


OptimizationListener = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """Ignore progress."""


def _model_name(model: Any) -> str:
    return model if isinstance(model, str) else str(model.name)
