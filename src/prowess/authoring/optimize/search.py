"""The search for a better candidate: what it works with, and the best that it has found.

A search gets `OptimizerCases`, which cannot hold a held-out case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from prowess.authoring.evals.splits import HeldOut, OptimizerCases
from prowess.authoring.optimize.bench import Bench, Score, mean_score
from prowess.authoring.optimize.change import Change, build_candidate
from prowess.errors import Invalid
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedScores:
    """The scores of base and candidate for the same cases and repeats, and the case of each."""

    base: tuple[float, ...]
    candidate: tuple[float, ...]
    clusters: tuple[str, ...]


class Plan(Protocol):
    """One way to optimize: how the base is measured, how candidates are found, and how one is tested at the end."""

    held_out: HeldOut

    @property
    def best(self) -> tuple[Change, float] | None:
        """The best candidate so far, with its score on the validation cases."""
        ...

    def restore(self, change: Change, score: float) -> None:
        """Set the best candidate to one that was found before an interruption."""
        ...

    async def measure_base(self) -> float:
        """Return the score of the skill as it is on the validation cases."""
        ...

    async def search(self) -> None:
        """Look for better candidates until the budget is used. May be cancelled at any time; the best so far stays."""
        ...

    async def test(self, change: Change) -> PairedScores:
        """Score base and candidate on the held-out cases."""
        ...


@dataclass(slots=True, kw_only=True)
class Search:
    """One search: the skill, the data, the bench to measure on, and the best change so far."""

    skill: Skill
    package: Package
    artifact: str
    limits: Limits
    data: OptimizerCases
    bench: Bench
    base: float
    """The score of the skill itself on the validation cases."""
    on_best: Callable[[Change, float], None]
    on_step: Callable[[], None]
    best: tuple[Change, float] | None = None
    failures: list[Score] = field(default_factory=list[Score])
    """The training cases that the skill itself did worst on."""

    @property
    def best_score(self) -> float:
        """The score to beat on the validation cases."""
        return self.best[1] if self.best else self.base

    @property
    def is_over(self) -> bool:
        """True if the budget of the search is used up, or nothing better is possible."""
        return bool(self.bench.meter.spent) or self.best_score >= 1.0

    def offer(self, change: Change, score: float) -> bool:
        """Keep a candidate if it is better than all before; return whether it is."""
        if score <= self.best_score:
            return False
        self.best = (change, score)
        self.on_best(change, score)
        return True

    async def try_out(self, change: Change, artifact: str) -> tuple[float, list[Score]] | None:
        """Measure a candidate on the validation cases, and keep it if it is better; None if it is not a valid skill."""
        try:
            skill, _ = build_candidate(self.skill, self.package, change, self.limits)
        except Invalid:
            return None
        scores = await self.bench.measure(skill, artifact, self.data.validation, on_score=self.on_step)
        score = mean_score(scores)
        self.offer(change, score)
        return score, scores
