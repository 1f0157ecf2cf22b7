"""Write a run as skill-creator does, one tree for each model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.checks import CheckVerdict, Grade
from prowess.authoring.evals.results import CaseResult, EvalRun
from prowess.authoring.evals.run_tree import Configuration, TrialRecord, write_run_tree

_CONFIGURATIONS: dict[str, Configuration] = {
    "skill": "with_skill",
    "without": "without_skill",
    "version": "old_skill",
}


def write_trees(run: EvalRun, cases: Sequence[EvalCase], folder: Path) -> list[Path]:
    """Write one iteration for each model into `folder`, and return their folders. Results of other cases are left out."""
    known = {case.digest: case for case in cases}
    written: list[Path] = []
    for model in dict.fromkeys(arm.model for arm in run.arms):
        records = [
            TrialRecord(
                case=known[one.digest],
                configuration=_CONFIGURATIONS[run.arms[one.arm].kind],
                trial=one.repeat,
                grade=_grade(one),
                output=one.output,
                seconds=one.seconds,
                tokens=one.tokens or 0,
            )
            for one in run.results
            if run.arms[one.arm].model == model and one.digest in known
        ]
        written.append(write_run_tree(folder, run.skill, records, model=model))
    return written


def _grade(result: CaseResult) -> Grade:
    verdicts = tuple(CheckVerdict(**told) for told in result.verdicts)
    error = result.error if result.passed is None else ""
    return Grade(score=result.score, passed=bool(result.passed), verdicts=verdicts, error=error)
