"""Run a skill: its selected artifacts in ordinal order, each with the outputs of those before it as inputs."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from prowess.catalog.store import Store
from prowess.llm.model import Model
from prowess.policy.actor import Actor
from prowess.policy.subject import Subject, Trust
from prowess.run.allowance import DEFAULT_SECONDS, QuestionLimit, SpendLimit, read_allowance
from prowess.run.call import Call, ProgressListener, Step, ignore_progress
from prowess.run.dispatch import Dispatcher
from prowess.run.result import RunPart, RunResult, produce_files
from prowess.run.selection import add_outputs, normalize_inputs, select_artifacts
from prowess.session.text import read_subject
from prowess.skill.kinds import Artifact, JsonObject
from prowess.skill.model import Skill
from prowess.skill.needs import measure_reach
from prowess.skill.outline import SkillOutline


def subject_of_run(store: Store, skill: Skill, artifacts: Sequence[str] = ()) -> Subject:
    """The skill as it was read, with how far a run of it, or of these artifacts, reaches."""
    subject = read_subject(store, SkillOutline.of(skill))
    asks_first = read_allowance(skill).asks_first
    return replace(subject, asks_first=asks_first, reach=measure_reach(skill, tuple(artifacts)))


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What somebody wants to run, and how. `artifacts` are names; without any, the skill as a whole."""

    skill: Skill
    artifacts: tuple[str, ...] = ()
    inputs: Mapping[str, Any]
    actor: Actor
    session: str = ""
    session_model: str = ""
    model: Model | str = ""
    evaluation_model: Model | str = ""
    spare: Model | None = None
    seconds: float | None = None
    resumes: str = ""
    """The trace of the run whose first artifact here goes on from its last checkpoint."""
    dry: bool = False
    trust: Trust = "synced"
    """How far the origin of the skill is trusted."""
    started_by: Call | None = None
    """The call whose code wants it, where it is not a person or an agent: what that may use up counts for both."""
    watch: ProgressListener = ignore_progress
    each: Callable[[RunPart], None] = lambda _: None
    """Told of every part when it has ended."""


class Runner:
    """Runs skills that have passed the gate. `seconds` is the time that a run has where nothing else is said."""

    def __init__(self, dispatcher: Dispatcher, *, seconds: float = DEFAULT_SECONDS) -> None:
        self._dispatcher = dispatcher
        self._seconds = seconds

    async def run(self, wish: RunRequest) -> RunResult:
        """Run it; what went wrong stands in the result. `Invalid` or `NotFound` for a wish that names nothing to run."""
        artifacts = select_artifacts(wish.skill, wish.artifacts)
        inputs = normalize_inputs(wish.inputs)
        allowance = read_allowance(wish.skill, seconds=self._seconds, asked=wish.seconds)
        run_id = str(uuid.uuid4())
        outer = wish.started_by
        outermost = outer.outermost if outer else run_id
        purse = SpendLimit(limit=allowance.max_cost, outer=outer.purse if outer else None)
        questions = outer.questions if outer else QuestionLimit()
        outputs: dict[str, Any] = {}
        parts: list[RunPart] = []
        for place, artifact in enumerate(artifacts, 1):
            following = tuple(one.name for one in artifacts[place:])
            call = replace(_call(wish, artifact, inputs, outputs, purse, following, questions), outermost=outermost)
            if place == 1 and wish.resumes:
                call = replace(call, resumes=wish.resumes)
            async with aclosing(self._dispatcher.dispatch(call, run_id=run_id, allowance=allowance)) as ended:
                async for part in ended:
                    parts.append(part)
                    wish.each(part)
            last = parts[-1]
            if last.error is not None:
                break
            if wish.dry and last.output is None:
                return _result(run_id, wish, parts, artifacts[place:])
            if last.output is not None:
                outputs[artifact.name] = last.output.value
        return _result(run_id, wish, parts, [])


def _call(
    wish: RunRequest,
    artifact: Artifact,
    inputs: JsonObject,
    outputs: Mapping[str, Any],
    purse: SpendLimit,
    following: tuple[str, ...],
    questions: QuestionLimit,
) -> Call:
    together = add_outputs(inputs, outputs)
    outer = wish.started_by
    call = Call(
        id=str(uuid.uuid4()),
        skill=wish.skill,
        artifact=artifact,
        inputs=together,
        handed_on=frozenset(together.keys() - inputs.keys()),
        actor=wish.actor,
        session=wish.session,
        model=wish.model,
        session_model=wish.session_model,
        evaluation_model=wish.evaluation_model,
        spare=wish.spare,
        purse=purse,
        questions=questions,
        trust=wish.trust,
        is_inner=outer is not None,
        following=following,
        dry=wish.dry,
        watch=_patient(wish.watch),
    )
    if outer is not None:
        call.confide(outer.notes.hiding.env)
    return call


def _patient(watch: ProgressListener) -> ProgressListener:
    """The same watcher; one that fails is told nothing more, and no run fails for it."""
    if watch is ignore_progress:
        return watch
    failed = False

    def tell(step: Step) -> None:
        nonlocal failed
        if failed:
            return
        try:
            watch(step)
        except Exception as error:  # noqa: BLE001
            failed = True
            log.debug("Whoever watches the run has failed: %r", error)

    return tell


def _result(run_id: str, wish: RunRequest, parts: Sequence[RunPart], waiting: Sequence[Artifact]) -> RunResult:
    result = RunResult(
        run_id=run_id, skill=wish.skill.slug, parts=tuple(parts), waiting=tuple(one.name for one in waiting)
    )
    return replace(result, produced=produce_files(wish.skill, result.output)) if result.ok else result
