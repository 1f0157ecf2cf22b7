"""How good a ranking is: recall, reciprocal rank and discounted gain, and how sure a difference of two methods is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DEPTH = 10
DISCOUNTS = 1 / np.log2(np.arange(2, DEPTH + 2))
RESAMPLES = 5000


class Scores(NamedTuple):
    """What one ranking, or the mean of many, reached; each from 0 to 1."""

    recall_1: float
    recall_5: float
    recall_10: float
    mrr: float
    ndcg: float


class Difference(NamedTuple):
    """A mean difference with the interval that holds it in 95 of 100 resamples."""

    mean: float
    low: float
    high: float


def score_of(ranked: Sequence[str], relevant: frozenset[str]) -> Scores:
    """Score the first ten ids of a ranking."""
    hits = np.array([found in relevant for found in ranked[:DEPTH]], dtype=float)
    hits = np.pad(hits, (0, DEPTH - len(hits)))
    places = np.flatnonzero(hits)
    return Scores(
        recall_1=float(hits[0]) / len(relevant),
        recall_5=float(hits[:5].sum()) / len(relevant),
        recall_10=float(hits.sum()) / len(relevant),
        mrr=1 / (int(places[0]) + 1) if len(places) else 0.0,
        ndcg=float(hits @ DISCOUNTS) / float(DISCOUNTS[: len(relevant)].sum()),
    )


def mean_of(scores: Sequence[Scores]) -> Scores:
    return Scores(*np.mean(np.array(scores), axis=0).tolist())


def paired_bootstrap(ours: Sequence[float], theirs: Sequence[float], seed: int = 1) -> Difference:
    """The mean of ours − theirs over the same queries, resampled by query."""
    gaps = np.array(ours) - np.array(theirs)
    chosen = np.random.default_rng(seed).integers(0, len(gaps), size=(RESAMPLES, len(gaps)))
    low, high = np.quantile(gaps[chosen].mean(axis=1), [0.025, 0.975])
    return Difference(float(gaps.mean()), float(low), float(high))
