"""Write the results of an evaluation as skill-creator does, so that its viewer and scripts read them.

    <skill>-workspace/iteration-1/
        benchmark.json
        eval-0/
            eval_metadata.json
            with_skill/{outputs/, timing.json, grading.json}
            without_skill/{outputs/, timing.json, grading.json}

With several trials, each has a folder `run-1`, `run-2`, … inside the configuration's. The names of fields are those that the
viewer reads.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.checks import CheckVerdict, Grade
from prowess.authoring.evals.results import CaseResult, EvalRun
from prowess.errors import Conflict
from prowess.skill.kinds import JsonObject

Configuration = Literal["with_skill", "without_skill", "old_skill"]

_ITERATION = re.compile(r"iteration-([0-9]{1,6})")
_MAX_ITERATIONS = 10_000
_CONFIGURATIONS: dict[str, Configuration] = {"skill": "with_skill", "without": "without_skill", "version": "old_skill"}


def write_trees(run: EvalRun, cases: Sequence[EvalCase], folder: Path) -> list[Path]:
    """Write one iteration for each model into `folder`, and return their folders. Results of other cases are left out."""
    known = {case.digest: case for case in cases}
    written: list[Path] = []
    for model in dict.fromkeys(arm.model for arm in run.arms):
        records = [
            TrialRecord(
                # Two cases may ask the same, and each has its own folder.
                case=replace(known[result.digest], id=result.case),
                configuration=_CONFIGURATIONS[run.arms[result.arm].kind],
                trial=result.repeat,
                grade=_grade(result),
                output=result.output,
                seconds=result.seconds,
                tokens=result.tokens or 0,
            )
            for result in run.results
            if run.arms[result.arm].model == model and result.digest in known
        ]
        written.append(write_run_tree(folder, run.skill, records, model=model))
    return written


def _grade(result: CaseResult) -> Grade:
    verdicts = tuple(CheckVerdict(**verdict) for verdict in result.verdicts)
    error = result.error if result.passed is None else ""
    return Grade(score=result.score, passed=bool(result.passed), verdicts=verdicts, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One trial of one case in one configuration, graded."""

    case: EvalCase
    configuration: Configuration
    trial: int
    """Counted from 1."""
    grade: Grade
    output: str = ""
    seconds: float = 0.0
    tokens: int = 0


