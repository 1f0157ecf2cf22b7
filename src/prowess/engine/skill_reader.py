"""Read parts, files, versions and usage of skills. Blocking."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from prowess.catalog.scans import count_dangers
from prowess.engine.context import Context
from prowess.errors import NotFound, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.skill.edit import FileChange, diff_packages
from prowess.skill.filenames import document_text
from prowess.skill.kinds import Artifact, Kind, kind_info
from prowess.skill.model import Skill, SkillCard, Version
from prowess.skill.package import Package
from prowess.storage.clock import days_ago

if TYPE_CHECKING:
    from prowess.catalog.importer import CheckResult
    from prowess.feed.usage import SkillUsage, UsageReport


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """The difference between two versions of a skill. A version of None is the skill as it is now."""

    slug: str
    before: int | None
    after: int | None
    changes: tuple[FileChange, ...]


def read_package(context: Context, slug: str) -> tuple[Skill, Package]:
    """Return a skill with its files, or raise `NotFound`."""
    store, skill = context.catalog.find(slug)
    package = store.get_package(skill.id)
    if package is None:
        raise NotFound(f"The files of {slug!r} are missing.", hint="Run `prowess doctor`.")
    return skill, package


def read_part(context: Context, slug: str, name: str, kind: Kind | None) -> tuple[Artifact, bytes]:
    """Return one artifact with its content, by name or by `name@variant`; with `kind`, only one of that kind."""
    store, skill = context.catalog.find(slug)
    found = skill.find_artifact(name, kind)
    if kind_info(found.kind).is_file and found.path:
        return found, store.read_file(skill.id, found.path)
    return found, found.content.encode()


def diff_versions(context: Context, slug: str, before: int | None, after: int | None) -> VersionDiff:
    """Return what changed between two versions; without numbers, the last change."""
    store, versions = context.catalog.history(slug)
    name = versions[-1].slug
    if before is None and after is None:
        after = versions[-1].number
        before = versions[-2].number if len(versions) > 1 else None
        old = store.version_package(name, before) if before else Package(name=name, files=())
    else:
        before = before or versions[0].number
        old = store.version_package(name, before)
    new = store.version_package(name, after) if after else read_package(context, slug)[1]
    return VersionDiff(slug=name, before=before, after=after, changes=tuple(diff_packages(old, new)))


def read_version(context: Context, slug: str, number: int) -> tuple[Version, str]:
    """Return one version of a skill, and its document; raise `NotFound`."""
    store, versions = context.catalog.history(slug)
    package = store.version_package(versions[-1].slug, number)
    version = next(version for version in versions if version.number == number)
    return version, document_text(version.form, package)


def list_unused(context: Context, days: float, *, system: bool) -> list[tuple[SkillCard, SkillUsage]]:
    """Return the skills that were not loaded, enabled or run in the last days, longest unused first."""
    from prowess.feed.usage import NEVER_USED, list_usage

    has_records = context.resources.has_records()
    usage = list_usage(context.resources.records(), context.actor.organization) if has_records else {}
    cards = [card for card in context.catalog.cards() if system or card.scope != "system"]
    found = [(card, usage.get(card.slug, NEVER_USED)) for card in cards]
    border = days_ago(days)
    unused = [(card, use) for card, use in found if use.last < border]
    return sorted(unused, key=lambda pair: (pair[1].last, pair[0].slug))


def report_skill_usage(context: Context, days: float, *, system: bool) -> UsageReport:
    """Report which skills, references and scripts were loaded in the last days, and which can be retired."""
    from prowess.feed.usage import count_recent_uses, report_usage
    from prowess.storage.counts import loaded_files

    cards = [card for card in context.catalog.cards() if system or card.scope != "system"]
    loads: list[tuple[str, str, tuple[str, ...]]] = []
    used: dict[str, int] = {}
    if context.resources.has_records():
        with context.resources.records().read() as connection:
            loads = list(loaded_files(connection, context.actor.organization, since=days_ago(days)))
        used = count_recent_uses(context.resources.records(), context.actor.organization, days=days)
    if not context.actor.admin:
        # Skills that only another user sees are in the log of the organization too.
        visible = {card.slug for card in context.catalog.cards()}
        loads = [load for load in loads if load[0] in visible]
    loaded = {slug for slug, _, _ in loads}
    files = {card.slug: _loadable_files(context, card.slug) if card.slug in loaded else () for card in cards}
    return report_usage(loads, files, used=used, days=days)


def _loadable_files(context: Context, slug: str) -> tuple[str, ...]:
    _, outline = context.catalog.find_outline(slug)
    return tuple(part.name for kind in ("reference", "script") for part in outline.of_kind(kind))


def with_references(context: Context, checked: CheckResult) -> CheckResult:
    """Add the problems of prompts and rubrics that a checked skill refers to."""
    skill = checked.report.reading.skill if checked.report else None
    if checked.report is None or skill is None or not {"json_generation", "review"} & set(skill.kinds):
        return checked
    from prowess.prompts.registry import add_reference_problems

    registry = context.resources.registry.without_other_skills()
    problems = add_reference_problems(skill, checked.problems, registry, context.actor.organization)
    return replace(checked, problems=problems, report=replace(checked.report, problems=problems))


def count_skill_dangers(context: Context, cards: Sequence[SkillCard], most: int) -> dict[str, int]:
    """Return the number of dangerous findings by digest. Scan at most `most` skills that were never scanned."""
    catalog = context.catalog
    found = catalog.scans.dangers()
    for card in [card for card in cards if card.digest not in found][:most]:
        with suppress(ProwessError):
            store, outline = catalog.find_outline(f"{card.scope}:{card.slug}")
            found[outline.digest] = count_dangers(catalog.scans.of(store, outline))
    return found
