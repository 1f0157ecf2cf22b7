"""Run a skill: its selected artifacts in ordinal order, each with the outputs of those before it as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prowess.catalog.store import Store
from prowess.errors import ProwessError
from prowess.policy.subject import Subject
from prowess.run.allowance import DEFAULT_SECONDS, Allowance, read_allowance
from prowess.run.call import DryRunEnded, Run, make_call
from prowess.run.handler import RunArtifact
from prowess.run.result import RunResult, produce_files
from prowess.run.selection import add_outputs, normalize_inputs, select_artifacts
from prowess.session.text import read_subject
from prowess.skill.model import Skill
from prowess.skill.needs import measure_reach
from prowess.skill.outline import SkillOutline


def subject_of_run(
    store: Store, skill: Skill, artifacts: Sequence[str] = (), *, limits: Allowance | None = None
) -> Subject:
    """Return what the gate decides about: the skill, and how far a run of it, or of these artifacts, reaches."""
    subject = read_subject(store, SkillOutline.of(skill))
    asks_first = (limits or read_allowance(skill)).asks_first
    return replace(subject, asks_first=asks_first, reach=measure_reach(skill, tuple(artifacts)))


class Runner:
    """Runs skills that have passed the gate. `seconds` is what a call may take if neither caller nor skill says less."""

    def __init__(self, run_artifact: RunArtifact, *, seconds: float = DEFAULT_SECONDS) -> None:
        self._run_artifact = run_artifact
        self.seconds = seconds

    async def run(self, run: Run) -> RunResult:
        """Run the artifacts that the run names, or the whole skill. The result says what went wrong.

        Raise `Invalid` or `NotFound` if there is nothing to run, or if the inputs are not JSON.
        """
        selected = select_artifacts(run.skill, run.artifacts)
        inputs = normalize_inputs(run.inputs)
        outputs: dict[str, Any] = {}
        waiting: tuple[str, ...] = ()
        for place, artifact in enumerate(selected, 1):
            together = add_outputs(inputs, outputs)
            following = tuple(one.name for one in selected[place:])
            call = make_call(
                run,
                artifact,
                together,
                handed_on=frozenset(together.keys() - inputs.keys()),
                following=following,
                resumes=run.resumes if place == 1 else "",
            )
            try:
                output = await self._run_artifact(call)
            except DryRunEnded:
                waiting = following
                break
            except ProwessError as error:
                if not run.parts or run.parts[-1].error is not error:
                    raise  # a listener raised it, or the artifact's fallback does not exist
                break
            outputs[artifact.name] = output.value
        result = RunResult(run_id=run.id, skill=run.skill.slug, parts=tuple(run.parts), waiting=waiting)
        return replace(result, produced=produce_files(run.skill, result.output)) if result.ok else result
