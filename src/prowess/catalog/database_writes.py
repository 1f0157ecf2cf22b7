"""Write accepted skills to the database: decided and recorded in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from prowess.catalog.editable_store import EditChange
from prowess.catalog.store_rules import SaveAction, accepted_skill, decide_save, declared_id
from prowess.errors import Invalid, ProwessError
from prowess.skill.forms.form import Reading
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.storage import artifacts, blobs, skills, versions
from prowess.storage.clock import now
from prowess.storage.skills import StoredSkill
from prowess.storage.tenant import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """One reading that somebody wants kept, and on what condition."""

    reading: Reading
    expected: str | None = None
    replace: bool = False
    change: EditChange | None = None
    actor: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOutcome:
    """What became of a wish: the skill as it is kept now, or the error."""

    wish: SaveRequest
    skill: Skill | None = None
    error: ProwessError | None = None
    changed: bool = False

    @property
    def kept(self) -> Skill:
        """The skill of an outcome without error."""
        if self.skill is None:
            raise self.error or Invalid("There is no skill in these files.")
        return self.skill


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedWrite:
    wish: SaveRequest
    step: SaveAction
    skill: Skill
    package: Package

    @property
    def done(self) -> SaveOutcome:
        return SaveOutcome(wish=self.wish, skill=self.skill, changed=True)


def record(
    connection: sa.Connection, tenant: Tenant, wishes: Sequence[SaveRequest], location: str
) -> list[SaveOutcome]:
    """Keep each wish that may be kept (no slug twice); the outcomes come in the order of the wishes.

    What is kept under the slugs is locked first, so that nobody changes it between the comparison and the write.
    """
    found = [accepted_skill(wish.reading)[0] for wish in wishes]
    standing = skills.lock_by_slug(connection, tenant, [skill.slug for skill in found])
    taken = skills.taken_ids(connection, filter(None, (_wanted_id(skill, tenant) for skill in found)))
    desk = _Decider(connection=connection, tenant=tenant, location=location, standing=standing, taken=taken)
    outcomes = [desk.decide(wish) for wish in wishes]
    _write(connection, tenant, [outcome for outcome in outcomes if isinstance(outcome, _PlannedWrite)])
    return [item.done if isinstance(item, _PlannedWrite) else item for item in outcomes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decider:
    """What the wishes of one transaction are decided by."""

    connection: sa.Connection
    tenant: Tenant
    location: str
    standing: dict[str, StoredSkill]
    taken: set[str]

    def decide(self, wish: SaveRequest) -> _PlannedWrite | SaveOutcome:
        """What is to be written for the wish, or its outcome where nothing is."""
        skill, package = accepted_skill(wish.reading)
        old = self.standing.get(skill.slug)
        try:
            step = decide_save(
                skill.slug,
                package.digest,
                old.digest if old else None,
                expected=wish.expected,
                replace=wish.replace,
                location=self.location,
                known=lambda: skills.get_slugs(self.connection, self.tenant),
            )
        except ProwessError as error:
            return SaveOutcome(wish=wish, error=error)
        if step == "same" and (kept := self._read(skill.slug)):
            return SaveOutcome(wish=wish, skill=kept)
        return _PlannedWrite(wish=wish, step=step, skill=self._kept_as(skill, old), package=package)

    def _read(self, slug: str) -> Skill | None:
        """The kept skill; None where its row is damaged, so that it is written anew."""
        try:
            return skills.get_skill_by_slug(self.connection, self.tenant, slug, self.location)
        except skills.DAMAGE:
            return None

    def _kept_as(self, skill: Skill, old: StoredSkill | None) -> Skill:
        moment = now()
        return skill.kept_as(
            id=old.id if old else _new_id(skill, self.tenant, self.taken),
            scope=self.tenant.scope,
            location=self.location,
            created_at=old.created_at if old else moment,
            updated_at=moment,
        )


def _wanted_id(skill: Skill, tenant: Tenant) -> str | None:
    """The id that the skill declares; in a shared database an id of the tenant's own that follows from it.

    Were it taken as it is, a tenant could find out whether another one keeps a skill of that id.
    """
    declared = declared_id(skill)
    if declared is None or not (tenant.organization_id or tenant.user_id):
        return declared
    return str(uuid.uuid5(uuid.UUID(declared), "\x00".join(tenant.key.values())))


def _new_id(skill: Skill, tenant: Tenant, taken: set[str]) -> str:
    wanted = _wanted_id(skill, tenant)
    if wanted is None or wanted in taken:
        return str(uuid.uuid4())
    taken.add(wanted)
    return wanted


def _write(connection: sa.Connection, tenant: Tenant, plans: Sequence[_PlannedWrite]) -> None:
    """The rows of the plans, by slug, so that two writers of many skills meet in the same order."""
    plans = sorted(plans, key=lambda plan: plan.skill.slug)
    blobs.put_blobs(connection, [plan.package for plan in plans])
    skills.insert_skills(connection, tenant, [(p.skill, p.package) for p in plans if p.step == "create"])
    skills.update_skills(connection, tenant, [(p.skill, p.package) for p in plans if p.step != "create"])
    old = [plan.skill.id for plan in plans if plan.step != "create"]
    artifacts.replace_artifacts(connection, tenant, [plan.skill for plan in plans], old)
    versions.append_versions(connection, tenant, [_version_entry(plan) for plan in plans])


def _version_entry(plan: _PlannedWrite) -> versions.Entry:
    return versions.Entry(
        slug=plan.skill.slug,
        package=plan.package.name,
        manifest=plan.package.manifest,
        digest=plan.package.digest,
        form=plan.skill.form,
        change=plan.wish.change or ("create" if plan.step == "create" else "update"),
        actor=plan.wish.actor,
        note=plan.wish.note,
    )
