"""Compare installed skills with their sources, and plan to install exactly what `prowess.lock` records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from prowess.engine.context import Context
from prowess.engine.install_plan import InstallPlan, PlannedSkill, Planner, SkippedSkill, name_of
from prowess.errors import Conflict, NotFound, ProwessError
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState
from prowess.sources.install import Base
from prowess.sources.installation import Installation
from prowess.sources.installed import KnownSkill
from prowess.sources.lock.skills_lock import source_text
from prowess.sources.reference import SourceReference, parse_source
from prowess.threads import offload

StatusName = Literal["current", "outdated", "gone", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatus:
    """How an installed skill compares with its source."""

    name: str
    status: StatusName
    source: str = ""
    installed: str = ""
    """The commit, or the digest of the files where there is none."""
    latest: str = ""
    problem: str = ""
    registry: bool = False
    """True for a skill in the catalog that was installed from a registry; `source` is its page."""


def source_of(skill: KnownSkill) -> tuple[str, str]:
    """Return the source of an installed skill as text, and the state that it was installed from."""
    if skill.entry is not None:
        return skill.entry.pin.reference or skill.entry.pin.source, skill.entry.pin.state
    return (source_text(skill.locked) if skill.locked else ""), ""


def last_state(skills: Sequence[KnownSkill]) -> SourceState | None:
    """Return the state of the source that these skills were installed from, for the next fetch."""
    entry = skills[0].entry
    if entry is None:
        return None
    pin = entry.pin
    return SourceState(url=pin.url, revision=pin.state, etag=pin.etag, sequence=pin.sequence)


def is_all_recorded(skills: Sequence[KnownSkill]) -> bool:
    """Return True if both lock files know everything about these skills, so that an unchanged source needs no fetch."""
    return all(skill.entry is not None and skill.locked is not None and not skill.entry.pending for skill in skills)


def plan_installed(
    context: Context,
    installation: Installation,
    reference: SourceReference,
    fetched: Fetched,
    skills: Sequence[KnownSkill],
) -> InstallPlan:
    """Return what installing again the fetched ones of these installed skills would do, and which are `gone`. Blocking."""
    chosen, gone = _match_installed(fetched, skills)
    some = replace(fetched, skills=tuple(chosen), unreadable=())
    plan = Planner(context, installation).plan(reference, some, (), None)
    return replace(plan, gone=tuple(gone) if fetched.complete else ())


def _match_installed(fetched: Fetched, skills: Sequence[KnownSkill]) -> tuple[list[FetchedSkill], list[str]]:
    """Return the fetched skills that are installed, by their path or else their name, and the names of those that are gone."""
    by_path = {new.path: new for new in fetched.skills}
    by_name = {name_of(new): new for new in reversed(fetched.skills)}
    broken = {broken_skill.path for broken_skill in fetched.unreadable}
    found: dict[str, FetchedSkill] = {}
    gone: list[str] = []
    for skill in skills:
        path = skill.entry.pin.path if skill.entry else _folder(skill)
        one = by_path.get(path)
        if one is None or name_of(one) != skill.name:
            one = by_name.get(skill.name)
        if one is not None:
            found[one.path] = one
        elif path not in broken:
            gone.append(skill.name)
    return list(found.values()), gone


def _folder(skill: KnownSkill) -> str:
    return skill.locked.skill_path.rpartition("/")[0] if skill.locked else ""


def join_plans(plans: Sequence[InstallPlan], base: Base) -> InstallPlan:
    """Return the plans of several sources as one, warnings most serious first."""
    ranks = {"error": 0, "warning": 1, "info": 2}
    warnings = {(warning.code, warning.message): warning for plan in plans for warning in plan.warnings}
    return InstallPlan(
        source=", ".join(dict.fromkeys(plan.source for plan in plans)),
        base=base,
        skills=tuple(skill for plan in plans for skill in plan.skills),
        skipped=tuple(skill for plan in plans for skill in plan.skipped),
        warnings=tuple(sorted(warnings.values(), key=lambda one: ranks.get(one.severity, 3))),
        gone=tuple(name for plan in plans for name in plan.gone),
    )


def list_status(plan: InstallPlan, skills: Sequence[KnownSkill]) -> list[UpdateStatus]:
    """Return how each of these skills compares with what a plan to update them found."""
    planned = {skill.new.name: skill for skill in plan.skills}
    failed = {skill.name: skill.error.message for skill in plan.skipped}
    found: list[UpdateStatus] = []
    for skill in skills:
        entry, new = skill.entry, planned.get(skill.name)
        status: StatusName = "current"
        if skill.name in failed:
            status = "unknown"
        elif skill.name in plan.gone:
            status = "gone"
        elif new is not None and _is_other(skill, new):
            status = "outdated"
        installed = (entry.pin.state or entry.digest) if entry else ""
        found.append(
            UpdateStatus(
                name=skill.name,
                status=status,
                source=source_of(skill)[0],
                installed=installed,
                latest=(new.new.pin.state or new.preview.digest) if new else installed if status == "current" else "",
                problem=failed.get(skill.name, ""),
            )
        )
    return sorted(found, key=lambda one: one.name)


def _is_other(skill: KnownSkill, new: PlannedSkill) -> bool:
    """Return True if the source has other files than it had. Files that were edited here are not the source's."""
    if skill.entry is not None:
        return skill.entry.source_digest != new.new.package.digest
    return skill.locked is None or skill.locked.hash not in (new.new.locked.hash, new.new.pin.tree)


