"""The `Store` protocol, the values that stores exchange, and the log of changes that in-process stores keep."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from prowess.errors import Problem, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.package import Package

if TYPE_CHECKING:
    from prowess.skill.forms.form import Reading
    from prowess.skill.outline import SkillOutline

CODES = {
    "slug-conflict": "Two skills of one scope have the same slug and different files; the first one is used.",
    "link-refused": "A symbolic link points out of the skill folders and is not followed.",
    "foreign-folder": "A skill folder belongs to another user of this machine and is not read.",
    "unreadable": "The files cannot be read, or are not allowed in a skill.",
    "changed-bytes": "The files in the database do not match the digest of the skill: they were changed.",
    "database-refused": "The workspace database cannot be read, was created elsewhere, or was changed by another program; it is not used.",
    "store-unavailable": "A skill store does not respond; the others are used.",
}


def fault_problem(code: str, message: str, hint: str) -> Problem:
    """Return the problem that keeps a skill from being served."""
    return Problem(code=code, severity="error", message=message, hint=hint)


def unreadable(error: ProwessError) -> Problem:
    """Return the problem for files that could not be read."""
    return fault_problem("unreadable", error.message, error.hint)


def slug_conflict(slug: str, served: str, other: str) -> Problem:
    """Return the problem for a skill whose slug another skill of the same scope uses."""
    return fault_problem(
        "slug-conflict",
        f"The slug {slug!r} is used by {served!r} and by {other!r}; the first one is available.",
        "Rename or remove one of the two skills.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDocument:
    """The searchable part of a skill. `triggers` are its `when_to_use` text and its trigger phrases."""

    slug: str
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    body: str = ""
    version: str = ""
    scope: str = "workspace"
    digest: str = ""
    chars: int = 0
    """The characters that the skill takes in a prompt."""
    people_only: bool = False
    """True if the skill is found by searches only: no message brings it to an agent."""
    location: str = field(default="", compare=False)
    """The path of a skill that is kept in files, else ''. It is not searched."""

    @classmethod
    def of(cls, skill: Skill, *, scope: str | None = None, chars: int | None = None, location: str = "") -> Self:
        """Build the document of a skill, which may be served in another scope than it says."""
        when = (skill.when_to_use,) if skill.when_to_use else ()
        return cls(
            slug=skill.slug,
            title=skill.title,
            description=skill.searched_description,
            tags=skill.tags,
            triggers=(*when, *skill.trigger_phrases),
            patterns=skill.intent_patterns,
            keywords=skill.keywords,
            body=skill.body,
            version=skill.version,
            scope=skill.scope if scope is None else scope,
            digest=skill.digest,
            chars=skill.content_length if chars is None else chars,
            people_only=skill.people_only,
            location=location,
        )


class ReadCache:
    """Skills that a folder scan has read within a minute, so that nobody has to read them again soon after.

    Each parsed skill is handed out once. Skills for which there is no room are read again.
    """

    SECONDS = 60.0
    MAX_CHARACTERS = 64 * 1024 * 1024
    """The limit for all cached skills together: characters of content and bytes of files."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Skill, Package]] = {}
        self._size = 0
        self._began = time.monotonic()

    @property
    def is_old(self) -> bool:
        """True if what nobody has asked for is kept no longer."""
        return time.monotonic() - self._began >= self.SECONDS

    def take(self, location: str, skill: Skill, package: Package) -> None:
        """Cache the skill that was read at a location, replacing an earlier one, if there is room."""
        self._drop(location)
        size = _size_of(skill, package)
        if self._size + size <= self.MAX_CHARACTERS:
            self._read[location] = (skill, package)
            self._size += size

    def give(self, location: str, digest: str) -> Skill | None:
        """Return and forget the skill of a location, or None if it is not cached or has other files."""
        skill = self._drop(location)
        return skill if skill is not None and skill.digest == digest else None

    def find(self, location: str, digest: str) -> tuple[Skill, Package] | None:
        """Return the skill of a location with its files, or None if they are not cached or are others."""
        found = self._read.get(location)
        return found if found is not None and found[1].digest == digest else None

    def _drop(self, location: str) -> Skill | None:
        skill, package = self._read.pop(location, (None, None))
        if skill is not None and package is not None:
            self._size -= _size_of(skill, package)
        return skill