def write_run_tree(folder: Path, skill: str, records: Sequence[TrialRecord], *, model: str = "") -> Path:
    """Write one new iteration into `<folder>/<skill>-workspace`, and return its folder. Nothing that exists is changed."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", skill).strip(".-")[:80] or "skill"
    workspace = folder / f"{name}-workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    iteration = _new_iteration(workspace)
    numbers = _numbers(records)
    trials = max((record.trial for record in records), default=1)
    for record in records:
        number = numbers[record.case.id]
        home = iteration / f"eval-{number}"
        if not home.exists():
            home.mkdir()
            _write(home / "eval_metadata.json", _metadata(record.case, number))
        place = home / record.configuration
        _write_trial(place / f"run-{record.trial}" if trials > 1 else place, record)
    _write(iteration / "benchmark.json", benchmark(skill, records, model=model))
    return iteration


def _new_iteration(workspace: Path) -> Path:
    """Create and return the next free `iteration-N`; two evaluations that end at the same time get one each."""
    known = [int(found[1]) for folder in workspace.iterdir() if (found := _ITERATION.fullmatch(folder.name))]
    first = max(known, default=0) + 1
    for number in range(first, first + _MAX_ITERATIONS):
        try:
            (workspace / f"iteration-{number}").mkdir()
        except FileExistsError:
            continue
        return workspace / f"iteration-{number}"
    raise Conflict(f"All iteration numbers are used in {str(workspace)!r}.", hint="Choose another folder with --out.")


def _numbers(records: Iterable[TrialRecord]) -> dict[str, int]:
    """Return the numeric id of each case, as the viewer wants it: its own if all are whole numbers, else its position."""
    ids = list(dict.fromkeys(record.case.id for record in records))
    if all(name.isascii() and name.isdecimal() and len(name) < 10 and name == str(int(name)) for name in ids):
        return {name: int(name) for name in ids}
    return {name: index for index, name in enumerate(ids)}


def _metadata(case: EvalCase, number: int) -> JsonObject:
    return {
        "eval_id": number,
        "eval_name": _title(case),
        "prompt": case.prompt or json.dumps(case.inputs, ensure_ascii=False),
        "assertions": [str(check.settings.get("text") or check.description or check.type) for check in case.checks],
    }


def _title(case: EvalCase) -> str:
    return case.name or case.id


def _write_trial(place: Path, record: TrialRecord) -> None:
    (place / "outputs").mkdir(parents=True)
    # A lone surrogate in an answer could not be written to a file.
    (place / "outputs" / "output.md").write_bytes(record.output.encode("utf-8", "replace"))
    seconds = round(record.seconds, 3)
    timing = {"total_tokens": record.tokens, "duration_ms": round(seconds * 1000), "total_duration_seconds": seconds}
    _write(place / "timing.json", timing)
    _write(place / "grading.json", grading(record))


def grading(record: TrialRecord) -> JsonObject:
    """Return the content of `grading.json`."""
    result = _result(record)
    summary = {name: result[name] for name in ("passed", "failed", "total", "pass_rate")}
    return {
        "expectations": _expectations(record.grade),
        "summary": summary,
        "execution_metrics": {
            "tool_calls": {},
            "total_tool_calls": 0,
            "total_steps": 1,
            "errors_encountered": result["errors"],
            "output_chars": len(record.output),
            "transcript_chars": 0,
        },
        "timing": {"total_duration_seconds": result["time_seconds"]},
    }


def _expectations(grade: Grade) -> list[JsonObject]:
    return [
        {
            "text": verdict.description,
            "passed": verdict.passed,
            "evidence": f"Error: {verdict.error}" if verdict.error else verdict.evidence,
        }
        for verdict in grade.verdicts
    ]


def _result(record: TrialRecord) -> JsonObject:
    verdicts = record.grade.verdicts
    passed = sum(verdict.passed for verdict in verdicts)
    return {
        "pass_rate": round(passed / len(verdicts), 4) if verdicts else 0.0,
        "passed": passed,
        "failed": len(verdicts) - passed,
        "total": len(verdicts),
        "time_seconds": round(record.seconds, 3),
        "tokens": record.tokens,
        "tool_calls": 0,
        "errors": int(bool(record.grade.error)),
    }


def benchmark(skill: str, records: Sequence[TrialRecord], *, model: str = "") -> JsonObject:
    """Return the content of `benchmark.json`. The old version of a skill is called `without_skill`, the name of a baseline there."""
    numbers = _numbers(records)
    runs = [
        {
            "eval_id": numbers[record.case.id],
            "eval_name": _title(record.case),
            "configuration": _side(record),
            "run_number": record.trial,
            "result": _result(record),
            "expectations": _expectations(record.grade),
            "notes": [f"Error: {record.grade.error}"] if record.grade.error else [],
        }
        for record in records
    ]
    return {
        "metadata": {
            "skill_name": skill,
            "skill_path": "",
            "executor_model": model,
            "analyzer_model": model,
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "evals_run": sorted(set(numbers.values())),
            "runs_per_configuration": max((record.trial for record in records), default=1),
        },
        "runs": runs,
        "run_summary": _summary(records),
        "notes": [],
    }


def _side(record: TrialRecord) -> str:
    return "with_skill" if record.configuration == "with_skill" else "without_skill"


def _summary(records: Sequence[TrialRecord]) -> JsonObject:
    """Return the figures of both sides. A case that could not be graded counts on neither."""
    counted = [record for record in records if not record.grade.error]
    sides: dict[str, list[JsonObject]] = {"with_skill": [], "without_skill": []}
    for record in counted:
        sides[_side(record)].append(_result(record))
    names = ("pass_rate", "time_seconds", "tokens")
    data: JsonObject = {
        side: {name: _figures([float(result[name]) for result in results]) for name in names}
        for side, results in sides.items()
        if results
    }
    if len(data) == 2:
        change = {name: data["with_skill"][name]["mean"] - data["without_skill"][name]["mean"] for name in names}
        formats = {"pass_rate": "{:+.2f}", "time_seconds": "{:+.1f}", "tokens": "{:+.0f}"}
        data["delta"] = {name: formats[name].format(change[name]) for name in names}
    return data


def _figures(values: Sequence[float]) -> JsonObject:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    figures = {"mean": statistics.fmean(values), "stddev": spread, "min": min(values), "max": max(values)}
    return {name: round(value, 4) for name, value in figures.items()}


def _write(path: Path, content: JsonObject) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
