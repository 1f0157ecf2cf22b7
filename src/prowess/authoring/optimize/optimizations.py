"""Optimize skills, and decide about the results: the part `Prowess.optimize`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prowess.authoring.optimize.bench import check_measurable
from prowess.authoring.optimize.change import Change, apply_change, build_candidate, read_change, show_change
from prowess.authoring.optimize.optimizer import Optimizer
from prowess.authoring.optimize.proposal import (
    TRIGGER_METHODS,
    OptimizationListener,
    OptimizationRequest,
    Proposal,
    ignore_progress,
    stored_request,
    to_proposal,
)
from prowess.authoring.optimize.records import Records
from prowess.authoring.optimize.watch import watch_approved
from prowess.engine.context import check_type
from prowess.engine.engine import Engine
from prowess.errors import ApprovalRequired, Conflict, Invalid, ProwessError, Refused
from prowess.policy.actor import actor_record
from prowess.run.selection import select_artifacts
from prowess.session.text import format_diff
from prowess.skill.dspy_state import find_outdated_states
from prowess.skill.kinds import DspyModule, JsonObject
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.storage.clock import is_recent, now
from prowess.storage.proposals import ProposalRow
from prowess.threads import offload

BUSY_SECONDS = 10.0
"""An optimization that was updated this recently is running: its process updates it every second."""
DEAD_SECONDS = 60.0
"""An optimization that was not updated for this long has no process any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalDiff:
    """The changes of a candidate: the parts that a person compares, and the difference of the files."""

    parts: JsonObject
    files: str

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return {"parts": self.parts, "files": self.files}


