"""Write accepted skills to the database: decided and recorded in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from prowess.catalog.editable_store import EditChange
from prowess.catalog.store_rules import SaveAction, accepted_skill, decide_save, declared_id
from prowess.errors import Invalid, Problem, ProwessError
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.reader_version import is_current, may_replace
from prowess.skill.validate import rejection, validate
from prowess.storage import artifacts, blobs, skills, versions
from prowess.storage.clock import now
from prowess.storage.skills import StoredSkill
from prowess.storage.tenant import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """A reading to save, and on what condition."""

    reading: Reading
    expected: str | None = None
    replace: bool = False
    change: EditChange | None = None
    actor: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOutcome:
    """The result of a request: the skill as it is stored now, or the error."""

    request: SaveRequest
    skill: Skill | None = None
    error: ProwessError | None = None
    changed: bool = False

    @property
    def saved(self) -> Skill:
        """Return the stored skill, or raise the error."""
        if self.skill is None:
            raise self.error or Invalid("There is no skill in these files.")
        return self.skill


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedWrite:
    """Rows to write. With `derive_only`, the files are stored already and only what is derived from them is written."""

    request: SaveRequest
    step: SaveAction
    skill: Skill
    package: Package
    derive_only: bool = False

    @property
    def done(self) -> SaveOutcome:
        return SaveOutcome(request=self.request, skill=self.skill, changed=not self.derive_only)


def record(
    connection: sa.Connection, tenant: Tenant, requests: Sequence[SaveRequest], location: str
) -> list[SaveOutcome]:
    """Save each request that may be saved (no slug twice). The outcomes come in the order of the requests.

    The rows of all slugs are locked first, so that nobody changes them between the comparison and the write.
    """
    found = [accepted_skill(request.reading)[0] for request in requests]
    stored = skills.lock_by_slug(connection, tenant, [skill.slug for skill in found])
    taken = skills.taken_ids(connection, filter(None, (_wanted_id(skill, tenant) for skill in found)))
    decider = _Decider(connection=connection, tenant=tenant, location=location, stored=stored, taken=taken)
    outcomes = [decider.decide(request) for request in requests]
    _write(connection, tenant, [outcome for outcome in outcomes if isinstance(outcome, _PlannedWrite)])
    return [item.done if isinstance(item, _PlannedWrite) else item for item in outcomes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decider:
    """Decides the requests of one transaction."""

    connection: sa.Connection
    tenant: Tenant
    location: str
    stored: dict[str, StoredSkill]
    taken: set[str]

    def decide(self, request: SaveRequest) -> _PlannedWrite | SaveOutcome:
        """Return the rows to write for a request, or its outcome if nothing is to be written."""
        skill, package = accepted_skill(request.reading)
        old = self.stored.get(skill.slug)
        try:
            step = decide_save(
                skill.slug,
                package.digest,
                old.digest if old else None,
                expected=request.expected,
                replace=request.replace,
                location=self.location,
                known=lambda: skills.get_slugs(self.connection, self.tenant),
            )
        except ProwessError as error:
            return SaveOutcome(request=request, error=error)
        # The files are the same, but another reader derived the rows. Derive them again, unless a newer reader did
        # that.
        if step == "same" and old is not None and not is_current(old.reader):
            again = stored_as(skill, old, self.tenant, self.location)
            if not may_replace(old.reader):
                return SaveOutcome(request=request, skill=again)
            return _PlannedWrite(request=request, step=step, skill=again, package=package, derive_only=True)
        if step == "same" and (saved := self._read(skill.slug)):
            return SaveOutcome(request=request, skill=saved)
        return _PlannedWrite(request=request, step=step, skill=self._as_stored(skill, old), package=package)

    def _read(self, slug: str) -> Skill | None:
        """Return the stored skill, or None if its row is damaged, so that it is written again."""
        try:
            return skills.get_skill_by_slug(self.connection, self.tenant, slug, self.location)
        except skills.DAMAGE:
            return None

    def _as_stored(self, skill: Skill, old: StoredSkill | None) -> Skill:
        moment = now()
        return skill.kept_as(
            id=old.id if old else _new_id(skill, self.tenant, self.taken),
            scope=self.tenant.scope,
            location=self.location,
            created_at=old.created_at if old else moment,
            updated_at=moment,
        )


def _wanted_id(skill: Skill, tenant: Tenant) -> str | None:
    """Return the id that the skill declares. In a shared database, return an id of the tenant's own, derived from it.

    Using the declared id directly would let a tenant find out whether another one has a skill with that id.
    """
    declared = declared_id(skill)
    if declared is None or not (tenant.organization_id or tenant.user_id):
        return declared
    return str(uuid.uuid5(uuid.UUID(declared), "\x00".join(tenant.key.values())))


def _new_id(skill: Skill, tenant: Tenant, taken: set[str]) -> str:
    wanted = _wanted_id(skill, tenant)
    if wanted is None or wanted in taken:
        return str(uuid.uuid4())
    taken.add(wanted)  # another skill of the same transaction may declare the same id
    return wanted


def _write(connection: sa.Connection, tenant: Tenant, plans: Sequence[_PlannedWrite]) -> None:
    """Write the rows, sorted by slug: two writers of many skills then lock rows in the same order and cannot deadlock."""
    plans = sorted(plans, key=lambda plan: plan.skill.slug)
    blobs.put_blobs(connection, [plan.package for plan in plans])
    skills.insert_skills(connection, tenant, [(p.skill, p.package) for p in plans if p.step == "create"])
    skills.update_skills(connection, tenant, [(p.skill, p.package) for p in plans if p.step != "create"])
    old = [plan.skill.id for plan in plans if plan.step != "create"]
    artifacts.replace_artifacts(connection, tenant, [plan.skill for plan in plans], old)
    versions.append_versions(connection, tenant, [_version_entry(plan) for plan in plans if not plan.derive_only])


def _version_entry(plan: _PlannedWrite) -> versions.NewVersion:
    return versions.NewVersion(
        slug=plan.skill.slug,
        package=plan.package.name,
        manifest=plan.package.manifest,
        digest=plan.package.digest,
        form=plan.skill.form,
        change=plan.request.change or ("create" if plan.step == "create" else "update"),
        actor=plan.request.actor,
        note=plan.request.note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """A stored skill as this process reads its files, or the error that keeps it from being served.

    `reader` is the version of the readers that derived its rows.
    """

    slug: str
    package: Package | None = None
    skill: Skill | None = None
    error: Invalid | None = None
    reader: str = ""

    @property
    def served(self) -> Skill:
        """Return the skill, or raise the error."""
        if self.skill is None:
            raise self.error or Invalid(f"The files of {self.slug!r} hold no skill.")
        return self.skill


def read_again(
    connection: sa.Connection, tenant: Tenant, slugs: Sequence[str], location: str, limits: Limits
) -> list[Reread]:
    """Read stored skills again from their files; those that are gone meanwhile are left out."""
    found: list[Reread] = []
    for slug, stored in skills.get_stored(connection, tenant, slugs).items():
        try:
            files = skills.get_files(connection, tenant, stored.id)
            if files is None:
                continue
            package = blobs.get_package(connection, files.package, files.manifest)
            skill = stored_as(_read_stored(package, limits), stored, tenant, location, slug=slug)
        except (ProwessError, *skills.DAMAGE) as error:
            found.append(Reread(slug=slug, error=_unreadable(slug, error, location), reader=stored.reader))
        else:
            found.append(Reread(slug=slug, package=package, skill=skill, reader=stored.reader))
    return found


def _read_stored(package: Package, limits: Limits) -> Skill:
    """Return the skill in a stored package, or raise `Invalid`.

    The size limits are not applied again: they decide what may come in, and they may have been lowered since.
    """
    report = validate(package, "prowess", limits)
    errors = tuple(problem for problem in report.errors if problem.code != "over-limit")
    if errors or report.reading.skill is None:
        raise rejection(replace(report, problems=errors or report.problems))
    return report.reading.skill


def stored_as(
    skill: Skill, stored: skills.StoredSkill, tenant: Tenant, location: str, *, slug: str | None = None
) -> Skill:
    """Return the skill with the identity and the dates that it has in the database.

    Its slug stays as well, even if the readers would choose another one today: versions, grants and sessions refer to it.
    """
    if slug is not None and skill.slug != slug:
        skill = skill.model_copy(update={"slug": slug})
    return skill.kept_as(
        id=stored.id,
        scope=tenant.scope,
        location=location,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def _unreadable(slug: str, error: Exception, location: str) -> Invalid:
    if isinstance(error, Invalid) and error.problems:
        return error
    hint = error.hint if isinstance(error, ProwessError) else "Import the skill again, replacing what is there."
    message = f"The files of the skill {slug!r} in {location} cannot be read: {error}"
    problem = Problem(code="unreadable", severity="error", message=message, hint=hint)
    return Invalid(message, hint=hint, problems=[problem])


def replace_derived(connection: sa.Connection, tenant: Tenant, found: Sequence[Reread]) -> None:
    """Write the rows of skills that were read again, unless somebody else was faster.

    The files and the version log stay as they are: nothing about the skill changed.
    """
    # Locked and compared once more: since the files were read, another process may have saved other files, or may have
    # read the same ones with a newer reader.
    stored = skills.lock_by_slug(connection, tenant, [item.slug for item in found])
    wanted: list[tuple[Skill, Package]] = []
    for item in sorted(found, key=lambda item: item.slug):
        now = stored.get(item.slug)
        if item.skill is None or item.package is None or now is None or now.digest != item.skill.digest:
            continue
        if may_replace(now.reader) and not is_current(now.reader):
            wanted.append((item.skill, item.package))
    skills.update_skills(connection, tenant, wanted)
    artifacts.replace_artifacts(connection, tenant, [skill for skill, _ in wanted], [skill.id for skill, _ in wanted])
