"""Edit a stored skill: every change rewrites its files and is saved against the digest that was read.

A store that inherits `EditableStore` implements the reads of `Store`, `delete_skill`, `save_all` and the one write
`save_reading`, and has a version log; the rest follows from these.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Literal

from prowess.catalog.store import Store
from prowess.catalog.store_rules import digest_conflict, unknown_id
from prowess.catalog.version_log import VersionLog
from prowess.errors import Conflict, Invalid, NotFound
from prowess.skill.edit import rewrite_package
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill, Version
from prowess.skill.package import Package
from prowess.skill.validate import accept

if TYPE_CHECKING:
    from prowess.skill.outline import SkillOutline

EditChange = Literal["create", "update", "rollback"]

_ATTEMPTS = 5


class EditableStore(Store):
    """Implements the writes of a `Store` on top of one method, `save_reading`. Nothing over `limits` is saved."""

    limits: Limits = DEFAULT_LIMITS
    frozen: bool = False
    folder: str = ""
    _log: VersionLog

    @abstractmethod
    def save_reading(
        self, reading: Reading, *, expected: str | None, change: EditChange | None, actor: str, note: str
    ) -> Skill:
        """Save an accepted reading with the guarantees of `Store.save`, atomically.

        `change` is recorded in the version log; None means `create` or `update`, whichever applies. If the stored files are
        the same already, nothing changes and no version is added.
        """
        ...

    def save(
        self, package: Package | Reading, *, expected: str | None = None, actor: str = "", note: str = ""
    ) -> Skill:
        """Save a whole package: create the skill, or replace the one with the digest `expected`."""
        reading = package if isinstance(package, Reading) else accept(package, self.limits)
        if reading.accepted != self.limits:
            reading = accept(reading.package, self.limits)
        return self.save_reading(reading, expected=expected, change=None, actor=actor, note=note)

    def create_skill(self, skill: Skill, *, actor: str = "", note: str = "") -> Skill:
        """Save a new skill made in memory. Its files are written in the native form."""
        reading = _rewrite(skill, None, self.limits)
        return self.save_reading(reading, expected=None, change="create", actor=actor, note=note)

    def update_skill(self, skill: Skill, *, actor: str = "", note: str = "") -> Skill:
        """Change metadata and artifacts. With an empty `skill.digest`, any stored digest is accepted."""
        return self._edit(
            skill.id, lambda stored: _updated(stored, skill), expected=skill.digest, actor=actor, note=note
        )

    def add_artifact(self, artifact: Artifact, *, actor: str = "") -> Artifact:
        """Add an artifact to the skill `artifact.skill_id`. `artifact.revision`, if set, must be the stored digest."""

        def change(stored: Skill) -> Skill:
            return _with_artifacts(stored, (*stored.artifacts, artifact))

        note = f"add {artifact.name}"
        expected = artifact.revision
        skill = self._edit(artifact.skill_id, change, expected=expected, actor=actor, note=note, wanted=artifact)
        return _find_written(skill, artifact)

    def update_artifact(self, artifact: Artifact, *, actor: str = "") -> Artifact:
        """Replace the artifact with that id. With an empty `artifact.revision`, any stored digest is accepted."""

        def change(stored: Skill) -> Skill:
            others = [artifact if other.id == artifact.id else other for other in stored.artifacts]
            return _with_artifacts(stored, tuple(others))

        owner = self._owner(artifact.id)
        note = f"update {artifact.name}"
        skill = self._edit(owner, change, expected=artifact.revision, actor=actor, note=note, wanted=artifact)
        return _find_written(skill, artifact)

    def delete_artifact(self, artifact_id: str, *, actor: str = "") -> None:
        """Remove an artifact and the file that holds it."""

        def change(stored: Skill) -> Skill:
            return _with_artifacts(stored, tuple(other for other in stored.artifacts if other.id != artifact_id))

        self._edit(self._owner(artifact_id), change, expected="", actor=actor, note="delete an artifact")

    def versions(self, slug: str) -> list[Version]:
        """Return every accepted change, oldest first. Works for deleted skills too."""
        return self._log.versions(slug)

    def last_version(self, slug: str) -> Version | None:
        """Return the newest accepted change without its manifest, or None."""
        ends = self._log.ends(slug)
        return ends[1] if ends else None

    def version_package(self, slug: str, number: int) -> Package:
        """Return the files as of a version, or raise `NotFound`."""
        return self._log.package(slug, number)

    def rollback(
        self, slug: str, number: int, *, expected: str | None = None, actor: str = "", note: str = ""
    ) -> Skill:
        """Make the files of an earlier version current again, as a new version. Also revives a deleted skill."""
        reading = accept(self.version_package(slug, number), self.limits)
        if expected is None:
            stored = self.get_skill_by_name(slug)
            expected = stored.digest if stored else ""
        note = note or f"back to version {number}"
        # A deleted skill is created again; otherwise a change since the digest was read is a `Conflict`.
        return self.save_reading(reading, expected=expected or None, change="rollback", actor=actor, note=note)

    def get_outline(self, name: str) -> SkillOutline | None:
        """Return a skill by slug without the content of artifacts and files, or None."""
        skill = self.get_skill_by_name(name)
        from prowess.skill.outline import SkillOutline  # lazy: it computes needs, which no listing uses

        return SkillOutline.of(skill) if skill else None

    def get_package_by_name(self, name: str) -> Package | None:
        """Return all files of a skill by slug, or None."""
        outline = self.get_outline(name)
        return self.get_package(outline.id) if outline else None

    def get_artifacts(self, skill_id: str, kinds: Collection[Kind] = ()) -> list[Artifact]:
        """Return the artifacts of these kinds (all kinds if none is given), by ordinal, then name and variant."""
        skill = self.get_skill(skill_id)
        return sort_artifacts(skill.artifacts if skill else (), kinds)

    def read_file(self, skill_id: str, path: str) -> bytes:
        """Return one file by its exact path in the manifest, or raise `NotFound` with the paths that exist."""
        package = self.get_package(skill_id)
        if package is None:
            raise unknown_id("skill", skill_id, self.location)
        file = package.get(path)
        if file is None:
            raise unknown_file(path, package.paths)
        return file.content

    def _owner(self, artifact_id: str) -> str:
        artifact = self.get_artifact(artifact_id)
        if artifact is None:
            raise unknown_id("artifact", artifact_id, self.location)
        return artifact.skill_id

    def _edit(
        self,
        skill_id: str,
        change: Callable[[Skill], Skill],
        *,
        expected: str,
        actor: str,
        note: str,
        wanted: Artifact | None = None,
    ) -> Skill:
        """Rewrite a skill. If the caller expects no digest, a concurrent change leads to a retry instead of a `Conflict`."""
        for _ in range(_ATTEMPTS):
            stored, package = self.get_skill(skill_id), self.get_package(skill_id)
            if stored is None or package is None:
                raise unknown_id("skill", skill_id, self.location)
            if expected and stored.digest != expected:
                raise digest_conflict(stored.slug, expected, stored.digest)
            if package.digest != stored.digest:
                continue  # changed between the two reads
            reading = _rewrite(change(stored), package, self.limits)
            _check_written(reading, wanted)
            try:
                return self.save_reading(reading, expected=stored.digest, change="update", actor=actor, note=note)
            except Conflict:
                if expected:
                    raise
        raise Conflict("The skill keeps changing while it is being saved.", hint="Try again in a moment.")


def _rewrite(skill: Skill, package: Package | None, limits: Limits) -> Reading:
    """Write the files of a skill, starting from `package`, and read them back, or raise `Invalid`."""
    # Read back, because the files are what is stored: what they do not say would be lost.
    return accept(rewrite_package(skill, package, limits), limits)


def sort_artifacts(artifacts: Collection[Artifact], kinds: Collection[Kind] = ()) -> list[Artifact]:
    """Return the artifacts of these kinds (all if none is given), by ordinal, then name and variant."""
    chosen = [artifact for artifact in artifacts if not kinds or artifact.kind in kinds]
    return sorted(chosen, key=lambda artifact: (artifact.ordinal, artifact.name, artifact.variant or ""))


def unknown_file(path: str, paths: Collection[str]) -> NotFound:
    """Return the error for a path that is not in the manifest, with the paths that are."""
    some = ", ".join(list(paths)[:20]) + (" …" if len(paths) > 20 else "")
    return NotFound(f"The skill has no file {path[:200]!r}.", hint=f"Available: {some}")


def _updated(stored: Skill, skill: Skill) -> Skill:
    if skill.slug != stored.slug:
        raise Invalid(
            f"The skill {stored.slug!r} cannot be renamed to {skill.slug!r}: a slug never changes.",
            hint="Create a skill under the new slug, then delete the old one.",
        )
    return _with_artifacts(skill, skill.artifacts)


def _with_artifacts(skill: Skill, artifacts: tuple[Artifact, ...]) -> Skill:
    seen: set[tuple[str, str]] = set()
    for artifact in artifacts:
        key = (artifact.name, artifact.variant or "")
        if key in seen:
            which = f"in the variant {artifact.variant!r}" if artifact.variant else "in its default variant"
            raise Conflict(
                f"The skill {skill.slug!r} already has an artifact {artifact.name!r} {which}.",
                hint="Update that artifact, or choose another name or variant.",
            )
        seen.add(key)
    return skill.model_copy(update={"artifacts": artifacts})


def _check_written(reading: Reading, expected: Artifact | None) -> None:
    """Raise `Invalid` if the artifact would not be read back under its name."""
    if expected is None or (reading.skill and reading.skill.artifact(expected.name, expected.variant)):
        return
    raise Invalid(
        f"The artifact {expected.name!r} cannot be stored under this name: it would be read back under another one.",
        hint="Use a name of letters, digits and hyphens.",
    )


def _find_written(skill: Skill, expected: Artifact) -> Artifact:
    return next(a for a in skill.artifacts if (a.name, a.variant) == (expected.name, expected.variant))
