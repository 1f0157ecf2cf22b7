"""Run skills: pass the gate, then run their artifacts in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from prowess.engine.callables import preview_calls
from prowess.engine.context import Part, check_string, check_type
from prowess.engine.registry import list_used
from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.run.allowance import read_allowance
from prowess.run.call import Call, Run, start_run
from prowess.run.durable import check_storable
from prowess.run.input_names import may_use
from prowess.run.request import RunRequest
from prowess.run.schema_checks import check_inputs
from prowess.run.selection import normalize_inputs, select_artifacts
from prowess.session.text import read_standing
from prowess.skill.kinds import CodeTemplate, Function, JsonObject, PromptTemplate, kind_info
from prowess.skill.needs import list_reached_artifacts
from prowess.skill.slug import tool_name
from prowess.threads import offload, share_as_tenant

if TYPE_CHECKING:
    from prowess.engine.callables import CallableSkill
    from prowess.engine.engine import Engine
    from prowess.handlers.host_functions import SkillCalls
    from prowess.policy.actor import Actor
    from prowess.policy.organization import OrgPolicy
    from prowess.policy.rules import Ruling
    from prowess.policy.subject import Subject
    from prowess.run.checkpoints import Checkpoint
    from prowess.run.result import RunResult
    from prowess.skill.model import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A skill that passed the gate for a run, where it is kept, and the artifacts that would run."""

    slug: str
    digest: str
    scope: str
    in_folder: bool
    artifacts: tuple[str, ...]


