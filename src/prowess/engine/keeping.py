"""What is kept: reading, checking, giving out, versions. Nothing here changes a skill."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.intake import Checked, Watch, check_paths, ignore
from prowess.catalog.outlet import Exported, export_skill
from prowess.catalog.store import Fault
from prowess.engine.frame import Frame
from prowess.errors import NotFound
from prowess.skill.diff import FileChange, diff_packages
from prowess.skill.kinds import FILE_KINDS, Artifact, Kind
from prowess.skill.model import Skill, SkillCard, Version
from prowess.skill.outline import Outline
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName

if TYPE_CHECKING:
    from prowess.catalog.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
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

    async def documents(self) -> list[Document]:
        """What matching reads of every skill that is served, the instructions included; each slug once."""
        return await self._blocking(lambda: list(self.catalog.documents()))

    async def skill(self, slug: str) -> Skill:
        """One skill by slug, or by `scope:slug` for one that is hidden."""
        return await self._blocking(self.catalog.get, slug)

    async def outline(self, slug: str) -> Outline | None:
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
        by_name = [artifact for artifact in candidates if name in _names(artifact)]
        found = min(by_name, key=lambda artifact: _names(artifact).index(name), default=None)
        if found is None:
            there = ", ".join(_names(artifact)[0] for artifact in candidates)
            raise NotFound(f"{skill.slug!r} has no {kind or 'artifact'} {name!r}.", hint=f"It has: {there or 'none'}.")
        if found.kind in FILE_KINDS and found.path:
            return found, store.read_file(skill.id, found.path)
        return found, found.content.encode()

    async def check(self, *paths: Path, profile: ProfileName = "prowess", watch: Watch = ignore) -> list[Checked]:
        """Validate every skill at or below these paths; where one of several is missing, that is its verdict.

        Under the profile `prowess`, prompts and rubrics that a skill names are looked up in the registry.
        """

        def work(step: Watch) -> list[Checked]:
            found = list(check_paths(paths, profile, self._limits, step))
            return [self._looked_up(one) for one in found] if profile == "prowess" else found

        return await self._stoppable(work, watch)

    def _looked_up(self, checked: Checked) -> Checked:
        """The verdict with what the registry has to say about it."""
        skill = checked.report.reading.skill if checked.report else None
        if checked.report is None or skill is None or not {"json_generation", "review"} & set(skill.kinds):
            return checked
        from prowess.templates.registry_references import with_references

        registry = self._parts.registry().without_other_skills()
        problems = with_references(skill, checked.problems, registry, self.actor.organization)
        return replace(checked, problems=problems, report=replace(checked.report, problems=problems))

    async def export(
        self,
        slug: str,
        folder: Path,
        *,
        form: str | None = None,
        profile: ProfileName | None = None,
        replace: bool = False,
    ) -> Exported:
        """Write a skill below a folder."""

        def work() -> Exported:
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

    async def diff(self, slug: str, before: int | None = None, after: int | None = None) -> Difference:
        """What changed between two versions; without numbers, what the last change did."""
        return await self._blocking(self._diff, slug, before, after)

    def _diff(self, slug: str, before: int | None, after: int | None) -> Difference:
        store, versions = self.catalog.history(slug)
        name = versions[-1].slug
        if before is None and after is None:
            after = versions[-1].number
            before = versions[-2].number if len(versions) > 1 else None
            old = store.version_package(name, before) if before else Package(name=name, files=())
        else:
            old = store.version_package(name, before or versions[0].number)
        new = store.version_package(name, after) if after else self._package(slug)[1]
        return Difference(slug=name, before=before, after=after, changes=tuple(diff_packages(old, new)))


def _names(artifact: Artifact) -> tuple[str, ...]:
    """What an artifact may be called by: its full name first, then what else is clear."""
    if artifact.kind in FILE_KINDS and artifact.path:
        return (artifact.name, artifact.path)
    if artifact.variant is None:
        return (artifact.name,)
    return (f"{artifact.name}@{artifact.variant}", artifact.name)
