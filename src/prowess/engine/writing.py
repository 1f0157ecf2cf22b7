"""Writing skills for an actor: through the gate, with an audit row before the change and one after it.

Skills lie in places of many kinds, so the change cannot share a transaction with the audit: the row before says what is
about to be done and the row after what came of it. A change without a row cannot be.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import TypeVar

from prowess.catalog.intake import Imported, Watch, ignore, import_path
from prowess.catalog.store import Store
from prowess.engine.frame import Frame
from prowess.errors import Conflict, ProwessError, Refused
from prowess.policy.actions import Action
from prowess.policy.actor import Actor
from prowess.policy.subject import Subject
from prowess.skill.edit import rewrite
from prowess.skill.forms import read_package
from prowess.skill.model import Scope, Skill, Version
from prowess.skill.outline import Outline
from prowess.skill.package import Package

T = TypeVar("T")


class Writing(Frame):
    """The part of the engine by which agents and doors write skills."""

    async def create_skill(
        self, skill: Skill, *, scope: Scope = "workspace", note: str = "", actor: Actor | None = None
    ) -> Skill:
        """Keep a new skill made in memory; a slug that is taken is a `DuplicateSkill`."""

        def work() -> Skill:
            who, store = actor or self.actor, self._parts.writable(scope)
            subject = self._subject(store, skill, rewrite(skill, limits=self._limits))
            return self._written(who, "install", subject, lambda: store.create_skill(skill, actor=who.label, note=note))

        return await self._blocking(work)

    async def update_skill(self, skill: Skill, *, note: str = "", actor: Actor | None = None) -> Skill:
        """Change a skill that was read before; `Conflict` where it has changed since."""

        def work() -> Skill:
            from prowess.session.changes import shown_diff

            who = actor or self.actor
            store, kept = self.catalog.find(f"{skill.scope}:{skill.slug}")
            package = store.get_package(kept.id)
            if package is None or kept.digest != skill.digest:
                raise Conflict(f"The skill {skill.slug!r} was changed meanwhile.", hint="Read it again and repeat.")
            _refuse_frozen(store, skill.slug)
            rewritten = rewrite(skill, package, self._limits)
            subject, diff = self._subject(store, kept, rewritten), shown_diff(package, rewritten)
            return self._written(
                who, "update", subject, lambda: store.update_skill(skill, actor=who.label, note=note), diff
            )

        return await self._blocking(work)

    async def delete(self, slug: str, *, note: str = "", actor: Actor | None = None) -> Version:
        """Remove a skill; the version that is given back can be rolled back to."""

        def work() -> Version:
            who = actor or self.actor
            store, skill = self.catalog.find(slug)
            _refuse_frozen(store, slug)

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
        watch: Watch = ignore,
    ) -> list[Imported]:
        """Keep every skill at or below a path. A person does this; an agent makes skills one by one."""
        who = actor or self.actor

        def work(step: Watch) -> list[Imported]:
            store = self._parts.writable(scope)
            self._gate.begin(who, "install", path=str(path), scope=scope, replace=replace)
            imported: list[Imported] = []

            def end(outcome: str) -> None:
                kept = sum(one.error is None for one in imported)
                self._gate.end(who, "install", outcome, path=str(path), kept=kept)

            given = import_path(path, store, replace=replace, actor=who.label, limits=self._limits, watch=step)
            self._noted(lambda: imported.extend(given), end)
            return imported

        return await self._stoppable(work, watch)

    def _subject(self, store: Store, skill: Skill, package: Package | None) -> Subject:
        """What the gate is asked about: the bytes that are to be kept, or those that are to be removed."""
        from prowess.session.text import subject_of

        subject = subject_of(store, Outline.of(skill))
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


def _refuse_frozen(store: Store, slug: str) -> None:
    """Nobody is asked about what cannot be done."""
    if store.frozen:
        raise Refused(
            f"The skill {slug!r} comes with an installed package and stays as it is.",
            hint="Export it, change the copy and import that: a nearer skill of the same name hides this one.",
        )
