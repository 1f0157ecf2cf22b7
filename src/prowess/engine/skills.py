"""Skills: read, check, search, export, write and delete them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prowess.catalog.exporter import ExportResult, export_skill
from prowess.catalog.importer import (
    CheckResult,
    ImportResult,
    Progress,
    ProgressCallback,
    check_paths,
    ignore_progress,
    import_path,
)
from prowess.catalog.store import Fault, Store
from prowess.engine.context import Context, session_key
from prowess.errors import Conflict, NotFound, ProwessError, Refused
from prowess.skill.edit import FileChange, diff_packages, rewrite_package
from prowess.skill.kinds import Artifact, Kind, kind_info
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.engine.callables import Inventory
    from prowess.feed.usage import SkillUsage
    from prowess.match.recommendation import Recommendation
    from prowess.policy.actor import Action
    from prowess.policy.subject import Subject
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
    """The skills in reach. A skill is named by its slug, or by `scope:slug` if a nearer scope hides it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # Read

    async def cards(self) -> list[SkillCard]:
        """Return the card of every skill in reach, by slug; of each slug the nearest, with what it hides."""
        return await offload(self._context.catalog.cards)

    async def faults(self) -> list[Fault]:
        """Return what is there but cannot be served, and why."""
        return await offload(self._context.catalog.faults)

    async def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """Return cards and faults, from one look at everything."""
        return await offload(self._context.catalog.look)

    async def reload(self) -> tuple[list[SkillCard], list[Fault]]:
        """Look at everything again, for matching too."""
        self._context.resources.mark_changed()
        return await self.look()

    async def documents(self) -> list[SearchDocument]:
        """Return what matching reads of every skill, including its instructions; each slug once."""
        return await offload(lambda: list(self._context.catalog.documents()))

    async def get(self, slug: str) -> Skill:
        """Return a skill, or raise `NotFound`."""
        return await offload(self._context.catalog.get, slug)

    async def outline(self, slug: str) -> SkillOutline | None:
        """Return what is known of a skill without its texts, or None. This is cheap."""
        return await offload(self._context.catalog.outline, slug)

    async def read_file(self, slug: str, path: str) -> bytes:
        """Return one file of a skill by its exact path. This does not pass the gate; `resource` does."""

        def read() -> bytes:
            store, skill = self._context.catalog.find(slug)
            return store.read_file(skill.id, path)

        return await offload(read)

    async def resource(self, slug: str, path: str, *, session: Session | str = "") -> bytes:
        """Return one file of a skill by its exact path, through the gate, and record it as a load."""
        from prowess.engine.sessions import load_file

        return await load_file(self._context, slug, path, session=session_key(session))

    async def part(self, slug: str, name: str, *, kind: Kind | None = None) -> tuple[Artifact, bytes]:
        """Return one artifact with its content, by name or by `name@variant`; with `kind`, only one of that kind."""
        return await offload(self._read_part, slug, name, kind)

    async def history(self, slug: str) -> list[Version]:
        """Return the versions of a skill, oldest first, even if it was deleted."""
        return await offload(lambda: self._context.catalog.history(slug)[1])

    async def diff(self, slug: str, before: int | None = None, after: int | None = None) -> VersionDiff:
        """Return what changed between two versions; without numbers, what the last change did."""
        return await offload(self._diff, slug, before, after)

    # Search

    async def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """Return the skills that contain anything of the query, best first; without one, all with the tags by slug."""
        return await offload(lambda: self._context.resources.matcher.search(query, limit=limit, tags=tags))

    async def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the whole ranking for a message, including skills with the decision "no"."""
        resources = self._context.resources
        return await offload(lambda: resources.matcher.rank(message, limit=limit, tags=tags, context=context))

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

    async def inventory(self) -> Inventory:
        """Return what agents can work with, callable skills above all. Only changes are read again."""
        return await offload(self._context.resources.callables.look)

    @property
    def last_inventory(self) -> Inventory:
        """The result of the last `inventory()`; empty before the first. Reads nothing."""
        return self._context.resources.callables.seen

    # Check and export

    async def check(
        self, *paths: Path, profile: ProfileName = "prowess", watch: ProgressCallback = ignore_progress
    ) -> list[CheckResult]:
        """Validate every skill at or below these paths. A missing path is a result of its own if there are several.

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
        form: str | None = None,
        profile: ProfileName | None = None,
        replace: bool = False,
    ) -> ExportResult:
        """Write a skill below a folder."""

        def export() -> ExportResult:
            skill, package = self._read_package(slug)
            limits = self._context.resources.limits
            return export_skill(skill, package, folder, form=form, profile=profile, replace=replace, limits=limits)

        return await offload(export)

    # Write. Every write passes the gate and leaves an audit row before and after it. Stores are of many kinds, so the
    # change cannot share a transaction with the audit log: the first row says what is about to happen, the second how it
    # ended. There is never a change without a row.

    async def create(self, skill: Skill, *, scope: Scope = "workspace", note: str = "") -> Skill:
        """Keep a new skill. Raise `DuplicateSkill` if the slug is taken."""

        def create() -> Skill:
            actor, store = self._context.actor, self._context.resources.writable(scope)
            package = rewrite_package(skill, limits=self._context.resources.limits)
            subject = _read_subject(store, skill, package)
            return self._write("install", subject, lambda: store.create_skill(skill, actor=actor.label, note=note))

        return await offload(create)

    async def update(self, skill: Skill, *, note: str = "") -> Skill:
        """Change a skill that was read before. Raise `Conflict` if it has changed since."""

        def update() -> Skill:
            from prowess.session.text import format_diff

            actor = self._context.actor
            store, kept = self._context.catalog.find(f"{skill.scope}:{skill.slug}")
            package = store.get_package(kept.id)
            if package is None or kept.digest != skill.digest:
                raise Conflict(f"The skill {skill.slug!r} was changed meanwhile.", hint="Read it again and repeat.")
            _check_not_frozen(store, skill.slug)
            rewritten = rewrite_package(skill, package, self._context.resources.limits)
            return self._write(
                "update",
                _read_subject(store, kept, rewritten),
                lambda: store.update_skill(skill, actor=actor.label, note=note),
                diff=format_diff(package, rewritten),
            )

        return await offload(update)

    async def delete(self, slug: str, *, note: str = "") -> Version:
        """Delete a skill and return its last version, which `rollback` can restore."""

        def delete() -> Version:
            store, skill = self._context.catalog.find(slug)
            _check_not_frozen(store, slug)

            def remove() -> Version:
                store.delete_skill(skill.id, expected=skill.digest, actor=self._context.actor.label, note=note)
                return store.versions(skill.slug)[-1]

            return self._write("delete", _read_subject(store, skill, None), remove)

        return await offload(delete)

    async def rollback(self, slug: str, number: int, *, note: str = "") -> Skill:
        """Make the files of an earlier version current again, as a new version."""

        def rollback() -> Skill:
            from prowess.skill.forms.conversion import read_package

            store, versions = self._context.catalog.history(slug)
            name = versions[-1].slug
            package = store.version_package(name, number)
            skill = read_package(package).skill or Skill(slug=name, title=name, description="")
            subject, label = _read_subject(store, skill, package), self._context.actor.label
            return self._write("update", subject, lambda: store.rollback(name, number, actor=label, note=note))

        return await offload(rollback)

    async def import_path(
        self,
        path: Path,
        *,
        scope: Scope = "workspace",
        replace: bool = False,
        watch: ProgressCallback = ignore_progress,
    ) -> list[ImportResult]:
        """Keep every skill at or below a path. Only a person can; an agent creates skills one by one."""
        actor, resources = self._context.actor, self._context.resources

        def work(step: ProgressCallback) -> list[ImportResult]:
            store = resources.writable(scope)
            resources.gate.begin(actor, "install", path=str(path), scope=scope, replace=replace)
            imported: list[ImportResult] = []

            def end(outcome: str) -> None:
                kept = sum(result.error is None for result in imported)
                resources.gate.end(actor, "install", outcome, path=str(path), kept=kept)

            results = import_path(path, store, replace=replace, actor=actor.label, limits=resources.limits, watch=step)
            self._audited(lambda: imported.extend(results), end)
            return imported

        return await _offload_cancellable(work, watch)

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
            raise NotFound(f"The files of {slug!r} are gone.", hint="Run `prowess doctor`.")
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

    def _write(self, action: Action, subject: Subject, write: Callable[[], T], *, diff: str = "") -> T:
        gate, actor = self._context.resources.gate, self._context.actor
        gate.check(actor, action, subject, diff=diff)
        return self._audited(write, lambda outcome: gate.note(actor, action, subject, outcome))

    def _audited(self, write: Callable[[], T], note: Callable[[str], None]) -> T:
        """Write, and note the outcome, also if the write fails or is interrupted."""
        try:
            written = write()
        except BaseException as error:
            code = error.code if isinstance(error, ProwessError) else "error"
            with suppress(ProwessError):  # raise the first error, not one of the note
                note(f"failed: {code}")
            raise
        finally:
            self._context.resources.mark_changed()
        note("done")
        return written


