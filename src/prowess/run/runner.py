"""Run a skill: its selected artifacts in ordinal order, each with the outputs of those before it as inputs."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from prowess.catalog.catalog import Catalog
from prowess.catalog.store import Store
from prowess.errors import ProwessError
from prowess.policy.subject import Subject
from prowess.redaction.redactor import Redactor
from prowess.run.allowance import DEFAULT_SECONDS, read_allowance
from prowess.run.call import Call, DryRunEnded, Output, Run, make_call
from prowess.run.durable import run_durably
from prowess.run.handler import RunArtifact
from prowess.run.result import RunResult, produce_files
from prowess.run.selection import add_outputs, select_artifacts
from prowess.session.text import Standing, make_subject, read_standing
from prowess.skill.model import Skill
from prowess.skill.needs import measure_reach
from prowess.skill.outline import SkillOutline

if TYPE_CHECKING:
    from prowess.run.assertions.evaluation import AssertionRunner

_MAX_SUBJECTS = 16


def subject_of_run(
    catalog: Catalog, store: Store, skill: Skill, artifacts: tuple[str, ...] = (), *, scan: bool = True
) -> Subject:
    """Return what the gate decides about: the skill, and how far a run of it, or of these artifacts, reaches.

    Without `scan`, it has only the findings that are remembered; a run is judged with all of them.
    """
    facts = SkillFacts(skill)
    return facts.subject(read_standing(catalog, store, facts.outline, scan=scan), artifacts)


class SkillFacts:
    """Facts that follow from a skill alone and are needed in each of its runs."""

    def __init__(self, skill: Skill) -> None:
        self.outline = SkillOutline.of(skill)
        self.needs = self.outline.needs
        # A strong reference would keep the skill alive, and the finalizer in `Runner.facts` would never run.
        self._skill = weakref.ref(skill)
        self._subjects: dict[tuple[Standing, tuple[str, ...]], Subject] = {}

    def subject(self, standing: Standing, artifacts: tuple[str, ...]) -> Subject:
        """Return what the gate decides about before a run of these artifacts, or of the whole skill."""
        key = (standing, artifacts)
        found = self._subjects.get(key)
        if found is None:
            skill = cast("Skill", self._skill())
            found = replace(
                make_subject(self.outline, standing),
                asks_first=read_allowance(skill).asks_first,
                reach=measure_reach(skill, artifacts, needs=self.needs),
            )
            if len(self._subjects) < _MAX_SUBJECTS:  # callers choose the names, so there may be any number of them
                self._subjects[key] = found
        return found


class Runner:
    """Runs skills that have passed the gate. `seconds` is what a call may take if neither caller nor skill says less."""

    def __init__(
        self,
        run_artifact: RunArtifact,
        *,
        seconds: float = DEFAULT_SECONDS,
        redactor: Redactor | None = None,
        assertions: AssertionRunner | None = None,
    ) -> None:
        self._run_artifact = run_artifact
        self._redactor = redactor or Redactor([])
        self.seconds = seconds
        self.assertions = assertions
        """Checks outputs that did not come from a run; None for a runner without models."""
        self._facts: dict[int, SkillFacts] = {}

    def redact(self, value: Any) -> Any:
        """Return plain JSON without the secrets that are known or look like some."""
        return self._redactor.value(value)

    def facts(self, skill: Skill) -> SkillFacts:
        """Return the facts about a skill, computed once for as long as its store serves the same object."""
        # By identity: comparing two skills takes longer than computing the facts anew. The finalizer removes the entry
        # before another object can get the same id.
        key = id(skill)
        found = self._facts.get(key)
        if found is None:
            found = self._facts[key] = SkillFacts(skill)
            weakref.finalize(skill, self._facts.pop, key, None)
        return found

    async def run(self, run: Run) -> RunResult:
        """Run the artifacts that the run names, or the whole skill. The result says what went wrong.

        Raise `Invalid` or `NotFound` if there is nothing to run.
        """
        selected = select_artifacts(run.skill, run.artifacts)
        inputs = run.inputs
        outputs: dict[str, Any] = {}
        waiting: tuple[str, ...] = ()
        for index, artifact in enumerate(selected, 1):
            together = add_outputs(inputs, outputs)
            following = tuple(one.name for one in selected[index:])
            call = make_call(
                run,
                artifact,
                together,
                handed_on=frozenset(together.keys() - inputs.keys()),
                following=following,
                resumes=run.resumes if index == 1 else "",
            )
            try:
                output = await self._run_call(call)
            except DryRunEnded:
                # Later artifacts depend on an output that a dry run does not produce.
                waiting = following
                break
            except ProwessError as error:
                if not run.parts or run.parts[-1].error is not error:
                    raise  # a listener raised it, or the artifact's fallback does not exist
                break
            outputs[artifact.name] = output.value
        result = RunResult(run_id=run.id, skill=run.skill.slug, parts=tuple(run.parts), waiting=waiting)
        produced = produce_files(run.skill, result.output) if result.ok else ()
        return replace(result, produced=produced) if produced else result

    async def _run_call(self, call: Call) -> Output:
        journal = call.request.journal
        if journal is None or call.request.dry_run:
            return await self._run_artifact(call)
        return await run_durably(self._run_artifact, call, journal, self._redactor)
