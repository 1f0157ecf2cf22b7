"""Run skills: pass the gate, then run their artifacts in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prowess.engine.context import Context, session_key
from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.engine.callables import CallableSkill
    from prowess.llm.model import Model
    from prowess.policy.rules import Ruling
    from prowess.policy.subject import Subject
    from prowess.run.call import Call, Run
    from prowess.run.checkpoints import Checkpoint
    from prowess.run.request import Inputs, RunRequest, StepListener
    from prowess.run.result import RunPart, RunResult
    from prowess.session.session import Session
    from prowess.skill.model import Skill


class Runs:
    """Runs skills for the actor."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def attempt(
        self,
        slug: str,
        inputs: Inputs | None = None,
        *,
        artifacts: str | Sequence[str] = (),
        session: Session | str = "",
        model: Model | str = "",
        evaluation_model: Model | str = "",
        spare: Model | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        resume: str = "",
        dry_run: bool = False,
        watch: StepListener | None = None,
        each: Callable[[RunPart], None] | None = None,
        progress: Callable[[str], None] = lambda _: None,
        started_by: Call | None = None,
    ) -> RunResult:
        """Run a skill like `Prowess.run`, but return a failed run as a result whose `error` says why.

        `each` receives every part when it has ended. `progress` receives messages about slow preparations: the sandbox's
        interpreter is built if it is needed and missing. `spare` is the model to ask if none is configured. `started_by`
        is the call whose code wants this run.

        Raise what keeps the run from starting: an unknown skill or artifact, the gate, inputs that are not JSON.
        """
        from prowess.run.request import RunRequest, ignore_part, ignore_step

        request = RunRequest(
            slug=slug,
            artifacts=tuple(name for name in ([artifacts] if isinstance(artifacts, str) else artifacts) if name),
            inputs=inputs or {},
            actor=self._context.actor,
            session=session_key(session),
            model=model,
            evaluation_model=evaluation_model,
            fallback_model=spare,
            timeout=timeout,
            resume=resume,
            dry_run=dry_run,
            on_step=watch or ignore_step,
            on_part=each or ignore_part,
            on_setup=progress,
            started_by=started_by,
        )
        run = await offload(self._resolve, request)
        if not dry_run and not self._context.resources.is_sandbox_built and _needs_interpreter(run):
            with suppress(Unavailable):  # the run itself says so, or a fallback serves
                await self.build_sandbox(request.on_setup)
        return await self._context.resources.runner().run(run)

    async def run_for_script(self, call: Call, slug: str, inputs: Mapping[str, Any]) -> Any:
        """What another skill gives that the script of a call runs: for the same actor, in the same session, through the gate.

        What the call may spend and ask counts for both. Code that is not local runs a skill that reaches beyond the sandbox
        only where its own skill names that one, so that whoever agreed to it has seen so.
        """
        result = await self.attempt(
            slug,
            inputs,
            session=call.run.session,
            model=call.request.model,
            evaluation_model=call.request.evaluation_model,
            started_by=call,
        )
        if result.error is not None:
            raise result.error
        return result.output.value if result.output else None

    async def build_sandbox(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Build the interpreter that scripts run in, where it is missing: a minute or two that no run has to wait for.

        `Unavailable` where the extra `sandbox` is not installed.
        """
        await offload(self._context.resources.build_sandbox, progress)
        self._context.resources.is_sandbox_built = True

    async def can_resume(self, trace: str) -> bool:
        """Whether there is a checkpoint that a run can go on from, by the id of its trace."""
        try:
            await offload(self._find_checkpoint, trace)
        except NotFound:
            return False
        return True

    async def preview(self, skills: Sequence[CallableSkill]) -> tuple[Ruling, ...]:
        """Return what the gate would decide about calling each skill now, in their order. Ask and write nothing."""
        context = self._context
        subjects = [skill.subject for skill in skills]
        return await offload(
            lambda: context.resources.gate.foresee_all(context.actor, subjects, context.read_policy(), "run")
        )

    def _find_checkpoint(self, trace: str) -> Checkpoint:
        """Where a run was interrupted."""
        from prowess.run.checkpoints import find_checkpoint, unknown_checkpoint

        if not self._context.resources.has_records():
            raise unknown_checkpoint(trace)
        return find_checkpoint(self._context.resources.records, self._context.actor.owner, trace)

    def _resolve(self, request: RunRequest) -> Run:
        """Look up everything that a run needs, and pass the gate. Blocking."""
        from prowess.run.allowance import read_allowance
        from prowess.run.call import start_run
        from prowess.session.text import find_author

        artifacts, checkpoint = request.artifacts, None
        if request.resume:
            _check_resume_arguments(request)
            checkpoint = self._find_checkpoint(request.resume)
            artifacts = (checkpoint.artifact, *checkpoint.following)
        gate = self._context.resources.gate
        inside = gate.inside(request.actor, request.session)
        store, skill = self._context.catalog.find(request.slug)
        inputs = request.inputs(skill) if callable(request.inputs) else request.inputs
        runner = self._context.resources.runner()
        facts = runner.facts(skill)
        limits = read_allowance(skill, seconds=runner.seconds, asked=request.timeout)
        subject = facts.subject(find_author(store, facts.outline), artifacts)
        if request.started_by is not None:
            _check_declared_tool(request.started_by, subject)
        needs = facts.needs
        # A run that may be granted something uses the policy of this moment: what was just revoked stays revoked.
        policy = gate.read_policy(inside.actor, fresh=bool(needs.as_json()))
        action = "load" if request.dry_run else "run"
        gate.check(inside.actor, action, subject, session=inside.session, policy=policy)
        if checkpoint is not None:
            _check_same_skill(checkpoint, skill)
            inputs = checkpoint.inputs
        return start_run(
            request,
            skill,
            artifacts=artifacts,
            inputs=inputs,
            limits=limits,
            needs=needs,
            actor=inside.actor,
            policy=policy,
            trust=subject.trust,
            session=inside.session,
            session_model=inside.model,
            resumes=checkpoint.trace if checkpoint else "",
        )


def _needs_interpreter(run: Run) -> bool:
    """Return True if the run has Python for the WASM sandbox."""
    from prowess.handlers.function import choose_runtime
    from prowess.skill.kinds import CodeTemplate, Function
    from prowess.skill.needs import list_reached_artifacts

    if not any(isinstance(artifact, CodeTemplate | Function) for artifact in run.skill.artifacts):
        return False
    return any(
        isinstance(one, CodeTemplate) or (isinstance(one, Function) and choose_runtime(one, run.needs) == "wasm")
        for one in list_reached_artifacts(run.skill, run.artifacts)
    )


def _check_declared_tool(call: Call, subject: Subject) -> None:
    """Whoever agreed to a skill from elsewhere, or of an agent, has not agreed to all that other skills reach."""
    from prowess.skill.slug import tool_name

    tool = tool_name(subject.slug)
    if subject.reach and call.run.trust != "local" and tool not in call.skill.allowed_tools:
        call.notes.receipt.refuse("skills", subject.slug)
        raise Refused(
            f"{call.skill.slug!r} does not say that it runs {subject.slug!r}, which reaches beyond the sandbox.",
            hint=f"Add {tool} to its allowed-tools.",
        )


def _check_resume_arguments(request: RunRequest) -> None:
    if request.artifacts or request.inputs:
        raise Invalid(
            "A run that is resumed has its own artifact and inputs.",
            hint="Leave them out, or run it from the beginning.",
        )


def _check_same_skill(left: Checkpoint, skill: Skill) -> None:
    """A run goes on only with the bytes that it began with."""
    if (left.slug, left.digest) != (skill.slug, skill.digest):
        why = "has changed since" if left.slug == skill.slug else f"is not the one that ran, {left.slug!r}"
        raise Conflict(
            f"The skill {skill.slug!r} {why}, so the run cannot be resumed.", hint="Run it from the beginning."
        )
