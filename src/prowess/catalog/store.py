"""The Store Protocol: one place that skills are read from and kept in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from prowess.catalog.document import Document
from prowess.errors import Problem, ProwessError
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.outline import Outline
from prowess.skill.package import Package


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A skill that a store holds but cannot serve: where it is and why. The others are served all the same."""

    location: str
    slug: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The outcome for one package of a bulk save: the skill, or the error that kept it out."""

    package: Package
    skill: Skill | None
    error: ProwessError | None = None
    changed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What changed in a store since a position; `position` is where it stands now.

    `slugs` are those of the skills that came, changed or went; None where that is not known, so that the listings have
    to be compared.
    """

    position: str
    slugs: frozenset[str] | None


class Store(Protocol):
    """A place that keeps the skills of one scope.

    All methods are plain blocking calls that are safe from many threads and processes at once.

    A caller may rely on this: a write is all or nothing, and once it returns it survives the death of the process.
    A write against an outdated digest raises `Conflict` and changes nothing. Every accepted change appends one
    immutable version. A skill with an error-level problem is not accepted (`Invalid`, with every problem).
    Unknown ids and slugs give None on reads and raise `NotFound` on writes. `list_skills` never raises because
    of one bad skill; `faults` tells about those. A caller may not assume any order beyond what is stated.
    """

    scope: Scope
    location: str
    frozen: bool
    """Whether its skills come with an installed package and are only read."""

    def list_skills(self) -> list[SkillCard]:
        """The cards of all skills, sorted by slug; no artifact is read."""
        ...

    def faults(self) -> list[Fault]:
        """What could not be served, as of the last look."""
        ...

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Whether any skill is served that has an artifact of one of these kinds; any at all when none is given.

        Where one is, telling so takes no longer the more skills there are.
        """
        ...

    def changes(self, since: str = "") -> Changes:
        """What changed since the position that an earlier call gave.

        Nothing is missed: what is written while this runs is told now or the next time. A position that is empty, too
        old, or of another store is no error; then it is not known what changed.
        """
        ...

    def documents(self, slugs: Collection[str] | None = None) -> Iterator[Document]:
        """What an index reads of these skills, or of all, in any order; those that cannot be served are left out.

        A skill that changes while this runs may come as it was or as it is.
        """
        ...

    def get_skill(self, skill_id: str) -> Skill | None:
        """One skill with all its artifacts (file artifacts without their bytes)."""
        ...

    def get_skill_by_name(self, name: str) -> Skill | None:
        """The same, by slug."""
        ...

    def get_outline(self, name: str) -> Outline | None:
        """A skill by slug without the content of its artifacts and files, of which a database reads none for this."""
        ...

    def get_artifacts(self, skill_id: str, kinds: Collection[Kind] = ()) -> list[Artifact]:
        """The artifacts of these kinds (all kinds when none is given), by ordinal, then name and variant."""
        ...

    def get_artifact(self, artifact_id: str) -> Artifact | None:
        """One artifact."""
        ...

    def get_package(self, skill_id: str) -> Package | None:
        """All the files of a skill."""
        ...

    def get_package_by_name(self, name: str) -> Package | None:
        """The same, by slug."""
        ...

    def read_file(self, skill_id: str, path: str) -> bytes:
        """One file by its exact path in the manifest; `NotFound` lists what there is."""
        ...

    def save(self, package: Package, *, expected: str | None = None, actor: str = "", note: str = "") -> Skill:
        """Keep a whole package: create the skill, or replace it.

        With `expected`, the skill must exist with exactly that digest. Without it, a skill of the same slug
        must not exist yet (`DuplicateSkill`), unless its files are the same, which changes nothing.
        """
        ...

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[Saved]:
        """Keep many packages, each on its own merits, fast; with `replace`, existing skills are updated."""
        ...

    def create_skill(self, skill: Skill, *, actor: str = "", note: str = "") -> Skill:
        """Keep a new skill made in memory; its files are written in the native form."""
        ...

    def update_skill(self, skill: Skill, *, actor: str = "", note: str = "") -> Skill:
        """Change metadata and artifacts; `Conflict` if the kept skill is no longer the one with `skill.digest`."""
        ...

    def delete_skill(self, skill_id: str, *, expected: str | None = None, actor: str = "", note: str = "") -> None:
        """Remove a skill with its artifacts; its versions stay."""
        ...

    def add_artifact(self, artifact: Artifact, *, actor: str = "") -> Artifact:
        """Add an artifact to the skill `artifact.skill_id`; `Conflict` if name and variant are taken."""
        ...

    def update_artifact(self, artifact: Artifact, *, actor: str = "") -> Artifact:
        """Replace the artifact of that id; `Conflict` if the skill changed since `artifact.revision`."""
        ...

    def delete_artifact(self, artifact_id: str, *, actor: str = "") -> None:
        """Remove an artifact."""
        ...

    def versions(self, slug: str) -> list[Version]:
        """Every accepted change, oldest first; also of a skill that was deleted."""
        ...

    def last_version(self, slug: str) -> Version | None:
        """The newest accepted change, without its manifest, at a cost that does not grow with their number."""
        ...

    def version_package(self, slug: str, number: int) -> Package:
        """The files as of one version; `NotFound` if there is no such version."""
        ...

    def rollback(self, slug: str, number: int, *, actor: str = "", note: str = "") -> Skill:
        """Make the files of an earlier version current again, as a new version; also revives a deleted skill."""
        ...


def store_key(store: Store) -> str:
    """What a store is known by from one run to the next."""
    return f"{store.scope}:{store.location}"
