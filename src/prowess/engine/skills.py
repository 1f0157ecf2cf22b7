"""Read, check, export, write and delete skills. Every write passes the gate and leaves an audit row before and after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prowess.catalog.exporter import ExportResult, export_skill
from prowess.catalog.importer import (
    CheckResult,
    ImportResult,
    ProgressCallback,
    check_paths,
    ignore_progress,
    import_path,
)
from prowess.catalog.store import Fault, Store
from prowess.engine.parts import Frame
from prowess.errors import Conflict, NotFound, ProwessError, Refused
from prowess.policy.actor import Action, Actor
from prowess.policy.subject import Subject
from prowess.skill.edit import FileChange, diff_packages, rewrite_package
from prowess.skill.forms import read_package
from prowess.skill.kinds import Artifact, Kind, kind_info
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """What changed from one version of a skill to another; a `None` number is the skill as it is now."""

    slug: str
    before: int | None
    after: int | None
    changes: tuple[FileChange, ...]


class Keeping(Frame):
    """The part of the engine that reads skills and gives them out."""

    async def cards(self) -> list[SkillCard]:
        """Every skill in reach, by slug; the nearest of each slug, with what it hides."""
        return await self._blocking(self.catalog.cards)

    async def faults(self) -> list[Fault]:
        """What is there but cannot be served, and why."""
        return await self._blocking(self.catalog.faults)

    async def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """Cards and faults, of one look at everything."""
        return await self._blocking(self.catalog.look)

    async def reload(self) -> tuple[list[SkillCard], list[Fault]]:
        """Look at everything anew, for matching too."""
        self._changed()
        return await self.look()

    async def documents(self) -> list[SearchDocument]:
        """What matching reads of every skill that is served, the instructions included; each slug once."""
        return await self._blocking(lambda: list(self.catalog.documents()))

    async def skill(self, slug: str) -> Skill:
        """One skill by slug, or by `scope:slug` for one that is hidden."""
        return await self._blocking(self.catalog.get, slug)

    async def outline(self, slug: str) -> SkillOutline | None:
        """What is known of a skill without its texts, addressed as in `skill`; None, at no great cost, for an unknown one."""
        return await self._blocking(self.catalog.outline, slug)

    async def read_file(self, slug: str, path: str) -> bytes:
        """One file of a skill, by its exact path."""
        return await self._blocking(self._read_file, slug, path)

    def _read_file(self, slug: str, path: str) -> bytes:
        store, skill = self.catalog.find(slug)
        return store.read_file(skill.id, path)

    async def part(self, slug: str, name: str, *, kind: Kind | None = None) -> tuple[Artifact, bytes]:
        """One artifact with its content, by name or by `name@variant`; with `kind`, only one of that kind."""
        return await self._blocking(self._part, slug, name, kind)

    def _part(self, slug: str, name: str, kind: Kind | None) -> tuple[Artifact, bytes]:
        store, skill = self.catalog.find(slug)
        candidates = [artifact for artifact in skill.artifacts if kind in (None, artifact.kind)]
        by_name = [artifact for artifact in candidates if name in _artifact_names(artifact)]
        found = min(by_name, key=lambda artifact: _artifact_names(artifact).index(name), default=None)
        if found is None:
            there = ", ".join(_artifact_names(artifact)[0] for artifact in candidates)
            raise NotFound(f"{skill.slug!r} has no {kind or 'artifact'} {name!r}.", hint=f"It has: {there or 'none'}.")
        if kind_info(found.kind).is_file and found.path:
            return found, store.read_file(skill.id, found.path)
        return found, found.content.encode()

    async def check(
        self, *paths: Path, profile: ProfileName = "prowess", watch: ProgressCallback = ignore_progress
    ) -> list[CheckResult]:
        """Validate every skill at or below these paths; where one of several is missing, that is its verdict.

        Under the profile `prowess`, prompts and rubrics that a skill names are looked up in the registry.
        """

        def work(step: ProgressCallback) -> list[CheckResult]:
            found = list(check_paths(paths, profile, self._limits, step))
            return [self._looked_up(one) for one in found] if profile == "prowess" else found

        return await self._stoppable(work, watch)

    def _looked_up(self, checked: CheckResult) -> CheckResult:
        """The verdict with what the registry has to say about it."""
        skill = checked.report.reading.skill if checked.report else None
        if checked.report is None or skill is None or not {"json_generation", "review"} & set(skill.kinds):
            return checked
        from prowess.prompts.registry import add_reference_problems

        registry = self._parts.registry().without_other_skills()
        problems = add_reference_problems(skill, checked.problems, registry, self.actor.organization)
        return replace(checked, problems=problems, report=replace(checked.report, problems=problems))

    async def export(
        self,
        slug: str,
        folder: Path,
        *,
        form: str | None = None,
        profile: ProfileName | None = None,
        replace: bool = False,
    ) -> ExportResult:
        """Write a skill below a folder."""

        def work() -> ExportResult:
            skill, package = self._package(slug)
            return export_skill(
                skill, package, folder, form=form, profile=profile, replace=replace, limits=self._limits
            )

        return await self._blocking(work)

    def _package(self, slug: str) -> tuple[Skill, Package]:
        store, skill = self.catalog.find(slug)
        package = store.get_package(skill.id)
        if package is None:
            raise NotFound(f"The files of {slug!r} are gone.", hint="Run `prowess doctor`.")
        return skill, package

    async def history(self, slug: str) -> list[Version]:
        """The versions of a skill, oldest first; also of one that was deleted."""
        return await self._blocking(lambda: self.catalog.history(slug)[1])

    async def diff(self, slug: str, before: int | None = None, after: int | None = None) -> VersionDiff:
        """What changed between two versions; without numbers, what the last change did."""
        return await self._blocking(self._diff, slug, before, after)

    def _diff(self, slug: str, before: int | None, after: int | None) -> VersionDiff:
        store, versions = self.catalog.history(slug)
        name = versions[-1].slug
        if before is None and after is None:
            after = versions[-1].number
            before = versions[-2].number if len(versions) > 1 else None
            old = store.version_package(name, before) if before else Package(name=name, files=())
        else:
            old = store.version_package(name, before or versions[0].number)
        new = store.version_package(name, after) if after else self._package(slug)[1]
        return VersionDiff(slug=name, before=before, after=after, changes=tuple(diff_packages(old, new)))


def _artifact_names(artifact: Artifact) -> tuple[str, ...]:
    """What an artifact may be called by: its full name first, then what else is clear."""
    if kind_info(artifact.kind).is_file and artifact.path:
        return (artifact.name, artifact.path)
    if artifact.variant is None:
        return (artifact.name,)
    return (f"{artifact.name}@{artifact.variant}", artifact.name)


T = TypeVar("T")


class Writing(Frame):
    """The part of the engine by which agents and doors write skills."""

    async def create_skill(
        self, skill: Skill, *, scope: Scope = "workspace", note: str = "", actor: Actor | None = None
    ) -> Skill:
        """Keep a new skill made in memory; a slug that is taken is a `DuplicateSkill`."""

        def work() -> Skill:
            who, store = actor or self.actor, self._parts.writable(scope)
            subject = self._subject(store, skill, rewrite_package(skill, limits=self._limits))
            return self._written(who, "install", subject, lambda: store.create_skill(skill, actor=who.label, note=note))

        return await self._blocking(work)

    async def update_skill(self, skill: Skill, *, note: str = "", actor: Actor | None = None) -> Skill:
        """Change a skill that was read before; `Conflict` where it has changed since."""

        def work() -> Skill:
            from prowess.session.text import format_diff

            who = actor or self.actor
            store, kept = self.catalog.find(f"{skill.scope}:{skill.slug}")
            package = store.get_package(kept.id)
            if package is None or kept.digest != skill.digest:
                raise Conflict(f"The skill {skill.slug!r} was changed meanwhile.", hint="Read it again and repeat.")
            _check_not_frozen(store, skill.slug)
            rewritten = rewrite_package(skill, package, self._limits)
            subject, diff = self._subject(store, kept, rewritten), format_diff(package, rewritten)
            return self._written(
                who, "update", subject, lambda: store.update_skill(skill, actor=who.label, note=note), diff
            )

        return await self._blocking(work)

    async def delete(self, slug: str, *, note: str = "", actor: Actor | None = None) -> Version:
        """Remove a skill; the version that is given back can be rolled back to."""

        def work() -> Version:
            who = actor or self.actor
            store, skill = self.catalog.find(slug)
            _check_not_frozen(store, slug)

            def remove() -> Version:
                store.delete_skill(skill.id, expected=skill.digest, actor=who.label, note=note)
                return store.versions(skill.slug)[-1]

            return self._written(who, "delete", self._subject(store, skill, None), remove)

        return await self._blocking(work)

    async def rollback(self, slug: str, number: int, *, note: str = "", actor: Actor | None = None) -> Skill:
        """Make the files of an earlier version current again, as a new version."""

        def work() -> Skill:
            who = actor or self.actor
            store, versions = self.catalog.history(slug)
            name = versions[-1].slug
            package = store.version_package(name, number)
            skill = read_package(package).skill or Skill(slug=name, title=name, description="")
            return self._written(
                who,
                "update",
                self._subject(store, skill, package),
                lambda: store.rollback(name, number, actor=who.label, note=note),
            )

        return await self._blocking(work)

    async def import_path(
        self,
        path: Path,
        *,
        scope: Scope = "workspace",
        replace: bool = False,
        actor: Actor | None = None,
        watch: ProgressCallback = ignore_progress,
    ) -> list[ImportResult]:
        """Keep every skill at or below a path. A person does this; an agent makes skills one by one."""
        who = actor or self.actor

        def work(step: ProgressCallback) -> list[ImportResult]:
            store = self._parts.writable(scope)
            self._gate.begin(who, "install", path=str(path), scope=scope, replace=replace)
            imported: list[ImportResult] = []

            def end(outcome: str) -> None:
                kept = sum(one.error is None for one in imported)
                self._gate.end(who, "install", outcome, path=str(path), kept=kept)

            given = import_path(path, store, replace=replace, actor=who.label, limits=self._limits, watch=step)
            self._noted(lambda: imported.extend(given), end)
            return imported

        return await self._stoppable(work, watch)

    def _subject(self, store: Store, skill: Skill, package: Package | None) -> Subject:
        """What the gate is asked about: the bytes that are to be kept, or those that are to be removed."""
        from prowess.session.text import read_subject

        subject = read_subject(store, SkillOutline.of(skill))
        return changed(subject, digest=package.digest, manifest=package.manifest) if package else subject

    def _written(self, actor: Actor, action: Action, subject: Subject, write: Callable[[], T], diff: str = "") -> T:
        self._gate.check(actor, action, subject, diff=diff)
        return self._noted(write, lambda outcome: self._gate.note(actor, action, subject, outcome))

    def _noted(self, write: Callable[[], T], note: Callable[[str], None]) -> T:
        """Write, and note what came of it, also where it breaks off."""
        try:
            written = write()
        except BaseException as error:
            code = error.code if isinstance(error, ProwessError) else "error"
            with suppress(ProwessError):  # the first error is the one to tell
                note(f"failed: {code}")
            raise
        finally:
            self._changed()
        note("done")
        return written


def _check_not_frozen(store: Store, slug: str) -> None:
    """Nobody is asked about what cannot be done."""
    if store.frozen:
        raise Refused(
            f"The skill {slug!r} comes with an installed package and stays as it is.",
            hint="Export it, change the copy and import that: a nearer skill of the same name hides this one.",
        )
