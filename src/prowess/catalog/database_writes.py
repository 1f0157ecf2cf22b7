"""Write accepted skills to the database: decided and recorded in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from prowess.catalog.database_reads import StoredSkills
from prowess.catalog.editable_store import EditChange
from prowess.catalog.store_rules import SaveAction, accepted_skill, decide_save, declared_id
from prowess.errors import Invalid, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.skill.forms.form import Reading
from prowess.skill.limits import UNLIMITED
from prowess.skill.model import Provenance, Skill
from prowess.skill.package import Package
from prowess.storage import artifacts, blobs, skills, versions
from prowess.storage.clock import now
from prowess.storage.database import Connections
from prowess.storage.owner import Tenant
from prowess.storage.skills import StoredSkill

if TYPE_CHECKING:
    import sqlalchemy as sa


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """A reading to save, and on what condition."""

    reading: Reading
    expected: str | None = None
    replace: bool = False
    change: EditChange | None = None
    actor: str = ""
    note: str = ""
    provenance: Provenance | None = None
    """Where the skill was copied from, if that is known. What its files say about that does not count."""


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
            raise self.error or Invalid("These files do not contain a skill.")
        return self.skill


Finish = Callable[["sa.Connection", list[SaveOutcome]], None]
"""Records what belongs to the outcomes of a save, in its transaction."""


@runtime_checkable
class TransactionalStore(Protocol):
    """A store of which a save can share its transaction with other records in the same database."""

    def is_in(self, database: Connections) -> bool:
        """Return True if the skills are in this database."""
        ...

    def remember(self, saved: Skill, package: Package) -> None:
        """Keep a skill in memory that was just saved with these files, for a caller that reads it next."""
        ...

    def save_requests(self, requests: Sequence[SaveRequest], finish: Finish) -> list[SaveOutcome]:
        """Save skills that were accepted before, each independently of the others; no slug twice.

        `finish` gets the outcomes in the same transaction, to record what belongs to them.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedWrite:
    """Rows to write.

    With `derive_only`, the files are stored already and only data derived from them is written. With `repair`, the
    stored bytes are replaced as well, because they were changed.
    """

    request: SaveRequest
    step: SaveAction
    skill: Skill
    package: Package
    derive_only: bool = False
    repair: bool = False

    @property
    def done(self) -> SaveOutcome:
        return SaveOutcome(request=self.request, skill=self.skill, changed=not self.derive_only)


def record(
    connection: sa.Connection, tenant: Tenant, requests: Sequence[SaveRequest], location: str
) -> list[SaveOutcome]:
    """Save each request that may be saved (no slug twice). The outcomes are in the order of the requests.

    The rows of all slugs are locked first, so that they cannot change between the comparison and the write.
    """
    found = [accepted_skill(request.reading)[0] for request in requests]
    stored = skills.lock_by_slug(connection, tenant, [skill.slug for skill in found])
    used_ids = skills.taken_ids(connection, filter(None, (_wanted_id(skill, tenant) for skill in found)))
    decider = _Decider(connection=connection, tenant=tenant, location=location, stored=stored, taken=used_ids)
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
                old.key.digest if old else None,
                expected=request.expected,
                replace=request.replace,
                location=f"the {self.tenant.scope} scope",
                known=lambda: skills.get_slugs(self.connection, self.tenant),
            )
        except ProwessError as error:
            return SaveOutcome(request=request, error=error)
        if step == "same" and old is not None:
            return self._decide_same(request, skill, package, old)
        stored = self._as_stored(skill, old, request.provenance)
        return _PlannedWrite(request=request, step=step, skill=stored, package=package)

    def _decide_same(
        self, request: SaveRequest, skill: Skill, package: Package, old: StoredSkill
    ) -> _PlannedWrite | SaveOutcome:
        """Return what to do if the stored digest is that of the request: nothing, unless rows or bytes were changed."""
        reader = StoredSkills(tenant=self.tenant, location=self.location, limits=UNLIMITED)
        [stored] = reader.read_again(self.connection, [skill.slug])
        if stored.error is not None:
            again = self._as_stored(skill, old, request.provenance or old.key.provenance)
            return _PlannedWrite(request=request, step="same", skill=again, package=package, repair=True)
        # Another reader derived the rows, or they were changed outside Prowess.
        if stored.due and not stored.sealed and stored.package is not None:
            return _PlannedWrite(
                request=request, step="same", skill=stored.served, package=stored.package, derive_only=True
            )
        return SaveOutcome(request=request, skill=stored.served)

    def _as_stored(self, skill: Skill, old: StoredSkill | None, provenance: Provenance | None) -> Skill:
        moment = now()
        return skill.kept_as(
            id=old.key.id if old else _new_id(skill, self.tenant, self.taken),
            scope=self.tenant.scope,
            location=self.location,
            provenance=provenance,
            created_at=old.key.created_at if old else moment,
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


def _new_id(skill: Skill, tenant: Tenant, used_ids: set[str]) -> str:
    declared = _wanted_id(skill, tenant)
    if declared is None or declared in used_ids:
        return str(uuid.uuid4())
    used_ids.add(declared)  # another skill of the same transaction may declare the same id
    return declared


def _write(connection: sa.Connection, tenant: Tenant, plans: Sequence[_PlannedWrite]) -> None:
    """Write the rows, sorted by slug: two writers of many skills then lock rows in the same order and cannot deadlock."""
    plans = sorted(plans, key=lambda plan: plan.skill.slug)
    # Stored bytes are kept, except in a repair: there they no longer match their digest, and are replaced.
    blobs.put_blobs(connection, [plan.package for plan in plans if not plan.repair])
    blobs.put_blobs(connection, [plan.package for plan in plans if plan.repair], replace=True)
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