class Optimizations:
    """The optimizations of the actor; an administrator sees those of the whole organization."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._context = engine.context
        self._records = Records(engine.context)

    async def run(
        self,
        request: OptimizationRequest,
        *,
        on_progress: OptimizationListener = ignore_progress,
        graceful: bool = False,
    ) -> Proposal:
        """Optimize a skill and wait for the result: a proposal, or a refusal with its figures.

        With `graceful`, cancelling ends the search and tests the best candidate so far. Raise what prevents an optimization, such as
        `Refused` if there are too few cases.
        """
        prepared = await self.prepare(request)
        row = await self._records.find(prepared.id)
        try:
            return await self._do(row, request, on_progress, graceful=graceful)
        except ApprovalRequired as error:
            # A job waits for the answer and goes on with its optimization. A caller starts another one.
            values = {"state": "refused", "reason": error.message, "finished_at": now()}
            await self._records.change(row.id, values, states=("running",))
            raise

    async def prepare(self, request: OptimizationRequest) -> Proposal:
        """Store an optimization to run later, by `resume` or as the task `optimize` of a job."""
        check_type(request, OptimizationRequest, "Pass OptimizationRequest(skill=SLUG).")
        actor = self._context.actor
        actor.require("skills.run")
        if request.cases and actor.is_remote:
            raise Refused("A request over HTTP cannot name files of the server.", hint="Put the cases into the skill.")
        skill = await self._engine.skills.get(request.skill)
        await self._engine.skills.check_readable(f"{skill.scope}:{skill.slug}")
        store, _ = await offload(self._context.catalog.find, f"{skill.scope}:{skill.slug}")
        if store.frozen:
            raise Refused(
                f"The skill {skill.slug!r} is part of an installed package and cannot be changed.",
                hint=f"Copy it to your workspace and optimize the copy: `prowess fork {skill.slug}`.",
            )
        request = replace(request, skill=skill.slug, artifact=_choose_artifact(skill, request))
        moment = now()
        row = ProposalRow(
            id=str(uuid.uuid4()),
            created_at=moment,
            updated_at=moment,
            organization_id=actor.organization,
            user_id=actor.user,
            skill_slug=skill.slug,
            scope=skill.scope,
            artifact=request.artifact,
            method=request.method,
            base_digest=skill.digest,
            actor=actor_record(actor),
            request=request.as_json(),
        )
        return to_proposal(await self._records.add(row))

    async def resume(
        self,
        proposal_id: str,
        *,
        on_progress: OptimizationListener = ignore_progress,
        graceful: bool = False,
        exclusive: bool = True,
    ) -> Proposal:
        """Run an optimization that was prepared or interrupted. One that has ended is returned unchanged.

        After an interruption, the best candidate so far is tested; the search runs only if no candidate was found. With
        `exclusive`, raise `Conflict` if another process is doing it.
        """
        row = await self._records.find(proposal_id)
        if row.state != "running":
            return to_proposal(row)
        if exclusive and row.updated_at > row.created_at and is_recent(row.updated_at, BUSY_SECONDS):
            raise Conflict(
                f"The optimization {row.id[:8]} is running in another process, or was {BUSY_SECONDS:.0f} seconds ago.",
                hint=f"If it was interrupted, try again soon. `prowess optimize cancel {row.id[:8]}` ends its search.",
            )
        return await self._do(row, stored_request(row.request), on_progress, graceful=graceful)

    async def list(
        self, *, skill: str = "", states: Sequence[str] = (), limit: int = 50, before: tuple[str, str] | None = None
    ) -> list[Proposal]:
        """Return optimizations, newest first; with `before`, those older than that time and id."""
        rows = await self._records.list(skill=skill, states=states, before=before, limit=limit)
        return [to_proposal(row) for row in rows]

    async def count(self, *, skill: str = "", states: Sequence[str] = ()) -> int:
        """Return the number of optimizations."""
        return await self._records.count(skill=skill, states=states)

    async def get(self, proposal_id: str) -> Proposal:
        """Return an optimization by its id or at least its first four characters, or raise `NotFound`."""
        return to_proposal(await self._records.find(proposal_id))

    async def diff(self, proposal_id: str) -> ProposalDiff:
        """Return what a candidate changes. Only a person may see it, because nobody has accepted this text.

        Raise `Conflict` if the skill has changed since.
        """
        self._require_person("see a candidate")
        row = await self._records.find(proposal_id)
        if row.change is None:
            raise Conflict(f"The optimization {row.id[:8]} has no candidate: {(row.reason or row.state).rstrip('.')}.")
        change = read_change(row)
        skill, package = await self._read_base(row)
        _, changed = build_candidate(skill, package, change, self._context.resources.limits)
        return ProposalDiff(parts=show_change(skill, change), files=format_diff(package, changed))

    async def approve(self, proposal_id: str, *, digest: str = "", note: str = "") -> Proposal:
        """Make the candidate a new version of the skill, and monitor its live runs. Raise `Refused` for an agent.

        `digest` is the candidate that the person was shown; another one is a `Conflict`, and so is a skill that has
        changed since. Nothing is lost: the proposal stays as it is.
        """
        self._require_person("approve a candidate")
        self._context.actor.require("skills.write")
        row = await self._records.find(proposal_id)
        if digest and digest != row.candidate_digest:
            raise Conflict(
                "The candidate differs from the one that was shown.", hint="Review it again, then approve it."
            )
        if row.state not in ("proposed", "approved"):
            await self._records.change(row.id, {}, states=("proposed",))  # raises, with what it is
        change = read_change(row)
        address = f"{row.scope}:{row.skill_slug}"
        now_stored = await self._engine.skills.get(address)
        if now_stored.digest != row.candidate_digest:
            base, package = await self._read_base(row)
            _, changed = build_candidate(base, package, change, self._context.resources.limits)
            if changed.digest != row.candidate_digest:
                raise Conflict("The candidate cannot be rebuilt from the skill.", hint="Optimize the skill again.")
            # Two people may approve at once: one of them gets on.
            await self._records.change(row.id, {"state": "approved"}, states=("proposed", "approved"))
            try:
                await self._store_version(base, change, row, note)
            except ProwessError:
                await self._records.change(row.id, {"state": "proposed"}, states=("approved",))
                raise
        versions = await self._engine.skills.history(address)
        actor = self._context.actor
        watched = row.method not in TRIGGER_METHODS
        values = {
            "state": "watching" if watched else "kept",
            "approver": actor.label,
            "approved_at": now(),
            "version": versions[-1].number if versions else None,
            # From now on the approver answers for it: a rollback acts on their behalf.
            "actor": actor_record(actor),
        }
        return to_proposal(await self._records.change(row.id, values, states=("proposed", "approved")))

    async def reject(self, proposal_id: str, *, note: str = "") -> Proposal:
        """Reject a proposal. Raise `Refused` for an agent."""
        self._require_person("reject a candidate")
        row = await self._records.find(proposal_id)
        reason = f"Rejected by {self._context.actor.label}{f': {note}' if note else ''}. {row.reason}"
        return to_proposal(
            await self._records.change(row.id, {"state": "rejected", "reason": reason}, states=("proposed",))
        )

    async def cancel(self, proposal_id: str) -> Proposal:
        """End the search of a running optimization. The process that runs it tests the best candidate so far.

        If no process is running it any more, it is refused, and the best candidate so far is kept.
        """
        row = await self._records.find(proposal_id)
        if row.state == "running" and not is_recent(row.updated_at, DEAD_SECONDS):
            values = {"state": "refused", "reason": "It was interrupted before its test.", "finished_at": now()}
            return to_proposal(await self._records.change(row.id, values, states=("running",)))
        return to_proposal(await self._records.change(row.id, {"stopping": True}, states=("running",)))

    async def watch(self, *, skill: str = "") -> list[Proposal]:
        """Compare the live runs of approved candidates with earlier ones, roll back regressions, and return the proposals that ended."""
        ended = await watch_approved(self._engine, organization=self._context.actor.organization, skill=skill)
        return [to_proposal(row) for row in ended]

    async def refresh(self, *, on_progress: OptimizationListener = ignore_progress) -> list[Proposal]:
        """Optimize every module again whose state was made with another version of DSPy, and return the results.

        A module that was already tried with the same files is skipped. Until a result is approved, the old state is used.
        """
        skills = await offload(self._read_modules)
        if not any(
            isinstance(artifact, DspyModule) and artifact.state for skill in skills for artifact in skill.artifacts
        ):
            return []
        sidecar = self._context.resources.sidecar().for_organization(self._context.actor.organization)
        found = find_outdated_states(skills, (await sidecar.manifest()).dspy)
        done: list[Proposal] = []
        for outdated in found:
            past = await self._records.list(skill=outdated.skill.slug, states=(), before=None, limit=100)
            module, digest = outdated.artifact, outdated.skill.digest
            # Not those of its prompt or of the description of the skill, which say nothing about the module.
            if any(row.artifact == module.name and row.base_digest == digest for row in past):
                continue
            # As it was made, if it was made here.
            made = [row for row in past if row.artifact in (module.name, module.fallback)]
            proposal = next((row for row in made if row.candidate_digest == digest), None)
            request = stored_request(proposal.request) if proposal else OptimizationRequest(skill=outdated.skill.slug)
            if not request.needs_sidecar:
                request = OptimizationRequest(skill=outdated.skill.slug)
            address = f"{outdated.skill.scope}:{outdated.skill.slug}"
            prepared = await self.prepare(replace(request, skill=address, artifact=module.name))
            try:
                done.append(await self.resume(prepared.id, on_progress=on_progress))
            except ProwessError:
                done.append(await self.get(prepared.id))  # its reason says why
        return done

    async def _do(
        self, row: ProposalRow, request: OptimizationRequest, on_progress: OptimizationListener, *, graceful: bool
    ) -> Proposal:
        # The row has the skill and the artifact by their full names.
        request = replace(request, skill=row.skill_slug, artifact=row.artifact)
        optimizer = Optimizer(self._engine, row, request, on_progress=on_progress, graceful=graceful)
        return to_proposal(await optimizer.run())

    async def _store_version(self, base: Skill, change: Change, row: ProposalRow, note: str) -> None:
        note_text = f"Optimized with {row.method} (proposal {row.id[:8]}). {row.reason}"
        await self._engine.skills.update(apply_change(base, change), note=f"{note} {note_text}".strip())

    async def _read_base(self, row: ProposalRow) -> tuple[Skill, Package]:
        def read() -> tuple[Skill, Package | None]:
            store, skill = self._context.catalog.find(f"{row.scope}:{row.skill_slug}")
            return skill, store.get_package(skill.id)

        skill, package = await offload(read)
        if package is None or skill.digest != row.base_digest or package.digest != skill.digest:
            raise Conflict(
                f"The skill {row.skill_slug!r} has changed since the optimization started, so its result does not apply.",
                hint=f"Optimize it again: `prowess optimize run {row.skill_slug} --method {row.method}`. The result stays stored.",
            )
        return skill, package

    def _read_modules(self) -> list[Skill]:
        """Return the skills with modules that can be changed."""
        found: list[Skill] = []
        for card in self._context.catalog.look()[0]:
            if "dspy_module" in card.kinds:
                store, skill = self._context.catalog.find(f"{card.scope}:{card.slug}")
                if not store.frozen:
                    found.append(skill)
        return found

    def _require_person(self, action: str) -> None:
        if not self._context.actor.is_person:
            raise Refused(
                f"Only a person can {action}: a model wrote it, and nobody has accepted it yet.",
                hint="Ask a person to run `prowess optimize list`.",
            )


def _choose_artifact(skill: Skill, request: OptimizationRequest) -> str:
    """Return the name of the artifact to optimize; '' for trigger phrases and descriptions."""
    if request.method in TRIGGER_METHODS:
        if request.artifact:
            raise Invalid(f"The method {request.method} does not change artifacts.", hint="Omit `--artifact`.")
        return ""
    if request.artifact:
        [chosen] = select_artifacts(skill, [request.artifact])
        check_measurable(skill, chosen.name)
        return chosen.name
    fitting = [artifact for artifact in select_artifacts(skill) if artifact.kind in ("prompt_template", "dspy_module")]
    if len(fitting) != 1:
        there = ": " + ", ".join(artifact.name for artifact in fitting) if fitting else ""
        naming = "Name one with `--artifact`, or use" if fitting else "To optimize how it is found, use"
        raise Invalid(
            f"The skill {skill.slug!r} has {len(fitting) or 'no'} artifacts that can be optimized{there}.",
            hint=f"{naming} `--method phrases`.",
        )
    check_measurable(skill, fitting[0].name)
    return fitting[0].name
