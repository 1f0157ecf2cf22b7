"""The `Store` protocol, the values that stores exchange, and the log of changes that in-process stores keep."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

from prowess.errors import Problem, ProwessError
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package

CODES = {
    "slug-conflict": "Two skills of one scope claim the same slug with different files; the first is served.",
    "link-refused": "A symbolic link leads out of the skill folders and is not followed.",
    "unreadable": "The files cannot be read, or are not allowed in a skill.",
    "store-unavailable": "A place where skills are kept does not answer; the others are served.",
}


def fault_problem(code: str, message: str, hint: str) -> Problem:
    """A problem that keeps a skill from being served."""
    return Problem(code=code, severity="error", message=message, hint=hint)


def unreadable(error: ProwessError) -> Problem:
    """The problem of files that could not be read."""
    return fault_problem("unreadable", error.message, error.hint)


def slug_conflict(slug: str, served: str, other: str) -> Problem:
    """The problem of a skill whose slug another one of the same scope has."""
    return fault_problem(
        "slug-conflict",
        f"The slug {slug!r} is claimed by {served!r} and by {other!r}; the first is served.",
        f"Give {other!r} another name or slug, or remove one of the two.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDocument:
    """One skill without its files. `triggers` are when it says to use it, and its trigger phrases."""

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

    @classmethod
    def of(cls, skill: Skill) -> Self:
        """What there is to index in a skill."""
        when = (skill.when_to_use,) if skill.when_to_use else ()
        return cls(
            slug=skill.slug,
            title=skill.title,
            description=skill.description,
            tags=skill.tags,
            triggers=(*when, *skill.trigger_phrases),
            patterns=skill.intent_patterns,
            keywords=skill.keywords,
            body=skill.body,
            version=skill.version,
            scope=skill.scope,
            digest=skill.digest,
        )


class ReadCache:
    """Skills that a look at a folder has just read, so that an index need not read them again.

    Each is kept until it is asked for; what there is no room for has to be read again.
    """

    MOST = 64 * 1024 * 1024
    """The most characters that all skills kept have together."""

    def __init__(self) -> None:
        self._skills: dict[str, Skill] = {}
        self._size = 0

    def take(self, location: str, skill: Skill) -> None:
        """Keep the skill that was read at a place, in the stead of what was there, if there is room."""
        self._drop(location)
        size = _size_of(skill)
        if self._size + size <= self.MOST:
            self._skills[location] = skill
            self._size += size

    def give(self, location: str, digest: str) -> Skill | None:
        """The skill of a place, once, if it is kept and has these files."""
        skill = self._drop(location)
        return skill if skill is not None and skill.digest == digest else None

    def _drop(self, location: str) -> Skill | None:
        skill = self._skills.pop(location, None)
        self._size -= _size_of(skill) if skill is not None else 0
        return skill


def _size_of(skill: Skill) -> int:
    return sum(len(artifact.content) for artifact in skill.artifacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A skill that a store holds but cannot serve: where it is and why. The others are served all the same."""

    location: str
    slug: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveResult:
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

    def documents(self, slugs: Collection[str] | None = None) -> Iterator[SearchDocument]:
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

    def get_outline(self, name: str) -> SkillOutline | None:
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

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[SaveResult]:
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


MOST = 100_000
"""How many slugs are remembered; who asks about what lies further back is told that it is not known."""

_START = "0"


class ChangeLog:
    """The changes of a store that was empty when it began. Its owner lets one thread in at a time.

    A position is a count, and the mark of this feed, since another process counts other changes. Only the position
    before the first change is the same for all: nothing was there.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._count = 0
        self._forgotten = 0
        self._changed: dict[str, int] = {}  # by when it last changed

    def note(self, slug: str) -> None:
        """Remember that a skill came, changed or went."""
        self._count += 1
        self._changed.pop(slug, None)
        self._changed[slug] = self._count
        if len(self._changed) > MOST:
            oldest = next(iter(self._changed))
            self._forgotten = self._changed.pop(oldest)

    def since(self, position: str) -> Changes:
        """What changed since a position."""
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
        """How many changes had happened at a position; None where it is not one of this feed."""
        if position == _START:
            return 0
        mark, _, count = position.partition(":")
        known = mark == self._mark and count.isascii() and count.isdigit() and len(count) < 20
        return int(count) if known and int(count) <= self._count else None
