"""Say how sure a figure is: intervals for means and rates, and whether a paired difference is more than noise.

Several answers to the same case are not independent, so everything here first averages each case. All functions return
the same numbers for the same input on every machine: the random numbers have a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Verdict = Literal["better", "worse", "no difference shown"]

CONFIDENCE = 0.95
RESAMPLES = 10_000
_SEED = 0

_EXACT = 14
"""Up to this many cases, all assignments of signs are tried instead of a sample of them."""
_CELLS = 1_000_000
"""Random numbers that are in memory at the same time."""

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and the interval around it.

    Without any value the mean is NaN. With fewer than two cases the interval is infinite, so that nothing can be concluded
    from it.
    """

    mean: float
    low: float
    high: float

    def as_json(self) -> dict[str, float | None]:
        """Return the three numbers, with None for those that are not finite."""
        return {name: _finite(value) for name, value in (("mean", self.mean), ("low", self.low), ("high", self.high))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much higher the values are after than before, on the same cases."""

    interval: Interval
    p: float
    """The chance of such a difference if both were equally good; 1.0 if there are no cases."""
    verdict: Verdict
    cases: int


def mean_interval(
    values: Sequence[float], *, clusters: Sequence[Hashable] | None = None, resamples: int = RESAMPLES
) -> Interval:
    """Return the mean and its bootstrap interval. `clusters` names the case of each value, if cases repeat."""
    means = _cluster_means(values, clusters)
    count = len(means)
    if count < 2:
        return Interval(mean=float(means[0]) if count else math.nan, low=-math.inf, high=math.inf)
    if means.min() == means.max():
        # Resampling equal values gives the same mean up to rounding, which would be shown as an interval.
        same = float(means[0])
        return Interval(mean=same, low=same, high=same)
    generator = np.random.Generator(np.random.PCG64(_SEED))
    sampled = _in_chunks(
        resamples, count, lambda rows: means[generator.integers(0, count, size=(rows, count))].mean(axis=1)
    )
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(sampled, [tail, 1 - tail])
    return Interval(mean=float(means.mean()), low=float(low), high=float(high))


def paired_interval(
    before: Sequence[float],
    after: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return the mean of `after - before` and its bootstrap interval. Both lists are in the same order of cases."""
    changes = [new - old for old, new in zip(before, after, strict=True)]
    return mean_interval(changes, clusters=clusters, resamples=resamples)


def compare_paired(
    before: Sequence[float],
    after: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
) -> Difference:
    """Return the difference with its verdict, for values where more is better.

    A difference is shown only if the bootstrap interval excludes zero and a sign-flip test agrees. The interval alone claims too
    much for a few cases: three gains and no loss give an interval above zero, and a coin shows that one time in four.
    """
    interval = paired_interval(before, after, clusters=clusters, resamples=resamples)
    changes = _cluster_means([new - old for old, new in zip(before, after, strict=True)], clusters)
    p = _sign_flip(changes, resamples)
    verdict: Verdict = "no difference shown"
    if p < 1 - CONFIDENCE and interval.low > 0:
        verdict = "better"
    elif p < 1 - CONFIDENCE and interval.high < 0:
        verdict = "worse"
    return Difference(interval=interval, p=p, verdict=verdict, cases=len(changes))


def rate_interval(
    passed: Sequence[bool], *, clusters: Sequence[Hashable] | None = None, confidence: float = CONFIDENCE
) -> Interval:
    """Return a pass rate and its Wilson interval.

    Unlike the bootstrap, it stays honest when every case passes: 5 of 5 may well be a skill that fails one time in four. With
    repeats it counts cases, not answers, so it is rather too wide than too narrow.
    """
    rates = _cluster_means([float(outcome) for outcome in passed], clusters)
    count = len(rates)
    if not count:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf)
    rate = float(rates.mean())
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = (rate + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(rate * (1 - rate) / count + z * z / (4 * count * count))
    # Rounding must not put the rate itself outside.
    return Interval(mean=rate, low=min(max(middle - half, 0.0), rate), high=max(min(middle + half, 1.0), rate))


def _cluster_means(values: Sequence[float], clusters: Sequence[Hashable] | None) -> _Array:
    """Return one mean for each case, in the order in which the cases first appear."""
    if clusters is None:
        return np.asarray(values, dtype=np.float64)
    grouped: dict[Hashable, list[float]] = {}
    for name, value in zip(clusters, values, strict=True):
        grouped.setdefault(name, []).append(value)
    return np.asarray([math.fsum(group) / len(group) for group in grouped.values()], dtype=np.float64)


def _sign_flip(changes: _Array, resamples: int) -> float:
    """Return how often a mean this far from zero comes up if each change could as well have had the other sign."""
    # Cases without a change say nothing, whichever sign they get.
    changes = changes[changes != 0]
    count = len(changes)
    if not count:
        return 1.0
    # A little less than the sum, so that rounding does not hide sums that are equal to it.
    limit = abs(float(changes.sum())) * (1 - 1e-9)
    if count <= _EXACT:
        bits: NDArray[np.int64] = (np.arange(2**count, dtype=np.int64)[:, None] >> np.arange(count)) & 1
        signs = 1.0 - 2.0 * bits.astype(np.float64)
        return float(np.mean(np.abs(signs @ changes) >= limit))
    generator = np.random.Generator(np.random.PCG64(_SEED))
    sums = _in_chunks(
        resamples, count, lambda rows: (1.0 - 2.0 * generator.integers(0, 2, size=(rows, count))) @ changes
    )
    # The observed assignment is one of them; a p of exactly zero cannot be had from a sample.
    return (1 + int(np.count_nonzero(np.abs(sums) >= limit))) / (1 + resamples)


def _in_chunks(rows: int, columns: int, draw: Callable[[int], _Array]) -> _Array:
    step = max(1, _CELLS // max(columns, 1))
    return np.concatenate([draw(min(step, rows - start)) for start in range(0, rows, step)])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
