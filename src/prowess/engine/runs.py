"""Run skills: pass the gate, then run their artifacts in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from prowess.engine.parts import Frame, session_key
from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.engine.callables import CallableIndex, CallableSkill, Inventory
    from prowess.llm.model import Model
    from prowess.policy.rules import Ruling
    from prowess.policy.subject import Subject
    from prowess.run.call import Call, Run
    from prowess.run.checkpoints import Checkpoint
    from prowess.run.request import RunRequest, StepListener
    from prowess.run.result import RunPart, RunResult
    from prowess.session.session import Session
    from prowess.skill.model import Skill


class Running(Frame):
    """The part of the engine that runs."""

    _interpreter_is_ready = False

    async def run(
        self,
        session: Session | str,
        slug: str,
        artifact: str | Sequence[str] = (),
        *,
        inputs: Mapping[str, Any] | None = None,
        model: Model | str = "",
        evaluation_model: Model | str = "",
        timeout: float | None = None,  # noqa: ASYNC109  (the deadline of the run, which its trace has too)
        resume: str = "",
        dry_run: bool = False,
        watch: StepListener | None = None,
        actor: Actor | None = None,
    ) -> RunResult:
        """Run a skill, or these artifacts of it, and give what came out; raise why where nothing good did.

        `session` may be '' for a run outside any conversation. The artifacts run in ordinal order, each with the outputs of
        those before it among its inputs. `watch` is told of states and, as a model writes it, of text. With `dry_run` nothing
        is sent: the parts of the result have what would be. Every run of an artifact leaves a trace, however it ends.
        `resume` is the trace of a run that was interrupted after a checkpoint: its artifact and those that were to follow it run
        with the inputs that it had, and what it was answered before the checkpoint is not asked again.
        """
        result = await self.attempt(
            session,
            slug,
            artifact,
            inputs=inputs,
            model=model,
            evaluation_model=evaluation_model,
            timeout=timeout,
            resume=resume,
            dry_run=dry_run,
            watch=watch,
            actor=actor,
        )
        if result.error is not None:
            raise result.error
        return result

    async def attempt(
        self,
        session: Session | str,
        slug: str,
        artifact: str | Sequence[str] = (),
        *,
        inputs: Mapping[str, Any] | None = None,
        model: Model | str = "",
        evaluation_model: Model | str = "",
        spare: Model | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        resume: str = "",
        dry_run: bool = False,
        watch: StepListener | None = None,
        each: Callable[[RunPart], None] | None = None,
        progress: Callable[[str], None] = lambda _: None,
        actor: Actor | None = None,
        started_by: Call | None = None,
    ) -> RunResult:
        """The same, with a run that failed as a result whose `error` says why; its parts have what came out by then.

        `each` is told of every part when it has ended, `progress` of what takes long before the first begins: the interpreter
        of the sandbox is built where it is needed and missing. `started_by` is the call whose code wants the run.

        What keeps the run from beginning is raised: a skill or artifact that is not there, the gate, inputs that are no JSON.
        """
        from prowess.run.request import RunRequest, ignore_part, ignore_step

        request = RunRequest(
            slug=slug,
            artifacts=tuple(name for name in ([artifact] if isinstance(artifact, str) else artifact) if name),
            inputs=inputs or {},
            actor=actor or self.actor,
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
        run = await self._blocking(self._resolve, request)
        if not dry_run and not self._interpreter_is_ready and _needs_interpreter(run):
            with suppress(Unavailable):  # the run itself says so, or a fallback serves
                await self.build_sandbox(request.on_setup)
        return await self._parts.runner().run(run)

    async def _run_for_script(self, call: Call, slug: str, inputs: Mapping[str, Any]) -> Any:
        """What another skill gives that the script of a call runs: for the same actor, in the same session, through the gate.

        What the call may spend and ask counts for both. Code that is not local runs a skill that reaches beyond the sandbox
        only where its own skill names that one, so that whoever agreed to it has seen so.
        """
        result = await self.attempt(
            call.run.session,
            slug,
            inputs=inputs,
            model=call.request.model,
            evaluation_model=call.request.evaluation_model,
            actor=call.actor,
            started_by=call,
        )
        if result.error is not None:
            raise result.error
        return result.output.value if result.output else None

    async def build_sandbox(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Build the interpreter that scripts run in, where it is missing: a minute or two that no run has to wait for.

        `Unavailable` where the extra `sandbox` is not installed.
        """
        await self._blocking(self._parts.build_sandbox, progress)
        self._interpreter_is_ready = True

    async def can_resume(self, trace: str, *, actor: Actor | None = None) -> bool:
        """Whether there is a checkpoint that a run can go on from, by the id of its trace."""
        try:
            await self._blocking(self._left_at, actor or self.actor, trace)
        except NotFound:
            return False
        return True

    def _left_at(self, actor: Actor, trace: str) -> Checkpoint:
        """Where a run was interrupted."""
        from prowess.run.checkpoints import find_checkpoint, unknown_checkpoint

        if not self._parts.has_records():
            raise unknown_checkpoint(trace)
        return find_checkpoint(self._parts.records, actor.owner, trace)

    def _resolve(self, request: RunRequest) -> Run:
        """Look up everything that a run needs, and pass the gate. Blocking."""
        from prowess.run.allowance import read_allowance
        from prowess.run.call import start_run
        from prowess.session.text import find_author

        artifacts, checkpoint = request.artifacts, None
        if request.resume:
            _check_resume_arguments(request)
            checkpoint = self._left_at(request.actor, request.resume)
            artifacts = (checkpoint.artifact, *checkpoint.following)
        inside = self._gate.inside(request.actor, request.session)
        store, skill = self.catalog.find(request.slug)
        inputs = request.inputs(skill) if callable(request.inputs) else request.inputs
        runner = self._parts.runner()
        facts = runner.facts(skill)
        limits = read_allowance(skill, seconds=runner.seconds, asked=request.timeout)
        subject = facts.subject(find_author(store, facts.outline), artifacts)
        if request.started_by is not None:
            _check_declared_tool(request.started_by, subject)
        needs = facts.needs
        # A run that may be granted something uses the policy of this moment: what was just revoked stays revoked.
        policy = self._gate.read_policy(inside.actor, fresh=bool(needs.as_json()))
        action = "load" if request.dry_run else "run"
        self._gate.check(inside.actor, action, subject, session=inside.session, policy=policy)
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


class Calling(Frame):
    """The part of the engine that knows what can be called."""

    async def holdings(self) -> Inventory:
        """What there is for agents to work on; read again only where it changed."""
        return await self._blocking(self._callables.look)

    @property
    def held(self) -> Inventory:
        """The same as of the last look, at no cost: nothing is held before the first one."""
        return self._callables.seen

    async def foresee_runs(self, skills: Sequence[CallableSkill], *, actor: Actor | None = None) -> tuple[Ruling, ...]:
        """What would become of calling each of them now, in their order; nothing is asked or written."""
        who = actor or self.actor
        subjects = [skill.subject for skill in skills]
        return await self._blocking(lambda: self._gate.foresee_all(who, subjects, self._policy_of(who), "run"))

    @cached_property
    def _callables(self) -> CallableIndex:
        from prowess.engine.callables import CallableIndex

        return CallableIndex(self.catalog)