async def plan_frozen(
    context: Context, installation: Installation, reference: str, names: Sequence[str]
) -> InstallPlan:
    """Return what is missing of the recorded skills of a reference, or of all sources for ''.

    Each is fetched at the commit that is recorded, and has to have the recorded files.
    """
    known = [skill for skill in await offload(lambda: installation.find(names)) if skill.entry is not None]
    selected = [skill for skill in known if not reference or _reference_of(skill) == reference]
    if not selected:
        raise NotFound(
            f"prowess.lock records no skill{f' of {reference!r}' if reference else ''}.",
            hint="Add it without --frozen first, and commit the lock files.",
        )
    groups: dict[tuple[str, str], list[KnownSkill]] = {}
    for skill in await offload(
        lambda: [known_skill for known_skill in selected if _is_missing(installation, known_skill)]
    ):
        groups.setdefault((_reference_of(skill), skill.entry.pin.state if skill.entry else ""), []).append(skill)
    plans = [await _plan_group(context, installation, source, skills) for (source, _), skills in groups.items()]
    return join_plans(plans, installation.base)


def _reference_of(skill: KnownSkill) -> str:
    return skill.entry.pin.reference if skill.entry else ""


def _is_missing(installation: Installation, skill: KnownSkill) -> bool:
    return skill.locked is None or any(state != "ours" for _, state in installation.states(skill))


async def _plan_group(
    context: Context, installation: Installation, source: str, skills: Sequence[KnownSkill]
) -> InstallPlan:
    reference = await offload(_pinned, source, skills[0])
    fetched = await context.resources.fetch_source(reference, await offload(context.fetch_context))
    plan = await offload(plan_installed, context, installation, reference, fetched, skills)
    planned = {skill.new.name: skill for skill in plan.skills}
    planned_skills: list[PlannedSkill] = []
    skipped: list[SkippedSkill] = list(plan.skipped)
    for skill in skills:
        try:
            planned_skills.append(_check(skill, planned.get(skill.name)))
        except ProwessError as error:
            skipped.append(SkippedSkill(name=skill.name, error=error))
    return replace(plan, source=source, skills=tuple(planned_skills), skipped=tuple(skipped), gone=())


def _pinned(source: str, skill: KnownSkill) -> SourceReference:
    reference = parse_source(source)
    commit = skill.entry.pin.commit if skill.entry else ""
    return reference.at(ref=commit) if reference.is_git and commit else reference


def _check(skill: KnownSkill, planned: PlannedSkill | None) -> PlannedSkill:
    """Return the plan for a skill with the pin that is recorded; raise `Conflict` if the source has other files."""
    entry = skill.entry
    if entry is None or planned is None or planned.new.package.digest != entry.source_digest:
        now = f"sha256 {planned.new.package.digest[:12]}" if planned else "no such skill"
        raise Conflict(
            f"The source of {skill.name!r} has {now}, prowess.lock records "
            f"{f'sha256 {entry.source_digest[:12]}' if entry else 'nothing'}.",
            hint=f"See what changed with `prowess update {skill.name}`.",
        )
    new = replace(
        planned.new,
        pin=entry.pin,
        agents=skill.agents,
        mode=entry.mode,
        signature=entry.signature,
        approval=entry.approval,
        computed_hash=entry.computed_hash,
        locked=skill.locked or planned.new.locked,
    )
    change = "new" if planned.change == "unchanged" else planned.change
    return replace(planned, new=new, change=change, from_state="")
