"""Split cases into train, validation and held-out sets.

The inputs of a case decide, by their digest. So a case stays where it is when others are added, removed or reordered, and when
its checks change; and the same inputs under another id, in other case or spacing, are never on both sides. Shares are met on
average, for each label as well, and not exactly: only a random choice per case is stable.

An optimizer gets `OptimizerCases`, which has no held-out cases. The decision about its result uses `held_out_cases`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prowess.authoring.evals.case import SPLITS, EvalCase, Split
from prowess.errors import Invalid

_SALT = b"prowess-eval-split-1:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The share of cases in each set; together 1."""

    train: float = 0.6
    validation: float = 0.2
    held_out: float = 0.2

    def __post_init__(self) -> None:
        shares = (self.train, self.validation, self.held_out)
        if min(shares) < 0 or not math.isclose(math.fsum(shares), 1.0, abs_tol=1e-6):
            raise Invalid(f"The shares of a split must add up to 1, not {math.fsum(shares):g}.")


DEFAULT_SHARES = Shares()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The held-out cases, with a digest that says which they are."""

    cases: tuple[EvalCase, ...]
    digest: str
    missing_labels: tuple[str, ...] = ()
    """Labels that other cases have and none of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerCases:
    """The cases that an optimizer may see. About the held-out ones, it knows their number and digest."""

    train: tuple[EvalCase, ...]
    validation: tuple[EvalCase, ...]
    held_out_count: int
    held_out_digest: str
    _made: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self._made is not _MADE_HERE:
            raise TypeError("OptimizerCases are made by `optimizer_cases` only.")


_MADE_HERE = object()


def assign_splits(cases: Sequence[EvalCase], shares: Shares = DEFAULT_SHARES) -> list[Split]:
    """Return the set of each case. A set that an author chose applies to near duplicates too; if they differ, held-out wins."""
    chosen: dict[str, Split] = {}
    for case in cases:
        if case.split is not None:
            known = chosen.get(case.inputs_digest, case.split)
            chosen[case.inputs_digest] = known if SPLITS.index(known) > SPLITS.index(case.split) else case.split
    return [chosen.get(case.inputs_digest) or _draw(case.inputs_digest, shares) for case in cases]


def optimizer_cases(cases: Sequence[EvalCase], shares: Shares = DEFAULT_SHARES) -> OptimizerCases:
    """Return the cases for an optimizer, without those that are held out."""
    held = held_out_cases(cases, shares)
    return OptimizerCases(
        train=_chosen(cases, "train", shares),
        validation=_chosen(cases, "validation", shares),
        held_out_count=len(held.cases),
        held_out_digest=held.digest,
        _made=_MADE_HERE,
    )


def held_out_cases(cases: Sequence[EvalCase], shares: Shares = DEFAULT_SHARES) -> HeldOut:
    """Return the held-out cases, for the decision about a candidate and never for making one."""
    held = _chosen(cases, "held_out", shares)
    missing = {case.label for case in cases if case.label} - {case.label for case in held}
    return HeldOut(cases=held, digest=digest_cases(held), missing_labels=tuple(sorted(missing)))


def _chosen(cases: Sequence[EvalCase], part: Split, shares: Shares) -> tuple[EvalCase, ...]:
    return tuple(case for case, split in zip(cases, assign_splits(cases, shares), strict=True) if split == part)


def digest_cases(cases: Iterable[EvalCase]) -> str:
    """Return the SHA-256 of a set of cases, in whatever order."""
    return hashlib.sha256("\n".join(sorted(case.digest for case in cases)).encode()).hexdigest()


def _draw(digest: str, shares: Shares) -> Split:
    """Return the set for a digest: a number from 0 to 1 that only depends on it decides."""
    number = int.from_bytes(hashlib.sha256(_SALT + digest.encode()).digest()[:8]) / 2**64
    if number < shares.held_out:
        return "held_out"
    return "validation" if number < shares.held_out + shares.validation else "train"
