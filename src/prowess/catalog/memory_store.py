"""A store in memory, for sessions and tests, and the empty store that stands for a database that is not used."""

from __future__ import annotations

import pwd
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator

from prowess.catalog.editable_store import EditableStore, EditChange
from prowess.catalog.store import ChangeLog, Changes, Fault, SaveResult, SearchDocument, fault_problem
from prowess.catalog.store_rules import accepted_skill, decide_save, declared_id, digest_conflict, unknown_id
from prowess.catalog.version_log import MemoryVersions, VersionLog
from prowess.errors import ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.model import Scope, Skill, SkillCard
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.storage.clock import now


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    skill: Skill
    package: Package


class MemoryStore(EditableStore):
    """Stores skills in memory. One lock makes every write atomic."""

    def __init__(self, scope: Scope = "session", *, versions: VersionLog | None = None) -> None:
        self.scope = scope
        self.location = "memory"
        self._log = versions or MemoryVersions()
        # Reentrant, because methods that hold it call others that take it.
        self._lock = threading.RLock()
        self._kept: dict[str, _Kept] = {}
        self._slugs: dict[str, str] = {}
        self._feed = ChangeLog()

    def list_skills(self) -> list[SkillCard]:
        """Return the cards of all skills, sorted by slug."""
        with self._lock:
            return [self._kept[slug].skill.card for slug in sorted(self._kept)]

    def faults(self) -> list[Fault]:
        """Return nothing: every skill in memory was accepted and cannot be damaged."""
        return []

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Return True if any skill has an artifact of one of these kinds, or if there is any skill when no kind is given."""
        with self._lock:
            return any(not kinds or not set(kinds).isdisjoint(entry.skill.kinds) for entry in self._kept.values())

    def changes(self, since: str = "") -> Changes:
        """Return the changes since a position of this store."""
        with self._lock:
            return self._feed.since(since)

    def documents(self, slugs: Collection[str] | None = None) -> Iterator[SearchDocument]:
        """Yield the documents of these skills, or of all."""
        with self._lock:
            selected = self._kept if slugs is None else set(slugs)
            skills = [entry.skill for slug, entry in self._kept.items() if slug in selected]
        return map(SearchDocument.of, skills)

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return a skill with all its artifacts, or None."""
        entry = self._by_id(skill_id)
        return entry.skill if entry else None

    def get_skill_by_name(self, name: str) -> Skill | None:
        """Return a skill by slug, or None."""
        with self._lock:
            entry = self._kept.get(name)
        return entry.skill if entry else None

    def get_artifact(self, artifact_id: str) -> Artifact | None:
        """Return an artifact by id, or None."""
        with self._lock:
            every = [artifact for entry in self._kept.values() for artifact in entry.skill.artifacts]
        return next((artifact for artifact in every if artifact.id == artifact_id), None)

    def get_package(self, skill_id: str) -> Package | None:
        """Return all files of a skill, or None."""
        entry = self._by_id(skill_id)
        return entry.package if entry else None

    def save_reading(
        self, reading: Reading, *, expected: str | None, change: EditChange | None, actor: str, note: str
    ) -> Skill:
        """Save an accepted reading."""
        return self._save_reading(reading, expected, change, actor, note, replace=False)[0]

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[SaveResult]:
        """Save many packages, each independently of the others."""
        return [self._save_one(package, actor, replace=replace) for package in packages]

    def delete_skill(self, skill_id: str, *, expected: str | None = None, actor: str = "", note: str = "") -> None:
        """Remove a skill with its artifacts; its versions stay."""
        with self._lock:
            entry = self._by_id(skill_id)
            if entry is None:
                raise unknown_id("skill", skill_id, self.location)
            skill = entry.skill
            if expected is not None and skill.digest != expected:
                raise digest_conflict(skill.slug, expected, skill.digest)
            self._log.append(skill.slug, entry.package, form=skill.form, change="delete", actor=actor, note=note)
            del self._kept[skill.slug], self._slugs[skill.id]
            self._feed.note(skill.slug)

    def _by_id(self, skill_id: str) -> _Kept | None:
        with self._lock:
            return self._kept.get(self._slugs.get(skill_id, ""))

    def _save_one(self, package: Package, actor: str, *, replace: bool) -> SaveResult:
        try:
            skill, changed = self._save_reading(accept(package, self.limits), None, None, actor, "", replace=replace)
        except ProwessError as error:
            return SaveResult(package=package, skill=None, error=error, changed=False)
        return SaveResult(package=package, skill=skill, changed=changed)

    def _save_reading(
        self, reading: Reading, expected: str | None, change: EditChange | None, actor: str, note: str, *, replace: bool
    ) -> tuple[Skill, bool]:
        """Return the stored skill, and whether anything changed."""
        skill, package = accepted_skill(reading)
        with self._lock:
            old = self._kept.get(skill.slug)
            step = decide_save(
                skill.slug,
                package.digest,
                old.skill.digest if old else None,
                expected=expected,
                replace=replace,
                location=self.location,
                known=lambda: list(self._kept),
            )
            if old and step == "same":
                return old.skill, False
            moment = now()
            stored = skill.kept_as(
                id=old.skill.id if old else self._new_id(skill),
                scope=self.scope,
                location=self.location,
                created_at=old.skill.created_at if old else moment,
                updated_at=moment,
            )
            outcome = change or ("update" if old else "create")
            # The version first: if the log fails, nothing changes.
            self._log.append(skill.slug, package, form=reading.form, change=outcome, actor=actor, note=note)
            self._kept[skill.slug] = _Kept(skill=stored, package=package)
            self._slugs[stored.id] = skill.slug
            self._feed.note(skill.slug)
            return stored, True

    def _new_id(self, skill: Skill) -> str:
        declared = declared_id(skill)
        return declared if declared and self._by_id(declared) is None else str(uuid.uuid4())


