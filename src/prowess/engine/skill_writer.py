"""Write skills through the gate, and accept what persons write.

Every write passes the gate and leaves an audit row before and after it: the first says what is about to happen, the
second how it ended. Stores are of many kinds, so the change can share a transaction with the second row only if it is in
the same database. There is never a change without a row. What a person writes or imports is accepted together with the
second row: a process that ends in between leaves a skill that nobody has accepted, never the other way round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from prowess.catalog.catalog import Catalog
from prowess.catalog.collisions import find_stored, folders_of
from prowess.catalog.database_writes import SaveOutcome, SaveRequest, TransactionalStore
from prowess.catalog.importer import ImportPlan, ImportResult, Progress, ProgressCallback, import_path
from prowess.catalog.store import Store
from prowess.catalog.store_rules import accepted_skill
from prowess.engine.context import Context, check_type
from prowess.engine.visibility import is_off
from prowess.errors import Conflict, DuplicateSkill, Invalid, ProwessError, Refused, Unavailable
from prowess.policy.acceptance import accept_imported, accept_written
from prowess.policy.actor import Action
from prowess.policy.subject import Subject
from prowess.session.text import format_diff, make_subject, read_standing, read_subject
from prowess.skill.draft import SkillDraft, change_package, make_package
from prowess.skill.edit import rewrite_package
from prowess.skill.forms.conversion import read_package
from prowess.skill.forms.form import Reading
from prowess.skill.model import SCOPES, Provenance, Scope, Skill, Version
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.threads import check_cancelled, is_cancelled

if TYPE_CHECKING:
    import sqlalchemy as sa

T = TypeVar("T")

MANY_SKILLS = 32
"""If more are imported, they are indexed at once; fewer are left to the next match."""
PREPARE_SECONDS = 2.0
"""How long an import computes vectors before it leaves them to the background."""

_log = logging.getLogger(__name__)


class SkillWriter:
    """Writes skills for one actor. Blocking."""

    def __init__(self, context: Context, *, shows: bool = False) -> None:
        """With `shows`, a document that was saved is read next, so it stays in memory."""
        self._context = context
        self._shows = shows

    def create(self, skill: Skill, scope: Scope | None, note: str) -> Skill:
        """Keep a new skill, by default in the nearest scope that there is."""
        check_type(skill, Skill, "Use `skills.create_document` with a SkillDraft, or `prowess.read_package`.")
        scope = scope or self._default_scope()
        actor, store = self._context.actor, self._context.resources.writable(scope)
        package = rewrite_package(skill, limits=self._context.resources.limits)
        new = skill.kept_as(id="", scope=scope, location=store.location)
        subject = _read_subject(self._context.catalog, store, new, package)
        return self._keep("install", subject, lambda: store.create_skill(skill, actor=actor.label, note=note))

    def create_document(self, draft: SkillDraft, scope: Scope, note: str, *, enabled: bool = True) -> Skill:
        """Keep a new skill of one document, switched on or off."""
        resources = self._context.resources
        store = resources.writable(scope)
        package = make_package(draft, resources.limits)
        reading = accept(package, resources.limits)
        skill, _ = accepted_skill(reading)
        # Saving the same files twice is no error for an import. Here it is: the second caller did not create anything.
        if store.get_digest(skill.slug) is not None:
            raise self._taken(skill.slug, scope)
        new = skill.kept_as(id="", scope=scope, location=store.location)
        subject = _read_subject(self._context.catalog, store, new, package)
        try:
            with nullcontext() if enabled else self._switched_off(skill.slug):
                return self._save("install", subject, store, reading, note, provenance=draft.provenance)
        except DuplicateSkill as error:
            raise self._taken(skill.slug, scope) from error

    @contextmanager
    def _switched_off(self, slug: str) -> Generator[None]:
        """Switch a slug off before its skill is created, so that nobody can use it in between; undo that if it fails."""
        policies, actor = self._context.resources.policies, self._context.actor
        was_off = is_off(slug, policies.read(actor).disabled_skills)
        policies.switch(actor, [slug], on=False)
        try:
            yield
        except BaseException:
            if not was_off:
                with suppress(ProwessError):  # raise the first error
                    policies.switch(actor, [slug], on=True)
            raise

    def update_document(self, slug: str, draft: SkillDraft, expected: str, note: str) -> Skill:
        """Change the document of a skill, or single fields."""
        with self._context.resources.snapshot():  # a transaction for each read would take a tenth of the time
            store, skill = self._context.catalog.find(slug)
            write = self.plan_update(store, skill, draft, expected)
        return write(note) if write else skill

    def plan_update(
        self, store: Store, skill: Skill, draft: SkillDraft, expected: str
    ) -> Callable[[str], Skill] | None:
        """Return what changes the document of a skill, or single fields, with a note; None if its files stay the same.

        That raises `Conflict` if the skill changed in between.
        """
        package = _read_expected(store, skill, expected)
        limits = self._context.resources.limits
        changed = change_package(skill, package, draft, limits)
        if changed.digest == skill.digest:
            return None
        reading = accept(changed, limits)
        subject = _read_subject(self._context.catalog, store, skill, changed, replaces=skill.digest)
        diff = partial(format_diff, package, changed)
        return lambda note: self._save(
            "update", subject, store, reading, note, expected=skill.digest, diff=diff, provenance=draft.provenance
        )

    def save_package(self, package: Package, scope: Scope | None, note: str, *, expected: str = "") -> Skill:
        """Keep the files of a draft: a new skill, or with `expected` a change of the one that has this digest.

        A person accepts exactly these files by saving them. An agent has to ask a person, who sees all of them.
        """
        resources = self._context.resources
        reading = accept(package, resources.limits)
        skill, _ = accepted_skill(reading)
        if expected:
            store, stored = self._context.catalog.find(f"{scope}:{skill.slug}" if scope else skill.slug)
            before = _read_expected(store, stored, expected)
        else:
            scope = scope or self._default_scope()
            store, before = resources.writable(scope), Package(name=package.name, files=())
            if store.get_digest(skill.slug) is not None:
                raise self._taken(skill.slug, scope)
            stored = skill.kept_as(id="", scope=scope, location=store.location)
        subject = _read_subject(self._context.catalog, store, stored, package, replaces=expected)
        action, diff = "update" if expected else "install", partial(format_diff, before, package)
        subject = replace(subject, drafted=True)
        return self._save(action, subject, store, reading, note, expected=expected or None, diff=diff)

    def _default_scope(self) -> Scope:
        """Return the workspace, or on a server the organization. What an agent writes there is for its user alone."""
        try:
            self._context.resources.writable("workspace")
        except Invalid:
            actor = self._context.actor
            return "user" if actor.user and not actor.is_person else "org"
        return "workspace"

    def _taken(self, slug: str, scope: Scope) -> DuplicateSkill:
        actor = self._context.actor
        owner = f"the organization {actor.organization!r}" if actor.organization else f"the {scope} scope"
        if scope == "user" and actor.user:
            owner = f"the skills of the user {actor.user!r} in {owner}"
        return DuplicateSkill(
            f"The slug {slug!r} is already taken in {owner}.",
            hint="Choose another slug, for example with a namespace such as team.purpose, or change that skill.",
        )

    def update(self, skill: Skill, note: str) -> Skill:
        """Change a skill that was read before."""
        actor = self._context.actor
        store, stored = self._context.catalog.find(f"{skill.scope}:{skill.slug}")
        package = store.get_package(stored.id)
        if package is None or stored.digest != skill.digest:
            raise _changed(skill.slug)
        check_not_frozen(store, skill.slug)
        rewritten = rewrite_package(skill, package, self._context.resources.limits)
        return self._keep(
            "update",
            _read_subject(self._context.catalog, store, stored, rewritten, replaces=stored.digest),
            lambda: store.update_skill(skill, actor=actor.label, note=note),
            diff=lambda: format_diff(package, rewritten),
        )

    def fork(self, slug: str, scope: Scope) -> Skill:
        """Copy a skill of a farther scope byte for byte, so that the copy overrides it, and return the copy."""
        actor, store = self._context.actor, self._context.resources.writable(scope)
        source, skill = self._context.catalog.find(slug)
        if source.scope == scope:
            raise Conflict(
                f"The skill {skill.slug!r} is in the {scope} scope already.",
                hint=f"Change it there, or fork what it hides: `prowess show {skill.slug}` names it.",
            )
        if SCOPES.index(source.scope) < SCOPES.index(scope):
            raise Conflict(
                f"A copy in the {scope} scope would be hidden by the skill itself, in the {source.scope} scope.",
                hint="Fork a skill into a nearer scope.",
            )
        package = source.get_package(skill.id)
        if package is None:
            raise Conflict(f"The skill {skill.slug!r} is gone.", hint="Run `prowess doctor`.")
        copy = skill.kept_as(id="", scope=scope, location=store.location)
        subject = _read_subject(self._context.catalog, store, copy, package)
        note = f"Fork of {source.scope}:{skill.slug} (sha256:{skill.digest[:12]})"
        return self._keep("install", subject, lambda: store.save(package, actor=actor.label, note=note))

    def delete(self, slug: str, note: str, *, expected: str = "", stored: bool = False) -> Version:
        """Delete a skill, or with `stored` the copy of it that a database has, and return its last version."""
        catalog = self._context.catalog
        store, skill = find_stored(catalog.stores(), slug) if stored else catalog.find(slug)
        check_not_frozen(store, slug)
        if expected and skill.digest != expected:
            raise _changed(skill.slug)

        def remove() -> Version:
            store.delete_skill(skill.id, expected=skill.digest, actor=self._context.actor.label, note=note)
            return store.versions(skill.slug)[-1]

        return self._write("delete", _read_subject(self._context.catalog, store, skill, None), remove)

    def rollback(self, slug: str, number: int, note: str, *, expected: Collection[str] = ()) -> Skill:
        """Make the files of an earlier version current again. With `expected`, the skill must have one of these digests.

        A person who does that has not seen these files now, so they are trusted only as far as they were accepted before:
        a row of an old version could have been changed since.
        """
        store, versions = self._context.catalog.history(slug)
        name = versions[-1].slug
        package = store.version_package(name, number)
        skill = read_package(package).skill or Skill(slug=name, title=name, description="")
        now = store.get_skill_by_name(name)
        if expected and (now is None or now.digest not in expected):
            raise _changed(name)
        before = store.get_package_by_name(name) if now else None
        label, catalog = self._context.actor.label, self._context.catalog
        subject = _read_subject(catalog, store, now or skill, package, replaces=now.digest if now else "")
        return self._keep(
            "update",
            subject,
            # A change since this decision is a `Conflict`.
            lambda: store.rollback(name, number, expected=now.digest if now else "", actor=label, note=note),
            diff=(lambda: format_diff(before, package)) if before else None,
            accept=not self._context.actor.is_person,
        )

    def import_path(
        self, path: Path, scope: Scope, plan: ImportPlan, *, watch: ProgressCallback, origin: str = ""
    ) -> list[ImportResult]:
        """Import every skill at or below a path. `origin` is recorded as the place that they came from (default: the path)."""
        actor, resources = self._context.actor, self._context.resources
        store, place = resources.writable(scope), origin or str(path)
        resources.gate.begin(actor, "install", path=place, scope=scope, replace=plan.on_conflict == "replace")
        imported: list[ImportResult] = []

        def end(outcome: str) -> None:
            successes = [result for result in imported if result.error is None]
            accepted = accept_imported(actor, successes, scope, origin)
            resources.gate.end(actor, "install", outcome, accepted=accepted, path=place, kept=len(successes))

        folders = folders_of(self._context.catalog.stores(), scope)
        limits = resources.limits
        results = import_path(path, store, plan, actor=actor.label, limits=limits, watch=watch, folders=folders)
        self._audited(lambda: imported.extend(results), end)
        for result in imported:
            if result.digest and result.changed:
                self._context.catalog.scans.remember(result.digest, [finding.as_json() for finding in result.findings])
        watch(done := Progress(done=len(imported), total=len(imported), saved=sum(one.changed for one in imported)))
        if done.saved > MANY_SKILLS:
            # Index what was imported, and compute vectors for a while, so that the first match is fast and complete.
            resources.release()
            try:
                resources.matcher.prepare(PREPARE_SECONDS, step=check_cancelled)
            # The skills are stored, and matching tries again.
            except Unavailable as error:
                _log.warning("Failed to compute vectors for matching: %s", error.message)
        return imported

    def _save(
        self,
        action: Action,
        subject: Subject,
        store: Store,
        reading: Reading,
        note: str,
        *,
        expected: str | None = None,
        diff: Callable[[], str] | None = None,
        provenance: Provenance | None = None,
    ) -> Skill:
        """Save accepted files. In the database of the audit log, they share a transaction with the second row."""
        gate, actor, records = self._context.resources.gate, self._context.actor, self._context.resources.records()
        if not (isinstance(store, TransactionalStore) and store.is_in(records)):
            save = partial(store.save, reading, expected=expected, actor=actor.label, note=note)
            return self._keep(action, subject, save, diff=diff)
        admission = gate.check(actor, action, subject, diff=diff)
        # What an agent says about where it has them from does not count.
        stated = provenance if actor.is_person else None
        request = SaveRequest(reading=reading, expected=expected, actor=actor.label, note=note, provenance=stated)

        def finish(connection: sa.Connection, outcomes: Sequence[SaveOutcome]) -> None:
            for digest in [outcome.skill.digest for outcome in outcomes if outcome.skill]:
                accepted = accept_written(actor, admission, digest)
                gate.note(actor, action, subject, "done", accepted, within=connection)

        def note_outcome(outcome: str) -> None:
            if outcome == "done":
                gate.wake(actor.organization)  # of what `finish` has noted
            else:
                gate.note(actor, action, subject, outcome)

        saved = self._audited(lambda: store.save_requests([request], finish)[0].saved, note_outcome)
        if self._shows:
            store.remember(saved, reading.package)
        return saved

    def _keep(
        self,
        action: Action,
        subject: Subject,
        write: Callable[[], Skill],
        *,
        diff: Callable[[], str] | None = None,
        accept: bool = True,
    ) -> Skill:
        """Write a skill that is used from now on. What a person writes, or has approved, is accepted once it is stored.

        A process that ends between the two leaves a skill that nobody has accepted, never the other way round.
        """
        gate, actor = self._context.resources.gate, self._context.actor
        admission = gate.check(actor, action, subject, diff=diff)
        written: list[Skill] = []

        def keep() -> Skill:
            written.append(write())
            return written[0]

        def note(outcome: str) -> None:
            accepted = accept_written(actor, admission, written[0].digest) if written and accept else ()
            gate.note(actor, action, subject, outcome, accepted)

        return self._audited(keep, note)

    def _write(self, action: Action, subject: Subject, write: Callable[[], T]) -> T:
        gate, actor = self._context.resources.gate, self._context.actor
        gate.check(actor, action, subject)
        return self._audited(write, lambda outcome: gate.note(actor, action, subject, outcome))

    def _audited(self, write: Callable[[], T], note: Callable[[str], None]) -> T:
        """Write, and note the outcome, also if the write fails or is interrupted."""
        try:
            written = write()
        except BaseException as error:
            code = error.code if isinstance(error, ProwessError) else "cancelled" if is_cancelled() else "error"
            with suppress(ProwessError):  # raise the first error, not one of the note
                note(f"failed: {code}")
            raise
        finally:
            self._context.resources.mark_changed()
            # The write may have created a database, which is one more store.
            self._context.catalog.stores()
        note("done")
        return written


def _read_subject(
    catalog: Catalog, store: Store, skill: Skill, package: Package | None, *, replaces: str = ""
) -> Subject:
    """Return what the gate decides about: the bytes to be kept, or without a package those to be removed."""
    outline = SkillOutline.of(skill)
    if package is None:
        return read_subject(catalog, store, outline)
    # The findings about the bytes that are replaced do not matter, so these are not scanned.
    standing = read_standing(catalog, store, outline, findings=catalog.scans.of_package(package))
    subject = make_subject(outline, standing)
    return replace(subject, digest=package.digest, manifest=package.manifest, replaces=replaces)


def _read_expected(store: Store, skill: Skill, expected: str) -> Package:
    """Return the files of a skill that may be changed; raise `Conflict` if its digest is not the expected one."""
    check_not_frozen(store, skill.slug)
    package = store.get_package(skill.id)
    if package is None or package.digest != skill.digest or (expected and skill.digest != expected):
        raise _changed(skill.slug)
    return package


def _changed(slug: str) -> Conflict:
    return Conflict(f"The skill {slug!r} changed in the meantime.", hint="Reload the skill and repeat the change.")


def check_not_frozen(store: Store, slug: str) -> None:
    """Raise `Refused` for a skill that cannot be changed, before a person is asked about it."""
    if store.frozen:
        raise Refused(
            f"The skill {slug!r} is part of an installed package and cannot be changed.",
            hint=f"Copy it to your workspace and change the copy: `prowess fork {slug}`.",
        )
