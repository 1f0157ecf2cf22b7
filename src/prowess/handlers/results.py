"""Results of generations and reviews in the terms of AgentLayerRules, and the timing of their steps."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Literal, get_args

from prowess.lazy_dataclass import dataclass
from prowess.prompts.prompt import Criterion, Rubric
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import SchemaError


class Stopwatch:
    """Adds up the time of named steps. A step that never happens takes no time."""

    def __init__(self, *steps: str) -> None:
        self._seconds = dict.fromkeys(steps, 0.0)
        self._began = time.perf_counter()

    @contextmanager
    def measure(self, step: str) -> Generator[None]:
        """Add the time of the block to a step, however the block ends."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[step] += time.perf_counter() - began

    def timings_ms(self) -> dict[str, float]:
        """Return the time of each step and the total so far, in milliseconds."""
        total = time.perf_counter() - self._began
        return {step: round(seconds * 1000, 3) for step, seconds in {**self._seconds, "total": total}.items()}


CriterionVerdict = Literal["pass", "fail", "indeterminate"]
VERDICTS: tuple[CriterionVerdict, ...] = get_args(CriterionVerdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """The result of a generation: data that satisfies its schema, or the errors of the last answer; never both."""

    data: Any = None
    validation_errors: tuple[SchemaError, ...] = ()
    raw_response: str = ""
    attempts: int = 1
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}.")
        if self.validation_errors and self.data is not None:
            raise ValueError("A failed generation cannot have data.")

    @property
    def success(self) -> bool:
        """True if the data satisfies the schema."""
        return not self.validation_errors

    def as_json(self) -> JsonObject:
        """Return the result under the names that AgentLayerRules uses."""
        outcome: JsonObject = (
            {"data": self.data}
            if self.success
            else {"validationErrors": [error.as_json() for error in self.validation_errors]}
        )
        return {
            "success": self.success,
            **outcome,
            "rawResponse": self.raw_response,
            "attempts": self.attempts,
            "timings_ms": dict(self.timings_ms),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """The verdict on one criterion. `evidence` are quotes from the asset; `suggested_fix` may be empty."""

    criterion_id: str
    criterion_name: str
    verdict: CriterionVerdict
    reasoning: str
    confidence: float = 0.0
    evidence: tuple[str, ...] = ()
    suggested_fix: str = ""
    judged: bool = True
    """False if the model gave no usable verdict, so that the result says nothing about the asset."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"Invalid verdict {self.verdict!r}. Use one of: {', '.join(VERDICTS)}.")
        if not (math.isfinite(self.confidence) and 0 <= self.confidence <= 1):
            raise ValueError(f"Invalid confidence {self.confidence}. Use a number from 0 to 1.")

    def as_json(self) -> JsonObject:
        """Return the result under the names that AgentLayerRules uses."""
        return {
            "criterion_id": self.criterion_id,
            "criterion_name": self.criterion_name,
            "verdict": self.verdict,
            "reasoning": self.reasoning,
            "confidence": self.confidence,
            "evidence": list(self.evidence),
        }


def undecided_result(criterion: Criterion, why: str, *, judged: bool = False) -> CriterionResult:
    """Return the result for a criterion that could not be judged; `judged` if that is because of the asset."""
    return CriterionResult(
        criterion_id=criterion.id, criterion_name=criterion.name, verdict="indeterminate", reasoning=why, judged=judged
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """The result of a review: one result for each criterion of the rubric, in its order. All else is derived from these.

    Only an explicit `pass` counts: an undecided criterion does not pass, and its weight is lost.
    """

    rubric: Rubric
    criteria_results: tuple[CriterionResult, ...]
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        judged = [result.criterion_id for result in self.criteria_results]
        if judged != [criterion.id for criterion in self.rubric.criteria]:
            raise ValueError("A review needs one result for each criterion of its rubric, in the same order.")

    @property
    def score(self) -> float:
        """The weighted share of criteria that passed, from 0 to 1. It is 1 only if all passed, however small a weight is."""
        verdicts = [result.verdict for result in self.criteria_results]
        if set(verdicts) == {"pass"}:
            return 1.0
        heaviest = max(criterion.weight for criterion in self.rubric.criteria)
        # Relative to the heaviest, so that huge weights do not overflow and tiny ones do not vanish.
        shares = [criterion.weight / heaviest for criterion in self.rubric.criteria]
        passed = math.fsum(share for share, verdict in zip(shares, verdicts, strict=True) if verdict == "pass")
        # Rounding must not give a full score while a criterion with a tiny weight has failed.
        return min(passed / math.fsum(shares), math.nextafter(1.0, 0.0))

    @property
    def threshold(self) -> float:
        """The score that the asset must reach. Without one in the rubric, all criteria must pass."""
        threshold = self.rubric.pass_threshold
        return 1.0 if threshold is None or self.rubric.scoring_mode == "binary" else threshold

    @property
    def passed(self) -> bool:
        """Binary: every criterion passes. Weighted: the score reaches the threshold."""
        if self.rubric.scoring_mode == "binary":
            return all(result.verdict == "pass" for result in self.criteria_results)
        return self.score >= self.threshold

    @property
    def issues(self) -> list[str]:
        """The failed criteria, and why each failed."""
        failed = [_describe("Not met", result) for result in self.criteria_results if result.verdict == "fail"]
        if failed or self.indeterminate or self.passed:
            return failed
        return [f"Not met: the score {self.score:g} is below the pass threshold {self.threshold:g}."]

    @property
    def indeterminate(self) -> list[str]:
        """The undecided criteria, and why each is undecided."""
        return [_describe("Undecided", result) for result in self.criteria_results if result.verdict == "indeterminate"]

    @property
    def suggested_fixes(self) -> list[str]:
        """The suggested fixes of failed criteria, each once."""
        fixes = (result.suggested_fix for result in self.criteria_results if result.verdict == "fail")
        return list(dict.fromkeys(fix for fix in fixes if fix))

    def as_json(self, *, details: bool = True) -> JsonObject:
        """Return the result under the names that AgentLayerRules uses, with or without the criteria."""
        view: JsonObject = {
            "pass": self.passed,
            "issues": self.issues,
            "suggested_fixes": self.suggested_fixes,
            "indeterminate": self.indeterminate,
        }
        if details:
            view["criteria_results"] = [result.as_json() for result in self.criteria_results]
        return {**view, "timings_ms": dict(self.timings_ms)}


def _describe(what: str, result: CriterionResult) -> str:
    """Return one line about a criterion; `what` keeps issues and undecided criteria apart."""
    return f"{what}: {result.criterion_name}: {result.reasoning}"