def _size_of(skill: Skill, package: Package) -> int:
    return sum(len(artifact.content) for artifact in skill.artifacts) + sum(len(file.content) for file in package.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A skill that a store holds but cannot serve: where it is and why. It does not affect the other skills."""

    location: str
    slug: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveResult:
    """The result for one package of a bulk save: the skill, or the error that kept it out."""

    package: Package
    skill: Skill | None
    error: ProwessError | None = None
    changed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes in a store since a position. `position` is the current one, for the next call.

    `slugs` are the skills that were added, changed or removed. It is None if that is unknown; callers must then compare
    listings.
    """

    position: str
    slugs: frozenset[str] | None


class Store(Protocol):
    """A place that stores the skills of one scope.

    All methods block. They are safe to call from many threads and processes at once.

    Callers may rely on this: a write is all or nothing, and survives a crash once it has returned. A write against an
    outdated digest raises `Conflict` and changes nothing. Every accepted change appends one immutable version. A skill
    with an error-level problem raises `Invalid` with all problems. Unknown ids and slugs return None on reads and raise
    `NotFound` on writes. `list_skills` never raises because of one bad skill; `faults` reports those. Callers may not
    assume any order beyond what is stated.
    """

    scope: Scope
    location: str
    frozen: bool
    """True if the skills come with an installed package and are read-only."""
    folder: str
    """The folder of the skills if they are files that any program can change; '' if they are kept otherwise."""

    def list_skills(self) -> list[SkillCard]:
        """Return the cards of all skills, sorted by slug. No artifact is read."""
        ...

    def faults(self) -> list[Fault]:
        """Return the skills that could not be served, as of the last scan."""
        ...

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Return True if any skill has an artifact of one of these kinds, or if there is any skill when no kind is given.

        Call `changes` first: a folder answers by its last scan. If there is such a skill, the cost does not grow with the
        number of skills.
        """
        ...

    def changes(self, since: str = "") -> Changes:
        """Return the changes since the position that an earlier call returned.

        Nothing is missed: a write that happens in the meantime is reported now or next time. A position that is empty, outdated or
        from another store is not an error; the changes are then unknown.
        """
        ...

    def documents(self, slugs: Collection[str] | None = None) -> Iterator[SearchDocument]:
        """Yield the documents of these skills, or of all, in any order. Skills that cannot be served are left out.

        A skill that changes in the meantime may be yielded in its old or its new state.
        """
        ...

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return a skill with all its artifacts (file artifacts without their bytes), or None."""
        ...

    def get_skill_by_name(self, name: str) -> Skill | None:
        """Return a skill by slug, or None."""
        ...

    def get_outline(self, name: str) -> SkillOutline | None:
        """Return a skill by slug without the content of artifacts and files, or None. A database reads none of that content."""
        ...

    def get_digest(self, name: str) -> str | None:
        """Return the digest of a skill by slug, or None. A store may know it without reading the skill."""
        outline = self.get_outline(name)
        return outline.digest if outline else None

    def get_artifacts(self, skill_id: str, kinds: Collection[Kind] = ()) -> list[Artifact]:
        """Return the artifacts of these kinds (all kinds if none is given), by ordinal, then name and variant."""
        ...

    def get_artifact(self, artifact_id: str) -> Artifact | None:
        """Return an artifact by id, or None."""
        ...

    def get_package(self, skill_id: str) -> Package | None:
        """Return all files of a skill, or None."""
        ...

    def get_package_by_name(self, name: str) -> Package | None:
        """Return all files of a skill by slug, or None."""
        ...

    def read_file(self, skill_id: str, path: str) -> bytes:
        """Return one file by its exact path in the manifest, or raise `NotFound` with the paths that exist."""
        ...

    def save(
        self, package: Package | Reading, *, expected: str | None = None, actor: str = "", note: str = ""
    ) -> Skill:
        """Save a whole package: create the skill, or replace it. A reading that `accept` returned is not read again.

        With `expected`, the skill must exist with exactly that digest. Without it, a skill with the same slug must not exist
        yet (`DuplicateSkill`), unless its files are the same; then nothing changes.
        """
        ...

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[SaveResult]:
        """Save many packages, each independently of the others, fast. With `replace`, existing skills are updated."""
        ...

    def create_skill(self, skill: Skill, *, actor: str = "", note: str = "") -> Skill:
        """Save a new skill made in memory. Its files are written in the native form."""
        ...

    def update_skill(self, skill: Skill, *, actor: str = "", note: str = "") -> Skill:
        """Change metadata and artifacts, or raise `Conflict` if the stored digest is not `skill.digest`."""
        ...

    def delete_skill(self, skill_id: str, *, expected: str | None = None, actor: str = "", note: str = "") -> None:
        """Remove a skill with its artifacts. Its versions stay."""
        ...

    def add_artifact(self, artifact: Artifact, *, actor: str = "") -> Artifact:
        """Add an artifact to the skill `artifact.skill_id`, or raise `Conflict` if name and variant are taken."""
        ...

    def update_artifact(self, artifact: Artifact, *, actor: str = "") -> Artifact:
        """Replace the artifact with that id, or raise `Conflict` if the skill changed since `artifact.revision`."""
        ...

    def delete_artifact(self, artifact_id: str, *, actor: str = "") -> None:
        """Remove an artifact."""
        ...

    def versions(self, slug: str) -> list[Version]:
        """Return every accepted change, oldest first. Works for deleted skills too."""
        ...

    def last_version(self, slug: str) -> Version | None:
        """Return the newest accepted change without its manifest, or None. The cost does not grow with the number of versions."""
        ...

    def version_package(self, slug: str, number: int) -> Package:
        """Return the files as of a version, or raise `NotFound`."""
        ...

    def rollback(
        self, slug: str, number: int, *, expected: str | None = None, actor: str = "", note: str = ""
    ) -> Skill:
        """Make the files of an earlier version current again, as a new version. Also revives a deleted skill.

        With `expected`, raise `Conflict` unless the skill has this digest; '' means that it does not exist.
        """
        ...


@runtime_checkable
class FileReader(Protocol):
    """A store of files that can read single skills by their paths."""

    def documents_at(self, locations: Iterable[str]) -> Iterator[SearchDocument]:
        """Yield the documents of the valid skills at these locations."""
        ...


@runtime_checkable
class DocumentReader(Protocol):
    """A store that has the text of a skill's main file at hand."""

    def get_document(self, skill_id: str) -> str | None:
        """Return the text of a skill's main file, or None."""
        ...


def store_key(store: Store) -> str:
    """Return a key for the store that is the same in every process."""
    return f"{store.scope}:{store.location}"


MAX_CHANGES = 100_000
"""The number of slugs that are remembered. Changes before that are reported as unknown."""

_START = "0"


class ChangeLog:
    """The changes of a store that starts empty, kept in memory. Not thread-safe: the owner holds a lock.

    A position is a count and an id of this log, because another process counts other changes. Only the position before
    the first change is the same everywhere: an empty store.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._count = 0
        self._forgotten = 0
        self._changed: dict[str, int] = {}

    def note(self, slug: str) -> None:
        """Record that a skill was added, changed or removed."""
        self._count += 1
        self._changed.pop(slug, None)  # so that the dict stays ordered by the last change of each slug
        self._changed[slug] = self._count
        if len(self._changed) > MAX_CHANGES:
            oldest = next(iter(self._changed))
            self._forgotten = self._changed.pop(oldest)

    def since(self, position: str) -> Changes:
        """Return the changes since a position."""
        now = f"{self._mark}:{self._count}" if self._count else _START
        seen = self._seen(position)
        if seen is None or seen < self._forgotten:
            return Changes(position=now, slugs=None)
        slugs: set[str] = set()
        for slug in reversed(self._changed):
            if self._changed[slug] <= seen:
                break
            slugs.add(slug)
        return Changes(position=now, slugs=frozenset(slugs))

    def _seen(self, position: str) -> int | None:
        """Return the number of changes before a position, or None if the position is not from this log."""
        if position == _START:
            return 0
        mark, _, count = position.partition(":")
        # Positions are read from files, so this may be any text: `int` accepts digits of other scripts, and fails for
        # very long numbers.
        known = mark == self._mark and count.isascii() and count.isdigit() and len(count) < 20
        return int(count) if known and int(count) <= self._count else None
