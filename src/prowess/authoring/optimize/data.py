"""The cases that an optimization works with: from eval files and from the traces of live runs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from prowess.authoring.evals.case import Check, EvalCase
from prowess.authoring.evals.formats.suite import find_suite_paths, read_suite
from prowess.authoring.evals.splits import OptimizerCases, Shares
from prowess.authoring.optimize.decision import MIN_HELD_OUT
from prowess.engine.engine import Engine
from prowess.errors import Invalid, Refused
from prowess.run.allowance import WITHHELD
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.storage.proposals import EVAL_SESSION, TRIAL_SESSION
from prowess.threads import offload

SHARES = Shares(train=0.35, validation=0.25, held_out=0.4)
"""More is held out than for an evaluation: what is not proven there is refused."""
MIN_TRAIN = 10
MIN_VALIDATION = 10
MAX_TRACES = 500

_REDACTED = "[redacted"


async def read_cases(
    engine: Engine, skill: Skill, artifact: str, *, metric: str, file: str, traces: bool, days: float
) -> list[EvalCase]:
    """Return the cases for an artifact, with the checks of the metric. Those of its fallback are its cases, too.

    Raise `Invalid` if an eval file has errors, and `Refused` if there is nothing to measure by.
    """
    names = [name for name in (artifact, skill.find_artifact(artifact).fallback) if name]
    cases = await _from_files(engine, skill, names, file)
    if traces and metric != "exact":
        # What a live run answered is not necessarily right, so it is not an answer to compare with.
        known = {case.inputs_digest for case in cases}
        cases += [trace for trace in await _from_traces(engine, skill, names, days) if trace.inputs_digest not in known]
    found = [with_metric(case, metric) for case in cases]
    asserted = bool(skill.find_artifact(artifact).assertions)
    measurable = [case for case in found if case.checks or asserted]
    if found and not measurable:
        raise Refused(
            f"Nothing says which outputs of {artifact!r} are good: it has no assertions, and its cases have no checks.",
            hint="Add assertions or checks, or use `--metric exact` (cases with `expected`) or `--metric rubric:ID`.",
        )
    return measurable


def with_metric(case: EvalCase, metric: str) -> EvalCase:
    """Return the case with the check that a named metric is; unchanged if the checks and assertions decide."""
    if metric == "assertions":
        return case
    if metric == "exact":
        if case.expected is None:
            return replace(case, checks=())
        return replace(case, checks=(Check(type="normalized" if isinstance(case.expected, str) else "json_subset"),))
    return replace(case, checks=(Check(type="rubric", settings={"rubric": metric.removeprefix("rubric:")}),))


async def _from_files(engine: Engine, skill: Skill, names: Sequence[str], file: str) -> list[EvalCase]:
    if file:
        suite = await offload(read_suite, Path(file), skill.slug)
    else:
        paths = find_suite_paths(entry.path for entry in skill.manifest)
        address = f"{skill.scope}:{skill.slug}"
        files = {path: await engine.skills.read_file(address, path) for path in paths}
        if not files:
            return []
        suite = await offload(read_suite, files, skill.slug)
    errors = [problem for problem in suite.problems if problem.severity == "error"]
    if errors and (file or suite.cases):
        raise Invalid(f"The evals of {skill.slug!r} have errors: {errors[0].message}", problems=errors)
    return [
        replace(case, artifact=names[0])
        for case in suite.cases
        if case.inputs is not None and case.artifact in ("", *names)
    ]


async def _from_traces(engine: Engine, skill: Skill, names: Sequence[str], days: float) -> list[EvalCase]:
    """Return the newest live runs as cases. Secrets were removed when they were recorded; runs that lack a value are skipped."""
    newest: deque[EvalCase] = deque(maxlen=MAX_TRACES)
    for name in names:
        async for row in engine.traces.export("jsonl", skill=skill.slug, artifact=name, days=days):
            session = str(row["session_id"])
            # Measurements may have run held-out cases, which must not come back as training data.
            if session.startswith((TRIAL_SESSION, EVAL_SESSION)) or row["status"] not in ("ok", "failed"):
                continue
            inputs = cast("JsonObject", row["inputs"])
            if not inputs or _is_incomplete(inputs):
                continue
            passed = row["status"] == "ok" and row["assertions_run"] == row["assertions_passed"]
            expected = row["raw_output"] if passed and row["raw_output"] else None
            newest.append(EvalCase(id=f"trace-{row['id']}", inputs=inputs, artifact=names[0], expected=expected))
    return list({case.inputs_digest: case for case in newest}.values())


def _is_incomplete(value: Any) -> bool:
    if isinstance(value, str):
        return value == WITHHELD or _REDACTED in value
    if isinstance(value, dict):
        return any(map(_is_incomplete, cast("JsonObject", value).values()))
    return any(map(_is_incomplete, cast("list[Any]", value))) if isinstance(value, list) else False


def check_enough(cases: OptimizerCases, artifact: str) -> None:
    """Raise `Refused` if there are too few cases to search with or to prove anything by."""
    have = (len(cases.train), len(cases.validation), cases.held_out_count)
    need = (MIN_TRAIN, MIN_VALIDATION, MIN_HELD_OUT)
    refuse_too_few(f"optimize {artifact!r}", have, need, "cases")


def refuse_too_few(purpose: str, have: Sequence[int], need: Sequence[int], what: str) -> None:
    """Raise `Refused` if one of the sets is too small; say how many are needed and how to get them."""
    shares = (SHARES.train, SHARES.validation, SHARES.held_out)
    missing = max(math.ceil(max(n - h, 0) / s) for h, n, s in zip(have, need, shares, strict=True))
    if missing <= 0:
        return
    names = ("for training", "for validation", "held out")
    counts = ", ".join(f"{h} {name} ({n} needed)" for h, n, name in zip(have, need, names, strict=True))
    where = "evals/cases.yaml" if what == "cases" else "evals/triggers.json"
    more = ", or let people run the skill: inputs of live runs are used too" if what == "cases" else ""
    raise Refused(
        f"Too few {what} to {purpose}: {counts}.",
        hint=f"Add about {missing} {what} to {where}{more}. See docs/optimizing.md.",
    )