async def _offload_cancellable(work: Callable[[ProgressCallback], T], watch: ProgressCallback) -> T:
    """Run work in a thread that stops at its next step when the caller is cancelled. What it has kept by then stays."""
    stop = threading.Event()

    def step(progress: Progress) -> None:
        if stop.is_set():
            raise Refused("Stopped.", hint="What was kept by then stays.")
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


def _read_subject(store: Store, skill: Skill, package: Package | None) -> Subject:
    """Return what the gate decides about: the bytes to be kept, or without a package those to be removed."""
    from prowess.session.text import read_subject
    from prowess.skill.outline import SkillOutline

    subject = read_subject(store, SkillOutline.of(skill))
    return replace(subject, digest=package.digest, manifest=package.manifest) if package else subject


def _artifact_names(artifact: Artifact) -> tuple[str, ...]:
    """Return the names that an artifact can be found by, the most specific first."""
    if kind_info(artifact.kind).is_file and artifact.path:
        return (artifact.name, artifact.path)
    if artifact.variant is None:
        return (artifact.name,)
    return (f"{artifact.name}@{artifact.variant}", artifact.name)


def _check_not_frozen(store: Store, slug: str) -> None:
    """Raise `Refused` for a skill that cannot be changed, before a person is asked about it."""
    if store.frozen:
        raise Refused(
            f"The skill {slug!r} comes with an installed package and stays as it is.",
            hint="Export it, change the copy and import that: a nearer skill of the same name hides this one.",
        )