class Runs(Part):
    """Runs skills for the actor."""

    async def attempt(self, request: RunRequest) -> RunResult:
        """Run a skill like `Prowess.run`, but return a failed run as a result whose `error` says why.

        Raise only errors that prevent the run from starting: an unknown skill or artifact, a denial, inputs that are not JSON.
        """
        # Also for jobs, which no request of their owner names.
        with share_as_tenant(self._context.actor.party):
            run = await offload(self._resolve, request)
            resources = self._context.resources
            if not request.dry_run and not resources.is_sandbox_built and _needs_interpreter(run):
                with suppress(Unavailable):  # the run itself says so, or a fallback takes over
                    await self.build_sandbox(request.on_setup)
            if not request.dry_run and not resources.is_sidecar_installed and _needs_sidecar(run):
                with suppress(Unavailable):
                    await offload(resources.install_sidecar, request.on_setup)
                    resources.is_sidecar_installed = True
            result = await resources.runner.run(run)
            if result.verdicts:
                await resources.after_checked_run(run.actor.organization, run.skill.slug)
            return result

    async def admit(self, request: RunRequest) -> Admitted:
        """Pass the gate for a run without starting it, and return the skill and where it is kept.

        Raise what `attempt` would raise, such as `ApprovalRequired`.
        """
        return await offload(self._admit, request)

    def _admit(self, request: RunRequest) -> Admitted:
        run = self._resolve(request)
        store, _ = self._context.catalog.find_outline(request.slug)
        check_storable(run.limits, run.skill.slug)
        return Admitted(
            slug=run.skill.slug,
            digest=run.skill.digest,
            scope=store.scope,
            in_folder=bool(store.folder),
            artifacts=tuple(artifact.name for artifact in select_artifacts(run.skill, run.artifacts)),
        )

    async def run_for_script(self, call: Call, slug: str, inputs: Mapping[str, Any]) -> Any:
        """Run another skill for the script of a call, in the same session and through the gate; return its output.

        Spending and model requests count for both runs.
        """
        result = await self.attempt(
            RunRequest(
                slug=slug,
                inputs=inputs,
                session=call.run.session,
                model=call.request.model,
                evaluation_model=call.request.evaluation_model,
                spend_limit=call.request.spend_limit,
                evaluation=call.request.evaluation,
                started_by=call,
            )
        )
        if result.error is not None:
            raise result.error
        return result.output.value if result.output else None

    async def build_sandbox(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Build the interpreter for scripts if it is missing, so that no run has to wait a minute or two for it.

        Raise `Unavailable` if the extra `sandbox` is not installed.
        """
        await offload(self._context.resources.build_sandbox, progress)
        self._context.resources.is_sandbox_built = True

    async def can_resume(self, trace: str) -> bool:
        """Return True if there is a checkpoint of the run with this trace."""
        try:
            await offload(self._find_checkpoint, trace)
        except NotFound:
            return False
        return True

    async def preview(self, skills: Sequence[CallableSkill]) -> tuple[tuple[Subject, Ruling], ...]:
        """Return the current trust of each skill, and what the gate would decide about calling it, in the same order.

        Ask and write nothing.
        """
        return await offload(preview_calls, self._context, skills)

    def _find_checkpoint(self, trace: str) -> Checkpoint:
        """Return the checkpoint of an interrupted run; raise `NotFound` if there is none."""
        from prowess.run.checkpoints import find_checkpoint, unknown_checkpoint

        check_string(trace, "The trace to resume")
        if not self._context.resources.has_records():
            raise unknown_checkpoint(trace)
        return find_checkpoint(self._context.resources.records, self._context.actor.owner, trace)

    def _resolve(self, request: RunRequest) -> Run:
        """Look up everything that a run needs, and pass the gate. Blocking."""
        check_type(request, RunRequest, "Call `prowess.run(slug, inputs)`, or pass a RunRequest.")
        context = self._context
        gate, runner = context.resources.gate, context.resources.runner
        # A dry run shows texts of the skill and executes nothing, so it needs no more than loading does.
        action = "load" if request.dry_run else "run"
        decisions = context.resources.decisions
        with context.resources.snapshot():
            inside = gate.inside(context.actor, context.session_key(request.session))
            store, skill = context.catalog.find(request.slug)
            facts = runner.facts(skill)
            if request.digest and skill.digest != request.digest:
                raise changed_skill(skill.slug)
            artifacts, inputs, checkpoint = self._read_inputs(request, skill)
            limits = read_allowance(skill, seconds=runner.seconds, requested=request.timeout)
            uses = list_used(context, skill, artifacts)
            mark = gate.read_mark(inside.actor)
            key = (inside.actor, action, facts, artifacts, uses, request.chosen)
            decision = decisions.find(key, mark)
            if decision is not None:
                subject, policy = decision.subject, decision.policy
            else:
                subject = facts.subject(read_standing(context.catalog, store, facts.outline), artifacts)
                policy = gate.read_policy(inside.actor)
        if decision is None and (uses or request.chosen):
            subject = replace(subject, uses=uses, people_only=subject.people_only and not request.chosen)
        if request.started_by is not None:
            _check_declared_tool(request.started_by, subject)
        if decision is None:
            admission = gate.check(inside.actor, action, subject, session=inside.session, policy=policy)
            subject = admission.subject or replace(subject, trust="found")
            # A decision that is not audited was made by a rule alone. Approvals expire.
            if not admission.audits:
                decisions.keep(key, mark, Decision(policy=policy, subject=subject))
        # An agent may not read anything of a skill before the gate lets it, not even the names of its inputs.
        if not context.actor.is_person and checkpoint is None:
            inputs = _check_inputs(skill, artifacts, inputs)
        if checkpoint is not None:
            _check_same_skill(checkpoint, skill)
        return start_run(
            request,
            skill,
            artifacts=artifacts,
            inputs=cast("JsonObject", inputs),
            limits=limits,
            needs=facts.needs,
            actor=inside.actor,
            policy=policy,
            trust=subject.trust,
            session=request.evaluation or inside.session or self._name_session(request),
            session_model=inside.model,
            resumes=checkpoint.trace if checkpoint else "",
            uses=uses,
        )

    def _name_session(self, request: RunRequest) -> str:
        """Return the session of a run whose session is not open: open the one that it names, or return '' for none."""
        if request.started_by is not None:
            # A measurement has a label instead of a session, and the runs that its code starts have the same.
            return request.started_by.run.session
        if not request.session or request.dry_run:
            return ""
        context = self._context
        # Otherwise the trace would not name the conversation, and what the run costs would not count for it.
        opened = context.resources.sessions.open(
            context.actor, context.session_key(request.session), role=context.actor.role
        )
        context.resources.acting.clear()
        return opened.id

    def _read_inputs(
        self, request: RunRequest, skill: Skill
    ) -> tuple[tuple[str, ...], Mapping[str, Any], Checkpoint | None]:
        """Return the artifacts to run and their inputs, checked if a person gave them, and the checkpoint of a resumed run."""
        inputs = request.inputs(skill) if callable(request.inputs) else request.inputs
        if request.resume:
            _check_resume_arguments(request.artifacts, inputs)
            checkpoint = self._find_checkpoint(request.resume)
            return (checkpoint.artifact, *checkpoint.following), normalize_inputs(checkpoint.inputs), checkpoint
        if self._context.actor.is_person:
            inputs = _check_inputs(skill, request.artifacts, inputs)
        return request.artifacts, inputs, None


def make_skill_calls(as_actor: Callable[[Actor], Engine]) -> SkillCalls:
    """Return how scripts run other skills: each as the actor of its own run."""
    from prowess.handlers.host_functions import SkillCalls

    return SkillCalls(
        run=lambda call, slug, inputs: as_actor(call.actor).runs.run_for_script(call, slug, inputs),
        locate=lambda call, name: as_actor(call.actor).skills.locate(name),
    )


def _needs_interpreter(run: Run) -> bool:
    """Return True if the run has Python for the WASM sandbox."""
    if not any(isinstance(artifact, CodeTemplate | Function) for artifact in run.skill.artifacts):
        return False
    from prowess.handlers.function import choose_runtime  # imports the sandboxes, which few runs need

    return any(
        isinstance(artifact, CodeTemplate)
        or (isinstance(artifact, Function) and choose_runtime(artifact, run.needs) == "wasm")
        for artifact in list_reached_artifacts(run.skill, run.artifacts)
    )


def _needs_sidecar(run: Run) -> bool:
    """Return True if the run has a dspy_module."""
    if not any(artifact.kind == "dspy_module" for artifact in run.skill.artifacts):
        return False
    return any(artifact.kind == "dspy_module" for artifact in list_reached_artifacts(run.skill, run.artifacts))


def _check_declared_tool(call: Call, subject: Subject) -> None:
    """Refuse unless the calling skill names a skill that reaches outside: its approval did not show what others reach."""
    tool = tool_name(subject.slug)
    if subject.reach and call.run.trust != "local" and tool not in call.skill.allowed_tools:
        call.notes.receipt.refuse("skills", subject.slug)
        raise Refused(
            f"{call.skill.slug!r} may not run {subject.slug!r}, which reaches outside the sandbox: its `allowed-tools` does not include it.",
            hint=f"Add `{tool}` to its `allowed-tools`.",
        )


def _check_inputs(skill: Skill, artifacts: Sequence[str], inputs: Mapping[str, Any]) -> JsonObject:
    """Return a copy of the inputs as plain JSON, before anything is built or asked.

    Raise `Invalid` if they do not fit what the first artifact takes.
    """
    first = next(
        (artifact for artifact in select_artifacts(skill, artifacts) if kind_info(artifact.kind).in_run == "work"), None
    )
    plain = normalize_inputs(inputs)
    if first is not None:
        variables = first.vars_schema if isinstance(first, PromptTemplate) else None
        check_inputs(plain, skill.parameters, variables, is_used=partial(may_use, skill))
    return plain


def _check_resume_arguments(artifacts: Sequence[str], inputs: Mapping[str, Any]) -> None:
    if artifacts or inputs:
        raise Invalid(
            "A resumed run uses its original artifact and inputs, so none can be passed.",
            hint="Omit them, or run the skill without `--resume`.",
        )


def _check_same_skill(checkpoint: Checkpoint, skill: Skill) -> None:
    """Raise `Conflict` if the skill has changed since the run started."""
    if (checkpoint.slug, checkpoint.digest) != (skill.slug, skill.digest):
        why = (
            "has changed since the run"
            if checkpoint.slug == skill.slug
            else f"is not the skill of that run, {checkpoint.slug!r}"
        )
        raise Conflict(
            f"The skill {skill.slug!r} {why}, so the run cannot be resumed.", hint="Run the skill without `--resume`."
        )


def changed_skill(slug: str) -> Conflict:
    """Return the error for a job whose skill is no longer the one that it started with."""
    return Conflict(
        f"The skill {slug!r} has changed since the job started, so the job cannot continue.",
        hint=f"Start another job, or restore the version of the job: `prowess history {slug}` and `prowess rollback`.",
    )


RECENT_SECONDS = 1.0
_MOST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The policy and the skill, with its trust, that a decision was about."""

    policy: OrgPolicy
    subject: Subject


class RecentDecisions:
    """Decisions of the last second that allowed a run without asking a person.

    A decision depends on the skill, which is part of its key, and on what is recorded: policies, acceptances, trusted folders,
    versions, other skills of the same name. Nothing of that changes without a row in the audit, so a decision counts only
    while the audit ends as it did before it was made. The second is for what is not recorded: skills of the same name in
    folders, and links on the way to this one. Its bytes are compared at each run.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[str, float, Decision]] = {}

    def find(self, key: Hashable, mark: str) -> Decision | None:
        """Return the decision for a key, if the audit still ends with this mark."""
        kept = self._kept.get(key)
        return kept[2] if kept is not None and kept[0] == mark and monotonic() < kept[1] else None

    def keep(self, key: Hashable, mark: str, decision: Decision) -> None:
        """Keep a decision. The mark must have been read before anything that was decided about."""
        if not mark:
            return
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[key] = (mark, monotonic() + RECENT_SECONDS, decision)
