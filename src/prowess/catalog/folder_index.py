"""One skill on disk, and the index of all skills below a folder by path, slug and id."""

from __future__ import annotations

import stat
import uuid
from bisect import insort
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from prowess.catalog.store import Fault, slug_conflict, unreadable
from prowess.catalog.store_rules import declared_id
from prowess.errors import Invalid, Problem, ProwessError, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import looks_like_skill
from prowess.skill.kinds import Kind
from prowess.skill.limits import Limits
from prowess.skill.model import Scope, Skill, SkillCard, artifact_id
from prowess.skill.package import Package
from prowess.skill.validate import validate
from prowess.storage.clock import format_nanoseconds
from prowess.storage.files.freshness import Stamp, stamps_match
from prowess.storage.files.safe_read import Snapshot, snapshot_folder
from prowess.storage.files.skill_paths import read_error


@lru_cache(maxsize=4_096)
def _hash_id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSkill:
    """One skill on disk, valid or not. A single file that is not a skill has neither card nor problems.

    If the files could not be read completely, `stamps` is empty and `settled` is false, so that the next scan tries again.
    """

    location: str
    single_file: bool
    stamps: tuple[tuple[str, Stamp], ...] = ()
    settled: bool = False
    digest: str = ""
    slug: str = ""
    card: SkillCard | None = None
    declared: str | None = None
    artifacts: tuple[tuple[str, str | None], ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def order(self) -> list[str]:
        """Return the sort key: the path, part by part."""
        # Not as one text: `-` and `.` sort before `/`, so `a-b` would come between `a` and `a/c`.
        return self.location.split("/")

    @property
    def fault(self) -> Fault | None:
        """Return the fault, or None if the skill is served or the file is not a skill."""
        if self.card is not None or not self.problems:
            return None
        return Fault(location=self.location, slug=self.slug, problems=self.problems)

    def is_unchanged(self) -> bool:
        """Return True if nothing changed since it was read, by one `lstat` per file and folder."""
        return self.settled and stamps_match(self.stamps)

    def dates(self) -> tuple[str, str]:
        """Return when its oldest and its newest file were written."""
        times = [stamp[0] for _, stamp in self.stamps if stat.S_ISREG(stamp[4])] or [0]
        return format_nanoseconds(min(times)), format_nanoseconds(max(times))


def read_disk_skill(location: str, root: str, limits: Limits, *, single_file: bool) -> Snapshot:
    """Read the files of a skill on disk, or raise `ProwessError`."""
    try:
        if single_file:
            # Imports archives and the forms of single files; most folders have neither.
            from prowess.storage.files.skill_packages import snapshot_file

            return snapshot_file(location, limits, root=root)
        return snapshot_folder(location, limits, root=root)
    except OSError as error:
        raise read_error(Path(location), error) from error


def scan_skill(
    location: str,
    root: str,
    scope: Scope,
    limits: Limits,
    *,
    single_file: bool,
    known: DiskSkill | None,
    on_read: Callable[[str, Skill, Package], None] | None = None,
) -> DiskSkill:
    """Read and validate the skill at a location. If the files are the same as those of `known`, it is not parsed again.

    A skill that was parsed is passed to `on_read` with its files, since a `DiskSkill` does not contain it.
    """
    try:
        snapshot = read_disk_skill(location, root, limits, single_file=single_file)
    except ProwessError as error:
        return DiskSkill(
            location=location,
            single_file=single_file,
            slug=_package_name(location, single_file=single_file),
            problems=_read_problems(error, single_file=single_file),
        )
    package = snapshot.package
    if known is not None and known.digest == package.digest:
        return replace(known, stamps=snapshot.stamps, settled=snapshot.settled)
    make = partial(
        DiskSkill,
        location=location,
        single_file=single_file,
        stamps=snapshot.stamps,
        settled=snapshot.settled,
        digest=package.digest,
    )
    if single_file and not _is_skill(package, location):
        return make()
    from prowess.skill.prompt_block import prompt_chars  # not needed as long as nothing has changed

    try:
        report = validate(package, "prowess", limits, remarks=False)
        skill = report.reading.skill
        if skill is None or not report.ok:
            # Again with all remarks, which only a refused skill shows: a scan of valid skills does without them.
            problems = validate(package, "prowess", limits).problems
            return make(slug=skill.slug if skill else package.name, problems=problems)
    except Exception as error:  # a bug in a reader must not take all other skills of the folder away
        import logging  # lists do not need it

        logging.getLogger(__name__).exception("The skill at %r cannot be read.", location)
        bug = Unavailable(
            f"Prowess failed to read this skill ({type(error).__name__}).",
            hint="This is a bug in Prowess: please report it, together with the skill.",
        )
        return make(slug=package.name, problems=(unreadable(bug),))
    if on_read is not None:
        on_read(location, skill, package)
    return make(
        slug=skill.slug,
        card=skill.card_as(scope, prompt_chars(skill, scope)),
        declared=declared_id(skill),
        artifacts=tuple((artifact.name, artifact.variant) for artifact in skill.artifacts),
    )


def _is_skill(package: Package, location: str) -> bool:
    file = package.get(location.rpartition("/")[2])
    return file is not None and looks_like_skill(file.path, file.content)


def _package_name(location: str, *, single_file: bool) -> str:
    name = location.rpartition("/")[2]
    return name.rpartition(".")[0] if single_file else name


def _read_problems(error: ProwessError, *, single_file: bool) -> tuple[Problem, ...]:
    """Return the problems to report. None for a single unreadable file, since it may not be a skill at all."""
    if single_file:
        return ()
    return error.problems if isinstance(error, Invalid) and error.problems else (unreadable(error),)


class FolderIndex:
    """The skills of one folder by path, slug and id. If several claim a slug, the first by path is served."""

    def __init__(self, namespace: str) -> None:
        self.disk_skills: dict[str, DiskSkill] = {}
        self._namespace = namespace
        self._claims: dict[str, list[DiskSkill]] = {}
        self._declaring: dict[str, list[DiskSkill]] = {}
        self._slug_by_id: dict[str, str] = {}
        self._slugs_without_id: set[str] = set()
        self._invalid: dict[str, DiskSkill] = {}
        self._cards: list[SkillCard] | None = None
        self._artifacts: dict[str, str] | None = None
        self._touched: set[str] = set()

    def put(self, disk_skill: DiskSkill) -> None:
        """Add a skill, replacing what was known at its location."""
        known = self.disk_skills.get(disk_skill.location)
        # `scan_skill` keeps the card object if the files have the same digest: only stamps changed.
        if known is not None and known.card is disk_skill.card and known.problems == disk_skill.problems:
            self._swap(known, disk_skill)
            return
        self.drop(disk_skill.location)
        self.disk_skills[disk_skill.location] = disk_skill
        if disk_skill.card is not None:
            self._touched.add(disk_skill.slug)
            insort(self._claims.setdefault(disk_skill.slug, []), disk_skill, key=lambda other: other.order)
            # The id takes longer than the rest, and most processes never look for one.
            self._slugs_without_id.add(disk_skill.slug)
        elif disk_skill.problems:
            self._invalid[disk_skill.location] = disk_skill
        if disk_skill.card is not None and disk_skill.declared:
            insort(self._declaring.setdefault(disk_skill.declared, []), disk_skill, key=lambda other: other.order)
        self._clear_caches()

    def drop(self, location: str) -> None:
        """Remove what is known about a location."""
        disk_skill = self.disk_skills.pop(location, None)
        if disk_skill is None:
            return
        self._invalid.pop(location, None)
        if disk_skill.card is not None:
            self._touched.add(disk_skill.slug)
        for table, key in ((self._claims, disk_skill.slug), (self._declaring, disk_skill.declared or "")):
            rest = [other for other in table.get(key, ()) if other.location != location]
            if rest:
                table[key] = rest
            else:
                table.pop(key, None)
        self._clear_caches()

    def _swap(self, known: DiskSkill, disk_skill: DiskSkill) -> None:
        """Replace an entry whose stamps alone changed, without invalidating the caches."""
        self.disk_skills[disk_skill.location] = disk_skill
        for table in (self._claims, self._declaring):
            for key in (disk_skill.slug, disk_skill.declared or ""):
                claims = table.get(key, [])
                for position, other in enumerate(claims):
                    if other is known:
                        claims[position] = disk_skill
        if disk_skill.location in self._invalid:
            self._invalid[disk_skill.location] = disk_skill

    def _clear_caches(self) -> None:
        self._cards = self._artifacts = None

    def _derive_id(self, slug: str) -> str:
        return _hash_id(f"{self._namespace}\x00{slug}")

    def serving(self, slug: str) -> DiskSkill | None:
        """Return the skill that serves a slug, or None."""
        claims = self._claims.get(slug)
        return claims[0] if claims else None

    def touched(self) -> set[str]:
        """Return the slugs for which a skill was added, changed or removed since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def copies(self, disk_skill: DiskSkill) -> list[DiskSkill]:
        """Return the other skills with the same slug and the same files."""
        return [
            other
            for other in self._claims.get(disk_skill.slug, ())
            if other is not disk_skill and other.digest == disk_skill.digest
        ]

    def slugs(self) -> list[str]:
        """Return every slug that is served."""
        return list(self._claims)

    def id_of(self, disk_skill: DiskSkill) -> str:
        """Return the id that the skill declares, unless another skill has it; else one derived from folder and slug."""
        # Of several skills that declare one id, the first by path has it.
        if disk_skill.declared and self._declaring[disk_skill.declared][0].slug == disk_skill.slug:
            return disk_skill.declared
        return self._derive_id(disk_skill.slug)

    def by_id(self, skill_id: str) -> DiskSkill | None:
        """Return the served skill with an id, or None."""
        while self._slugs_without_id:
            slug = self._slugs_without_id.pop()
            # Never removed, because what is found is checked below.
            self._slug_by_id[self._derive_id(slug)] = slug
        declared = self._declaring.get(skill_id)
        slug = declared[0].slug if declared else self._slug_by_id.get(skill_id, "")
        disk_skill = self.serving(slug)
        return disk_skill if disk_skill is not None and self.id_of(disk_skill) == skill_id else None

    def by_artifact(self, artifact: str) -> DiskSkill | None:
        """Return the served skill that has an artifact with this id, or None."""
        if self._artifacts is None:
            self._artifacts = {
                artifact_id(self.id_of(disk_skill), name, variant): disk_skill.slug
                for disk_skill in self._serving()
                for name, variant in disk_skill.artifacts
            }
        return self.serving(self._artifacts.get(artifact, ""))

    def _serving(self) -> Iterator[DiskSkill]:
        return (claims[0] for claims in self._claims.values())

    def with_kinds(self, kinds: Collection[Kind]) -> Iterator[DiskSkill]:
        """Yield the served skills with an artifact of one of these kinds, or all if none is given."""
        selected = set(kinds)
        for disk_skill in self._serving():
            if disk_skill.card is not None and (not selected or not selected.isdisjoint(disk_skill.card.kinds)):
                yield disk_skill

    def cards(self) -> list[SkillCard]:
        """Return the cards of the served skills, sorted by slug."""
        if self._cards is None:
            cards = (disk_skill.card for disk_skill in self._serving())
            self._cards = sorted((card for card in cards if card is not None), key=lambda card: card.slug)
        return self._cards

    def faults(self) -> list[Fault]:
        """Return the skills that are not served: invalid skills, and later claims on a slug with other files."""
        bad = [fault for disk_skill in self._invalid.values() if (fault := disk_skill.fault)]
        for slug, claims in self._claims.items():
            for other in claims[1:]:
                if other.digest != claims[0].digest:
                    problem = slug_conflict(slug, claims[0].location, other.location)
                    bad.append(Fault(location=other.location, slug=slug, problems=(problem,)))
        return bad
