"""The engine: everything that a door can ask for, over one catalog.

Stores are plain blocking code; `_blocking` is the one place where their work is handed to a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from prowess.catalog.catalog import Catalog
from prowess.catalog.intake import Checked, Imported, Progress, Watch, check_paths, ignore, import_path
from prowess.catalog.outlet import Exported, export_skill
from prowess.catalog.store import Fault, Store
from prowess.errors import NotFound, Refused
from prowess.skill.diff import FileChange, diff_packages
from prowess.skill.kinds import FILE_KINDS, Artifact, Kind
from prowess.skill.limits import Limits
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName

if TYPE_CHECKING:
    from prowess.catalog.document import Document
    from prowess.match.matcher import Matcher
    from prowess.match.recommendation import Recommendation

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What changed from one version of a skill to another; a `None` number is the skill as it is now."""

    slug: str
    before: int | None
    after: int | None
    changes: tuple[FileChange, ...]


class Engine:
    """Keeps, finds and gives out skills. Opened by `prowess.Prowess.open`; close it, or use `async with`."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        limits: Limits,
        writable: Callable[[Scope], Store],
        matcher: Callable[[], Matcher],
        close: Callable[[], None],
    ) -> None:
        self.catalog = catalog
        self._open_matcher = matcher
        self._opened_matcher: Matcher | None = None
        self._opening = threading.Lock()
        self._limits = limits
        self._writable = writable
        self._close = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of databases and files."""
        await self._blocking(self._close)

    async def _blocking(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(work, *args, **kwargs)

    async def _stoppable(self, work: Callable[[Watch], T], watch: Watch) -> T:
        """Work that can be cancelled: it ends at its next step, and what it has kept by then stays."""
        stop = threading.Event()

        def step(progress: Progress) -> None:
            if stop.is_set():
                raise Refused("Stopped.", hint="What was kept by then stays.")
            watch(progress)

        try:
            return await self._blocking(work, step)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def cards(self) -> list[SkillCard]:
        """Every skill in reach, by slug; the nearest of each slug, with what it hides."""
        return await self._blocking(self.catalog.cards)

    async def faults(self) -> list[Fault]:
        """What is there but cannot be served, and why."""
        return await self._blocking(self.catalog.faults)

    async def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """Cards and faults, of one look at everything."""
        return await self._blocking(self.catalog.look)

    async def documents(self) -> list[Document]:
        """What matching reads of every skill that is served, the instructions included; each slug once."""
        return await self._blocking(lambda: list(self.catalog.documents()))

    async def match(
        self, message: str, *, limit: int = 5, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The skills worth offering for a message, best first, with reasons; none where none fits. No model is asked.

        `context` is what was said before: it counts less than the message. The skills have all of `tags`.
        """
        return await self._blocking(lambda: self._matcher().match(message, limit=limit, tags=tags, context=context))

    async def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """The whole ranking for a message, with the decision "no" on what does not fit."""
        return await self._blocking(lambda: self._matcher().rank(message, limit=limit, tags=tags, context=context))

    async def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """What has anything of the query, best first; without one, all skills with the tags, by slug."""
        return await self._blocking(lambda: self._matcher().search(query, limit=limit, tags=tags))

    def _matcher(self) -> Matcher:
        with self._opening:
            if self._opened_matcher is None:
                self._opened_matcher = self._open_matcher()
            return self._opened_matcher

    def _changed(self) -> None:
        """Let the next match see what was just written."""
        if self._opened_matcher is not None:
            self._opened_matcher.look_again()

    async def skill(self, slug: str) -> Skill:
        """One skill by slug, or by `scope:slug` for one that is hidden."""
        return await self._blocking(self.catalog.get, slug)

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
        """Validate every skill at or below these paths; where one of several is missing, that is its verdict."""
        return await self._stoppable(lambda step: list(check_paths(paths, profile, self._limits, step)), watch)

    async def import_path(
        self, path: Path, *, scope: Scope = "workspace", replace: bool = False, actor: str = "", watch: Watch = ignore
    ) -> list[Imported]:
        """Keep every skill at or below a path."""

        def work(step: Watch) -> list[Imported]:
            store = self._writable(scope)
            try:
                return list(import_path(path, store, replace=replace, actor=actor, limits=self._limits, watch=step))
            finally:
                self._changed()

        return await self._stoppable(work, watch)

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

    async def delete(self, slug: str, *, actor: str = "", note: str = "") -> Version:
        """Remove a skill; the version that is given back can be rolled back to."""

        def work() -> Version:
            store, skill = self.catalog.find(slug)
            store.delete_skill(skill.id, expected=skill.digest, actor=actor, note=note)
            self._changed()
            return store.versions(skill.slug)[-1]

        return await self._blocking(work)

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

    async def rollback(self, slug: str, number: int, *, actor: str = "", note: str = "") -> Skill:
        """Make the files of an earlier version current again, as a new version."""

        def work() -> Skill:
            store, versions = self.catalog.history(slug)
            skill = store.rollback(versions[-1].slug, number, actor=actor, note=note)
            self._changed()
            return skill

        return await self._blocking(work)


def _names(artifact: Artifact) -> tuple[str, ...]:
    """What an artifact may be called by: its full name first, then what else is clear."""
    if artifact.kind in FILE_KINDS and artifact.path:
        return (artifact.name, artifact.path)
    if artifact.variant is None:
        return (artifact.name,)
    return (f"{artifact.name}@{artifact.variant}", artifact.name)