class ForeignFolder(MemoryStore):
    """A skill folder that is not read because it belongs to another user. It has no skills, and one fault that explains why."""

    def __init__(self, root: str, *, scope: Scope, owner: int) -> None:
        super().__init__(scope)
        self.location = root
        self._user = owner

    def faults(self) -> list[Fault]:
        """Return the fault: who owns the folder, and how to read it anyway."""
        try:
            name = pwd.getpwuid(self._user).pw_name
        except KeyError:
            name = f"user {self._user}"
        problem = fault_problem(
            "foreign-folder",
            f"This folder, or one above it, belongs to {name!r}, so its skills are not read.",
            f"If you trust that user, set PROWESS_SAFE_FOLDERS={self.location}",
        )
        return [Fault(location=self.location, slug="", problems=(problem,))]

    def changes(self, since: str = "") -> Changes:
        """Return that nothing has changed, unless the position is that of a store which read the folder."""
        position = f"foreign {self._user}"
        return Changes(position=position, slugs=frozenset() if since == position else None)


class UnusedStore(MemoryStore):
    """Stands for a database that exists but must not be used: it is empty, reports why, and rejects every write."""

    def __init__(self, scope: Scope, location: str, refusal: ProwessError) -> None:
        super().__init__(scope)
        self.location = location
        self._refusal = refusal

    def faults(self) -> list[Fault]:
        """Return why the database is not used."""
        problem = fault_problem("database-refused", self._refusal.message, self._refusal.hint)
        return [Fault(location=self.location, slug="", problems=(problem,))]

    def save_reading(
        self,
        reading: Reading,  # noqa: ARG002
        *,
        expected: str | None,  # noqa: ARG002
        change: EditChange | None,  # noqa: ARG002
        actor: str,  # noqa: ARG002
        note: str,  # noqa: ARG002
    ) -> Skill:
        """Raise the reason."""
        raise self._refusal

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[SaveResult]:  # noqa: ARG002
        """Raise the reason."""
        raise self._refusal
