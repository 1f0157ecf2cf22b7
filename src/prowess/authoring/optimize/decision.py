"""Decide whether a candidate is better than what it replaces: on held-out cases before, in live runs after its approval.

Before: both are scored on the same held-out cases, and the candidate is accepted only if the paired difference is more
than noise. After: the live runs of the new version are compared with those of the old one at a few fixed numbers of runs.
Looking again and again finds a "regression" in noise sooner or later, so each look uses its share of the error that all
looks together may make.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Literal

from prowess.authoring.evals.statistics import Interval, compare_paired, rate_interval
from prowess.skill.kinds import JsonObject

MIN_HELD_OUT = 20
"""Held-out cases below which no difference is claimed: 5 gains and no loss among 5 cases come up by chance 1 time in 16."""

LOOKS = (20, 40, 80, 160, 320)
"""Numbers of live runs of the new version at which it is compared with the old one. After the last, it stays."""
MIN_OLD_RUNS = 20
"""Live runs of the old version that a comparison needs."""
MAX_OLD_RUNS = 1_000
"""Live runs of the old version, the newest, that are compared with."""
LIVE_CONFIDENCE = 0.95
"""The probability that a version that is not worse is kept, over all looks together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutTest:
    """The scores of base and candidate on the same held-out cases, and what follows."""

    cases: int
    repeats: int
    base: float
    candidate: float
    difference: Interval
    p: float
    accepted: bool
    uses: int
    """How many candidates for this skill were tested on these cases, this one included."""

    @property
    def verdict(self) -> str:
        """The figures in one sentence, with what weakens them."""
        low, high = self.difference.low, self.difference.high
        p = f"p = {self.p:.3f}" if self.p >= 0.001 else "p < 0.001"
        comparison = (
            f"{self.candidate:.3f} against {self.base:.3f} on {self.cases} held-out cases: "
            f"difference {self.difference.mean:+.3f}, 95% interval {low:+.3f} to {high:+.3f}, {p}"
        )
        if self.accepted:
            comparison = f"Significantly better: {comparison}."
        elif high < 0:
            comparison = f"Worse: {comparison}."
        else:
            comparison = f"Not significantly better: {comparison}."
        if self.uses > 1:
            comparison += (
                f" These held-out cases were used for {self.uses} candidates of this skill, which weakens the claim: "
                "the more candidates, the more likely one looks better by chance. Add new cases."
            )
        return comparison

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return {**asdict(self), "difference": self.difference.as_json(), "verdict": self.verdict}


def decide(
    base: Sequence[float], candidate: Sequence[float], clusters: Sequence[Hashable], *, uses: int = 1
) -> HeldOutTest:
    """Compare the scores of both on the same runs of the same cases. `clusters` names the case of each score."""
    found = compare_paired(base, candidate, clusters=clusters)
    cases = len(set(clusters))
    return HeldOutTest(
        cases=cases,
        repeats=len(clusters) // cases if cases else 0,
        base=fmean(base) if base else 0.0,
        candidate=fmean(candidate) if candidate else 0.0,
        difference=found.interval,
        p=found.p,
        accepted=found.verdict == "better" and cases >= MIN_HELD_OUT,
        uses=uses,
    )


LiveVerdict = Literal["waiting", "regressed", "fine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTest:
    """The live runs of both versions, and what follows from them."""

    old_runs: int
    old_rate: float | None
    new_runs: int
    new_rate: float | None
    difference: Interval | None
    verdict: LiveVerdict
    looked_at: int
    """The number of runs at which both were last compared; 0 before the first."""

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return {**asdict(self), "difference": self.difference and self.difference.as_json()}


def judge_live(old: Sequence[bool], new: Sequence[bool]) -> LiveTest:
    """Compare the live runs of two versions; both are whether each run passed its assertions, the new ones oldest first.

    The result depends only on the runs up to the last of `LOOKS` that is reached, so asking more often changes nothing.
    """
    looked_at = max((look for look in LOOKS if look <= len(new)), default=0)
    difference: Interval | None = None
    verdict: LiveVerdict = "waiting"
    if looked_at and len(old) >= MIN_OLD_RUNS:
        difference = _rate_difference(old, new[:looked_at])
        if difference.high < 0:
            verdict = "regressed"
    if verdict == "waiting" and looked_at == LOOKS[-1]:
        verdict = "fine"
    return LiveTest(
        old_runs=len(old),
        old_rate=fmean(old) if old else None,
        new_runs=len(new),
        new_rate=fmean(new) if new else None,
        difference=difference,
        verdict=verdict,
        looked_at=looked_at,
    )


def _rate_difference(old: Sequence[bool], new: Sequence[bool]) -> Interval:
    """Return the difference of two rates with Newcombe's interval, made of the Wilson intervals of both.

    Only a drop is acted on, so each of the looks may err on that side alone: its share of the error is doubled.
    """
    confidence = 1 - 2 * (1 - LIVE_CONFIDENCE) / len(LOOKS)
    before, after = rate_interval(old, confidence=confidence), rate_interval(new, confidence=confidence)
    difference = after.mean - before.mean
    low = difference - math.hypot(after.mean - after.low, before.high - before.mean)
    high = difference + math.hypot(after.high - after.mean, before.mean - before.low)
    return Interval(mean=difference, low=low, high=high)
