"""Skills: read, check, search, export, write and delete them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prowess.catalog.exporter import ExportResult, export_skill
from prowess.catalog.importer import (
    CheckResult,
    ImportPlan,
    ImportResult,
    OnConflict,
    Progress,
    ProgressCallback,
    check_paths,
    ignore_progress,
)
from prowess.catalog.scans import FindingRow, count_dangers
from prowess.catalog.store import Fault
from prowess.engine.context import Context
from prowess.errors import NotFound, ProwessError, Refused
from prowess.skill.edit import FileChange, diff_packages
from prowess.skill.kinds import Artifact, Kind, kind_info
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName
from prowess.skill.slug import check_slug
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.engine.callables import Inventory
    from prowess.engine.skill_writer import SkillWriter
    from prowess.feed.usage import SkillUsage, UsageReport
    from prowess.match.recommendation import Recommendation
    from prowess.session.session import Session
    from prowess.skill.outline import SkillOutline

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """What changed from one version of a skill to another. A version of None is the skill as it is now."""

    slug: str
    before: int | None
    after: int | None
    changes: tuple[FileChange, ...]


class Skills:
    """The available skills. A skill is named by its slug, or by `scope:slug` if a nearer scope overrides it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # Read

    async def cards(self) -> list[SkillCard]:
        """Return the card of every available skill, by slug. If several have the same slug, the nearest one overrides the others.

        Each card has the trust of the skill. An agent gets no text of skills that it may not enable without approval.
        """
        return (await self.look())[0]

    async def faults(self) -> list[Fault]:
        """Return the skills that cannot be read, and why. An agent gets no text that nobody has accepted."""
        return (await self.look())[1]

    async def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """Return cards and faults from a single scan."""

        def look() -> tuple[list[SkillCard], list[Fault]]:
            cards, faults = self._context.catalog.look()
            visibility = self._context.visibility
            return visibility.cards(cards), visibility.faults(faults)

        return await offload(look)

    async def reload(self) -> tuple[list[SkillCard], list[Fault]]:
        """Scan all skills again, for matching too."""
        self._context.resources.mark_changed()
        return await self.look()

    async def marked(self, found: Sequence[Recommendation]) -> list[Recommendation]:
        """Return results of a match with the current trust of each skill, without those that are switched off."""
        return await offload(lambda: self._context.visibility.usable(lambda _: found, len(found)))

    async def shown(self, cards: Sequence[SkillCard]) -> set[str]:
        """Return the slugs of the skills whose texts may be part of a prompt of the actor: see `Visibility`."""
        return await offload(self._context.visibility.shown, cards)

    async def documents(self) -> list[SearchDocument]:
        """Return what matching reads of every skill, including its instructions; each slug once."""
        return await offload(lambda: list(self._context.catalog.documents()))

    async def get(self, slug: str) -> Skill:
        """Return a skill, or raise `NotFound`."""
        return await offload(self._context.catalog.get, slug)

    async def outline(self, slug: str) -> SkillOutline | None:
        """Return the outline of a skill without its texts, or None. This is cheap."""
        return await offload(self._context.catalog.outline, slug)

    async def findings(self, slug: str) -> tuple[FindingRow, ...]:
        """Return the findings of the security scan, most severe first. They are advice; see docs/scan.md."""

        def scan() -> tuple[FindingRow, ...]:
            store, outline = self._context.catalog.find_outline(slug)
            return self._context.catalog.scans.of(store, outline)

        return await offload(scan)

    async def dangers(self, cards: Sequence[SkillCard], *, scan: int = 0) -> dict[str, int]:
        """Return the number of dangerous findings by digest. Scan at most `scan` skills that were never scanned."""
        return await offload(self._count_dangers, cards, scan)

    def _count_dangers(self, cards: Sequence[SkillCard], most: int) -> dict[str, int]:
        catalog = self._context.catalog
        found = catalog.scans.dangers()
        for card in [card for card in cards if card.digest not in found][:most]:
            with suppress(ProwessError):
                store, outline = catalog.find_outline(f"{card.scope}:{card.slug}")
                found[outline.digest] = count_dangers(catalog.scans.of(store, outline))
        return found

    async def read_file(self, slug: str, path: str) -> bytes:
        """Return one file of a skill by its exact path. This does not pass the gate; `resource` does."""

        def read() -> bytes:
            store, skill = self._context.catalog.find(slug)
            return store.read_file(skill.id, path)

        return await offload(read)

    async def resource(self, slug: str, path: str, *, session: Session | str = "") -> bytes:
        """Return one file of a skill by its exact path, through the gate, and record it as a load."""
        from prowess.engine.sessions import load_file

        return await load_file(self._context, slug, path, session=self._context.session_key(session))

    async def part(self, slug: str, name: str, *, kind: Kind | None = None) -> tuple[Artifact, bytes]:
        """Return one artifact with its content, by name or by `name@variant`; with `kind`, only one of that kind."""
        return await offload(self._read_part, slug, name, kind)

    async def history(self, slug: str) -> list[Version]:
        """Return the versions of a skill, oldest first, even if it was deleted."""
        return await offload(lambda: self._context.catalog.history(slug)[1])

    async def diff(self, slug: str, before: int | None = None, after: int | None = None) -> VersionDiff:
        """Return what changed between two versions; without numbers, the last change."""
        return await offload(self._diff, slug, before, after)

    # Search

    async def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """Return the skills that match a search query, best first; without a query, all with the tags, by slug."""
        context = self._context
        return await offload(
            lambda: context.visibility.usable(
                lambda most: context.resources.matcher.search(query, limit=most, tags=tags), limit
            )
        )

    async def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the whole ranking for a message, including skills with the decision "no"."""
        resources, visibility = self._context.resources, self._context.visibility
        return await offload(
            lambda: visibility.usable(
                lambda most: resources.matcher.rank(message, limit=most, tags=tags, context=context), limit
            )
        )

    async def unused(self, *, days: float, system: bool = False) -> list[tuple[SkillCard, SkillUsage]]:
        """Return the skills that were neither loaded nor enabled in the last days, longest unused first.

        Skills of the system scope, which come with Prowess or a plugin, are left out unless `system` is true.
        """
        from prowess.feed.usage import NEVER_USED, days_ago, list_usage

        context = self._context

        def read() -> list[tuple[SkillCard, SkillUsage]]:
            has_records = context.resources.has_records()
            usage = list_usage(context.resources.records(), context.actor.organization) if has_records else {}
            cards = [card for card in context.catalog.cards() if system or card.scope != "system"]
            found = [(card, usage.get(card.slug, NEVER_USED)) for card in cards]
            border = days_ago(days)
            unused = [(card, use) for card, use in found if use.last < border]
            return sorted(unused, key=lambda pair: (pair[1].last, pair[0].slug))

        return await offload(read)

    async def usage(self, *, days: float = 30, system: bool = False) -> UsageReport:
        """Report which skills, references and scripts were loaded in the last days, and which can be retired.

        Skills of the system scope are left out of the unused ones unless `system` is true.
        """
        from prowess.feed.usage import days_ago, report_usage
        from prowess.storage.counts import loaded_files

        context = self._context

        def read() -> UsageReport:
            cards = [card for card in context.catalog.cards() if system or card.scope != "system"]
            loads: list[tuple[str, str, tuple[str, ...]]] = []
            if context.resources.has_records():
                with context.resources.records().read() as connection:
                    loads = list(loaded_files(connection, context.actor.organization, since=days_ago(days)))
            used = {slug for slug, _, _ in loads}
            files = {card.slug: self._loadable_files(card.slug) if card.slug in used else () for card in cards}
            return report_usage(loads, files, days=days)

        return await offload(read)

    def _loadable_files(self, slug: str) -> tuple[str, ...]:
        _, outline = self._context.catalog.find_outline(slug)
        return tuple(part.name for kind in ("reference", "script") for part in outline.of_kind(kind))

    async def inventory(self) -> Inventory:
        """Return what agents can use, such as callable skills. Only changes are read again."""
        return await offload(self._context.resources.callables.look)

    @property
    def last_inventory(self) -> Inventory:
        """The result of the last `inventory()`; empty before the first. Reads nothing."""
        return self._context.resources.callables.seen

    # Check and export

    async def check(
        self, *paths: Path, profile: ProfileName = "prowess", watch: ProgressCallback = ignore_progress
    ) -> list[CheckResult]:
        """Validate every skill at or below these paths. With several paths, a missing one is a result of its own.

        The profile `prowess` also looks up the prompts and rubrics that a skill refers to.
        """

        def check(step: ProgressCallback) -> list[CheckResult]:
            found = list(check_paths(paths, profile, self._context.resources.limits, step))
            return [self._with_references(one) for one in found] if profile == "prowess" else found

        return await _offload_cancellable(check, watch)

    async def export(
        self,
        slug: str,
        folder: Path,
        *,
        name: str = "",
        form: str | None = None,
        profile: ProfileName | None = None,
        replace: bool = False,
    ) -> ExportResult:
        """Write a skill to a folder. `name` is the file name of an archive (default: after the skill)."""

        def export() -> ExportResult:
            skill, package = self._read_package(slug)
            limits = self._context.resources.limits
            return export_skill(
                skill, package, folder, name=name, form=form, profile=profile, replace=replace, limits=limits
            )

        return await offload(export)

    # Write. See `SkillWriter` for what every write leaves behind.

    async def create(self, skill: Skill, *, scope: Scope = "workspace", note: str = "") -> Skill:
        """Store a new skill. Raise `DuplicateSkill` if the slug is taken."""
        return await offload(lambda: self._writer.create(skill, scope, note))

    async def update(self, skill: Skill, *, note: str = "") -> Skill:
        """Change a skill that was read before. Raise `Conflict` if it has changed since."""
        return await offload(lambda: self._writer.update(skill, note))

    async def fork(self, slug: str, *, scope: Scope = "workspace") -> Skill:
        """Copy a skill of a farther scope into this one, where the copy overrides it, and return the copy.

        Its history says what it was copied from, and its card what it hides. Raise `Conflict` if the scope has the skill.
        """
        return await offload(lambda: self._writer.fork(slug, scope))

    async def delete(self, slug: str, *, note: str = "") -> Version:
        """Delete a skill and return its last version, which `rollback` can restore."""
        return await offload(lambda: self._writer.delete(slug, note))

    async def rollback(self, slug: str, number: int, *, note: str = "") -> Skill:
        """Make the files of an earlier version current again, as a new version."""
        return await offload(lambda: self._writer.rollback(slug, number, note))

    async def import_path(
        self,
        path: Path,
        *,
        scope: Scope = "workspace",
        replace: bool = False,
        on_conflict: OnConflict = "refuse",
        slug: str = "",
        prefix: str = "",
        watch: ProgressCallback = ignore_progress,
    ) -> list[ImportResult]:
        """Import every skill at or below a path. Only a person can; an agent creates skills one by one.

        `on_conflict` says what to do with a skill whose slug another one has: report it as an error, skip it, import it under
        a free slug, or replace the other one (as does `replace`). `slug` is the new slug of the only skill at the path, and
        `prefix` a namespace for all slugs.
        """
        for text in (slug, prefix):
            if text:
                check_slug(text)
        writer = self._writer
        plan = ImportPlan(on_conflict="replace" if replace else on_conflict, slug=slug, prefix=prefix)
        return await _offload_cancellable(lambda step: writer.import_path(path, scope, plan, step=step), watch)

    @property
    def _writer(self) -> SkillWriter:
        from prowess.engine.skill_writer import SkillWriter

        return SkillWriter(self._context)

    def _read_part(self, slug: str, name: str, kind: Kind | None) -> tuple[Artifact, bytes]:
        store, skill = self._context.catalog.find(slug)
        candidates = [artifact for artifact in skill.artifacts if kind in (None, artifact.kind)]
        named = [artifact for artifact in candidates if name in _artifact_names(artifact)]
        found = min(named, key=lambda artifact: _artifact_names(artifact).index(name), default=None)
        if found is None:
            there = ", ".join(_artifact_names(artifact)[0] for artifact in candidates)
            raise NotFound(f"{skill.slug!r} has no {kind or 'artifact'} {name!r}.", hint=f"It has: {there or 'none'}.")
        if kind_info(found.kind).is_file and found.path:
            return found, store.read_file(skill.id, found.path)
        return found, found.content.encode()

    def _read_package(self, slug: str) -> tuple[Skill, Package]:
        store, skill = self._context.catalog.find(slug)
        package = store.get_package(skill.id)
        if package is None:
            raise NotFound(f"The files of {slug!r} are missing.", hint="Run `prowess doctor`.")
        return skill, package

    def _diff(self, slug: str, before: int | None, after: int | None) -> VersionDiff:
        store, versions = self._context.catalog.history(slug)
        name = versions[-1].slug
        if before is None and after is None:
            after = versions[-1].number
            before = versions[-2].number if len(versions) > 1 else None
            old = store.version_package(name, before) if before else Package(name=name, files=())
        else:
            old = store.version_package(name, before or versions[0].number)
        new = store.version_package(name, after) if after else self._read_package(slug)[1]
        return VersionDiff(slug=name, before=before, after=after, changes=tuple(diff_packages(old, new)))

    def _with_references(self, checked: CheckResult) -> CheckResult:
        """Add the problems of prompts and rubrics that the skill refers to."""
        skill = checked.report.reading.skill if checked.report else None
        if checked.report is None or skill is None or not {"json_generation", "review"} & set(skill.kinds):
            return checked
        from prowess.prompts.registry import add_reference_problems

        registry = self._context.resources.registry().without_other_skills()
        problems = add_reference_problems(skill, checked.problems, registry, self._context.actor.organization)
        return replace(checked, problems=problems, report=replace(checked.report, problems=problems))


async def _offload_cancellable(work: Callable[[ProgressCallback], T], watch: ProgressCallback) -> T:
    """Run work in a thread that stops at its next step when the caller is cancelled. What it has kept by then stays."""
    stop = threading.Event()

    def step(progress: Progress) -> None:
        if stop.is_set():
            raise Refused("Stopped.", hint="Changes made before the cancellation are kept.")
        watch(progress)

    # Shielded, because a thread cannot be cancelled: it has to stop by itself, and is waited for.
    running = asyncio.ensure_future(offload(work, step))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({running})
        with suppress(BaseException):  # the caller sees the cancellation, whatever the work raised
            running.result()
        raise


def _artifact_names(artifact: Artifact) -> tuple[str, ...]:
    """Return the names that an artifact can be found by, the most specific first."""
    if kind_info(artifact.kind).is_file and artifact.path:
        return (artifact.name, artifact.path)
    if artifact.variant is None:
        return (artifact.name,)
    return (f"{artifact.name}@{artifact.variant}", artifact.name)
