"""Plan to install exactly what `prowess.lock` records, for a fresh checkout and for CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prowess.engine.context import Context
from prowess.engine.install_plan import InstallPlan, PlannedSkill, Planner, SkippedSkill
from prowess.engine.update_check import join_plans, match_installed
from prowess.errors import Conflict, NotFound, ProwessError
from prowess.sources.installation import Installation
from prowess.sources.installed import KnownSkill
from prowess.sources.reference import SourceReference, parse_source
from prowess.threads import offload


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
    for skill in await offload(lambda: [one for one in selected if _is_missing(installation, one)]):
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
    chosen, _ = match_installed(fetched, skills)
    plan = await offload(
        lambda: Planner(context, installation).plan(
            reference, replace(fetched, skills=tuple(chosen), unreadable=()), (), None
        )
    )
    planned = {skill.new.name: skill for skill in plan.skills}
    planned_skills: list[PlannedSkill] = []
    skipped: list[SkippedSkill] = list(plan.skipped)
    for skill in skills:
        try:
            planned_skills.append(_check(skill, planned.get(skill.name)))
        except ProwessError as error:
            skipped.append(SkippedSkill(name=skill.name, error=error))
    return replace(plan, source=source, skills=tuple(planned_skills), skipped=tuple(skipped))


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
