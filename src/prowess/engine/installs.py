"""Installs: add skills from any source to agents' folders, update, verify and remove them.

Installed skills live in folders, `.agents/skills` of the workspace or of the user, and nowhere else: the catalog finds them there like
any other folder, and the lock files next to them say where they came from. A person who agrees to a plan accepts exactly the bytes in
it; without that, an installed skill is merely found, and nothing of it is used before someone accepts it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.engine.context import Part
from prowess.engine.trust import Trust, TrustPreview
from prowess.errors import NotFound, ProwessError, Refused
from prowess.threads import is_cancelled, offload, offload_cancellable

if TYPE_CHECKING:
    from prowess.engine.install_plan import InstallPlan, PlannedSkill
    from prowess.engine.update_check import UpdateStatus
    from prowess.sources.fetched import Fetched, SourceState
    from prowess.sources.installation import Installation
    from prowess.sources.installed import KnownSkill, NewSkill
    from prowess.sources.lock.prowess_lock import InstallMode
    from prowess.sources.reference import SourceReference
    from prowess.sources.signature import ExpectedSigner
    from prowess.sources.verification import VerifiedSkill

_AT_ONCE = 4
"""How many sources are fetched at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallResult:
    """The skills that were installed, and those that were accepted."""

    installed: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    changed_meanwhile: tuple[str, ...] = ()
    """Skills whose files were changed by someone else while they were accepted; they are not."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedSkill:
    """A skill that was removed, and the paths that are gone."""

    name: str
    paths: tuple[str, ...]


class Installs(Part):
    """Skills that were installed from a source. Only a person can change them."""

    async def plan(
        self,
        source: str,
        *,
        agents: Sequence[str] = (),
        user: bool = False,
        mode: InstallMode | None = None,
        skills: Sequence[str] = (),
    ) -> InstallPlan:
        """Fetch a source, and return the plan to install its skills, or those with these names. Changes nothing.

        Without agents, the skill is installed into the shared folder and for every agent that has a folder here. With `user`, it is for all
        projects of the user. Raise `Invalid` for a source that cannot be read, and `NotFound` for a name that it does not have.
        """
        from prowess.engine.install_plan import Planner
        from prowess.sources.agents import detect_agents, parse_agents

        self._context.actor.require("skills.read")
        reference = await offload(self._parse, source)
        fetched = await self._fetch(reference)
        fetched = _select(fetched, skills)
        installation = await offload(self._open, user)
        base = installation.base
        chosen = parse_agents(agents) or detect_agents(
            base.root, home=self._context.resources.user_home, environment=base.environment, user=user
        )
        return await offload_cancellable(
            lambda: Planner(self._context, installation).plan(reference, fetched, chosen, mode)
        )

    async def install(
        self,
        plan: InstallPlan,
        *,
        proof: str = "",
        shown: Mapping[str, str] | None = None,
        discard_changes: bool = False,
    ) -> InstallResult:
        """Install the changes of a plan. Accept them only if `proof` states how a person agreed.

        `shown` is the text that the person saw about each skill, by slug. Raise `Conflict` if something that Prowess did not
        install is in the way, or if files were edited and `discard_changes` is not given. In these cases nothing is changed.
        """
        result = await offload_cancellable(lambda: self._install(plan, proof, discard_changes))
        if not proof:
            return result
        preview = TrustPreview(target=plan.source, skills=tuple(skill.preview for skill in plan.skills))
        outcome = await Trust(self._context).accept(preview, proof=proof, shown=shown)
        return replace(result, accepted=outcome.accepted, changed_meanwhile=outcome.changed)

    async def plan_frozen(self, source: str = "", *, skills: Sequence[str] = (), user: bool = False) -> InstallPlan:
        """Return the plan to install missing skills from `prowess.lock`, at exactly the recorded state. Changes nothing.

        With a source or names, only those. Raise `Conflict` if a source no longer has these files, and `NotFound` if nothing is
        recorded for the source or a name.
        """
        from prowess.engine.update_check import plan_frozen

        self._context.actor.require("skills.read")
        installation = await offload(self._open, user)
        reference = str(replace(await offload(self._parse, source), skill="")) if source else ""
        return await plan_frozen(self._context, installation, reference, skills)

    async def list(self, *, user: bool = False) -> list[KnownSkill]:
        """Return the installed skills, including those of the skills CLI and of `gh skill`."""
        self._context.actor.require("skills.read")
        return await offload(lambda: self._open(user).find(()))

    async def plan_update(
        self,
        names: Sequence[str] = (),
        *,
        user: bool = False,
        step: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> InstallPlan:
        """Fetch the sources of installed skills, and return the plan to update them. Changes nothing.

        Warnings say if the history of a source does not continue. A source that cannot be fetched does not affect the others.
        """
        from prowess.engine.install_plan import InstallPlan, SkippedSkill
        from prowess.engine.update_check import join_plans, source_of

        self._context.actor.require("skills.read")
        installation = await offload(self._open, user)
        known = await offload(self._find, installation, names)
        groups: dict[tuple[str, str], list[KnownSkill]] = {}
        for skill in known:
            groups.setdefault(source_of(skill), []).append(skill)
        slots = asyncio.Semaphore(_AT_ONCE)
        done = 0

        async def fetch_group(key: tuple[str, str], skills: list[KnownSkill]) -> InstallPlan:
            nonlocal done
            async with slots:
                try:
                    plan = await self._plan_group(installation, key[0], skills)
                except ProwessError as error:
                    failed = tuple(SkippedSkill(name=skill.name, error=error) for skill in skills)
                    plan = InstallPlan(source=key[0], base=installation.base, skipped=failed)
            done += 1
            step(done, len(groups))
            return plan

        step(0, len(groups))
        plans = await asyncio.gather(*(fetch_group(key, skills) for key, skills in groups.items()))
        return join_plans(plans, installation.base)

    async def outdated(
        self,
        names: Sequence[str] = (),
        *,
        user: bool = False,
        step: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> list[UpdateStatus]:
        """Return how installed skills compare with their sources, and those from registries with them. Changes nothing."""
        from prowess.engine.registries import Registries
        from prowess.engine.update_check import list_status

        installation = await offload(self._open, user)
        from_registries = await Registries(self._context).outdated(names)
        left = [name for name in names if name not in {status.name for status in from_registries}]
        if names and not left:
            return from_registries
        plan = await self.plan_update(left, user=user, step=step)
        found = list_status(plan, await offload(lambda: installation.find(left)))
        return sorted([*found, *from_registries], key=lambda status: status.name)

    async def remove(
        self, names: Sequence[str], *, agents: Sequence[str] = (), user: bool = False, discard_changes: bool = False
    ) -> list[RemovedSkill]:
        """Remove installed skills, or only from some agents, with all links and folders that Prowess created for them."""
        return await offload(self._remove, names, agents, user, discard_changes)

    async def verify(
        self, names: Sequence[str] = (), *, user: bool = False, signer: ExpectedSigner | None = None
    ) -> list[VerifiedSkill]:
        """Compare installed files with the lock files, and check signatures. Changes nothing.

        With `signer`, a skill with another signature, or none, counts as different.
        """
        from prowess.sources.verification import verify

        self._context.actor.require("skills.read")
        return await offload(lambda: verify(self._open(user), names, signer))

    def _open(self, user: bool) -> Installation:
        from prowess.sources.install import Base
        from prowess.sources.installation import Installation

        resources = self._context.resources
        # On a server, these are folders of the operator, and a caller is not at this machine.
        if self._context.actor.is_remote:
            raise Refused(
                "Skills can be installed into folders only on this machine.", hint="Use `prowess source add` instead."
            )
        root = resources.user_home if user else resources.workspace
        installation = Installation(Base(root=Path(root).absolute(), environment=resources.environment, is_user=user))
        # What a killed update has not replaced yet would count as edited. A folder that cannot be changed is read as it is.
        with suppress(ProwessError, OSError):
            installation.recover()
        return installation

    async def _fetch(self, reference: SourceReference, last: SourceState | None = None) -> Fetched:
        context = await offload(self._context.fetch_context)
        return await self._context.resources.fetch_source(reference, context, last)

    def _parse(self, source: str) -> SourceReference:
        from prowess.sources.reference import parse_source

        workspace = self._context.resources.workspace
        # `skills/pdf` is a repository for the skills CLI, even if there is such a folder; say so instead of a failed fetch.
        there = workspace / source
        if "/" in source and not source.startswith((".", "/", "~")) and "://" not in source and os.path.exists(there):  # noqa: PTH110
            raise NotFound(
                f"{source[:200]!r} stands for a repository on GitHub, but a folder with that name exists here.",
                hint=f"For the folder, use ./{source[:200]}; for the repository, github:{source[:200]}.",
            )
        return parse_source(source, base=workspace)

    async def _plan_group(self, installation: Installation, source: str, skills: list[KnownSkill]) -> InstallPlan:
        from prowess.engine.install_plan import InstallPlan
        from prowess.engine.update_check import is_all_recorded, last_state, plan_installed
        from prowess.sources.reference import parse_source

        reference = await offload(parse_source, source, base=self._context.resources.workspace)
        fetched = await self._fetch(reference, last_state(skills))
        if fetched.unchanged and is_all_recorded(skills):
            return InstallPlan(source=source, base=installation.base, warnings=fetched.warnings)
        if fetched.unchanged:
            fetched = await self._fetch(reference)
        return await offload_cancellable(
            lambda: plan_installed(self._context, installation, reference, fetched, skills)
        )

    def _install(self, plan: InstallPlan, proof: str, discard_changes: bool) -> InstallResult:
        actor, gate = self._context.actor, self._context.resources.gate
        actor.require("skills.write")
        skills = plan.changes
        action = "update" if skills and all(skill.change == "update" for skill in skills) else "install"
        names = [skill.new.name for skill in skills]
        gate.begin(actor, action, source=plan.source, names=names, digests=[skill.preview.digest for skill in skills])
        try:
            installed = self._open(plan.base.is_user).install(
                [self._with_approval(skill, accepted=bool(proof)) for skill in skills], discard_changes=discard_changes
            )
        except BaseException as error:
            code = error.code if isinstance(error, ProwessError) else "cancelled" if is_cancelled() else "error"
            with suppress(ProwessError):  # raise the first error, not one of the log
                gate.end(actor, action, f"failed: {code}", source=plan.source)
            raise
        finally:
            self._context.resources.mark_changed()
            self._context.catalog.stores()  # the first skill may have made a folder that is a new store
        gate.end(actor, action, source=plan.source, names=names)
        return InstallResult(installed=tuple(installed))

    def _with_approval(self, skill: PlannedSkill, *, accepted: bool) -> NewSkill:
        from prowess.sources.lock.prowess_lock import Approval
        from prowess.sources.lock.skills_lock import javascript_time

        if not accepted:
            return skill.new
        actor = self._context.actor
        return replace(skill.new, approval=Approval(by=actor.label, at=javascript_time(), channel=actor.channel))

    def _remove(
        self, names: Sequence[str], agents: Sequence[str], user: bool, discard_changes: bool
    ) -> list[RemovedSkill]:
        from prowess.sources.agents import parse_agents

        actor, gate = self._context.actor, self._context.resources.gate
        actor.require("skills.write")
        installation = self._open(user)
        self._check_installed(installation, names)
        gate.begin(actor, "delete", names=list(names))
        try:
            removed = installation.remove(names, agents=parse_agents(agents), discard_changes=discard_changes)
        except ProwessError as error:
            gate.end(actor, "delete", f"failed: {error.code}", names=list(names))
            raise
        finally:
            self._context.resources.mark_changed()
            self._context.catalog.stores()
        gate.end(actor, "delete", names=[skill.name for skill, _ in removed])
        return [RemovedSkill(name=skill.name, paths=tuple(map(str, paths))) for skill, paths in removed]

    def _find(self, installation: Installation, names: Sequence[str]) -> list[KnownSkill]:
        """Return installed skills by their names. The error for a skill from a registry names the command that updates it."""
        try:
            return installation.find(names)
        except NotFound as error:
            for name in names:
                outline = self._context.catalog.outline(name)
                if outline and outline.provenance.source_type == "marketplace" and not outline.provenance.source_id:
                    page = outline.provenance.source_url
                    raise NotFound(
                        error.message, hint=f"It is from a registry: prowess registry install {page}"
                    ) from None
            raise

    def _check_installed(self, installation: Installation, names: Sequence[str]) -> None:
        """Raise `NotFound` for a name that is not installed; for another skill, with the command that deletes it."""
        for name in names:
            try:
                installation.find([name])
            except NotFound as error:
                try:
                    self._context.catalog.find_outline(name)
                except ProwessError:
                    raise error from None
                raise NotFound(
                    error.message, hint=f"To delete a skill of your own, run `prowess delete {name}`."
                ) from None


def _select(fetched: Fetched, names: Sequence[str]) -> Fetched:
    """Return the skills with these names; raise `NotFound` with a near name for one that the source does not have."""
    from prowess.sources.fetch import select_skill

    if not names:
        return fetched
    found = [skill for name in dict.fromkeys(names) for skill in select_skill(fetched, name).skills]
    return replace(fetched, skills=tuple({id(skill): skill for skill in found}.values()), unreadable=())
