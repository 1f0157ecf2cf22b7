"""One skill on disk, and the index of all skills below a folder by path, slug and id."""

from __future__ import annotations

import stat
import uuid
from bisect import insort
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from prowess.catalog.store import Fault, slug_conflict, unreadable
from prowess.catalog.store_rules import declared_id
from prowess.errors import Invalid, Problem, ProwessError
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
    """One skill on disk, good or bad; a single file that is no skill at all has neither card nor problems.

    `stamps` are empty and `settled` is false where the files could not be read to the end, so that they are tried
    again at the next look.
    """

    location: str
    lone: bool
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
        """Sites are ordered by their path, part by part."""
        return self.location.split("/")

    @property
    def fault(self) -> Fault | None:
        """Why the site gives no skill, if it should."""
        if self.card is not None or not self.problems:
            return None
        return Fault(location=self.location, slug=self.slug, problems=self.problems)

    def is_unchanged(self) -> bool:
        """Whether everything is as it was read, by one look at each file's and folder's metadata."""
        return self.settled and stamps_match(self.stamps)

    def dates(self) -> tuple[str, str]:
        """When the oldest and the newest of its files were written."""
        times = [stamp[0] for _, stamp in self.stamps if stat.S_ISREG(stamp[4])] or [0]
        return format_nanoseconds(min(times)), format_nanoseconds(max(times))


def read_disk_skill(location: str, root: str, limits: Limits, *, lone: bool) -> Snapshot:
    """Read the files of a site; `ProwessError` where that is not possible."""
    try:
        if lone:
            # Brings archives and the forms of single files; most folders hold neither.
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
    lone: bool,
    known: DiskSkill | None,
    tell: Callable[[str, Skill], None] | None = None,
) -> DiskSkill:
    """What stands at a place now; what is `known` of it is kept where the files turn out to be the same.

    A skill that was read for it is handed to `tell`, since a site does not keep it.
    """
    try:
        snapshot = read_disk_skill(location, root, limits, lone=lone)
    except ProwessError as error:
        return DiskSkill(
            location=location,
            lone=lone,
            slug=_package_name(location, lone=lone),
            problems=_read_problems(error, lone=lone),
        )
    package = snapshot.package
    if known is not None and known.digest == package.digest:
        return replace(known, stamps=snapshot.stamps, settled=snapshot.settled)
    found = DiskSkill(
        location=location, lone=lone, stamps=snapshot.stamps, settled=snapshot.settled, digest=package.digest
    )
    if lone and not _is_skill(package, location):
        return found
    report = validate(package, "prowess", limits)
    skill = report.reading.skill
    if skill is None or not report.ok:
        return replace(found, slug=skill.slug if skill else package.name, problems=report.problems)
    if tell is not None:
        tell(location, skill)
    return replace(
        found,
        slug=skill.slug,
        card=skill.card.model_copy(update={"scope": scope}),
        declared=declared_id(skill),
        artifacts=tuple((artifact.name, artifact.variant) for artifact in skill.artifacts),
    )


def _is_skill(package: Package, location: str) -> bool:
    file = package.get(location.rpartition("/")[2])
    return file is not None and looks_like_skill(file.path, file.content)


def _package_name(location: str, *, lone: bool) -> str:
    name = location.rpartition("/")[2]
    return name.rpartition(".")[0] if lone else name


def _read_problems(error: ProwessError, *, lone: bool) -> tuple[Problem, ...]:
    """A single file that cannot be read is not known to be a skill, so there is nothing to report."""
    if lone:
        return ()
    return error.problems if isinstance(error, Invalid) and error.problems else (unreadable(error),)


class FolderIndex:
    """The sites of one folder by place, by slug and by id. Of several claims on a slug, the first by path is served."""

    def __init__(self, namespace: str) -> None:
        self.sites: dict[str, DiskSkill] = {}
        self._namespace = namespace
        self._claims: dict[str, list[DiskSkill]] = {}
        self._declared: dict[str, list[DiskSkill]] = {}
        self._made: dict[str, str] = {}
        self._faulty: dict[str, DiskSkill] = {}
        self._cards: list[SkillCard] | None = None
        self._artifacts: dict[str, str] | None = None
        self._touched: set[str] = set()

    def put(self, site: DiskSkill) -> None:
        """Take a site in, in the place of what was known there."""
        known = self.sites.get(site.location)
        if known is not None and known.card is site.card and known.problems == site.problems:
            self._swap(known, site)
            return
        self.drop(site.location)
        self.sites[site.location] = site
        if site.card is not None:
            self._touched.add(site.slug)
            insort(self._claims.setdefault(site.slug, []), site, key=lambda other: other.order)
            self._made[self._made_id(site.slug)] = site.slug
        elif site.problems:
            self._faulty[site.location] = site
        if site.card is not None and site.declared:
            insort(self._declared.setdefault(site.declared, []), site, key=lambda other: other.order)
        self._forget()

    def drop(self, location: str) -> None:
        """Forget what was known of a place."""
        site = self.sites.pop(location, None)
        if site is None:
            return
        self._faulty.pop(location, None)
        if site.card is not None:
            self._touched.add(site.slug)
        for table, key in ((self._claims, site.slug), (self._declared, site.declared or "")):
            rest = [other for other in table.get(key, ()) if other.location != location]
            if rest:
                table[key] = rest
            else:
                table.pop(key, None)
        self._forget()

    def _swap(self, known: DiskSkill, site: DiskSkill) -> None:
        """The same skill with newer stamps."""
        self.sites[site.location] = site
        for table in (self._claims, self._declared):
            for key in (site.slug, site.declared or ""):
                claims = table.get(key, [])
                for place, other in enumerate(claims):
                    if other is known:
                        claims[place] = site
        if site.location in self._faulty:
            self._faulty[site.location] = site

    def _forget(self) -> None:
        self._cards = self._artifacts = None

    def _made_id(self, slug: str) -> str:
        return _hash_id(f"{self._namespace}\x00{slug}")

    def serving(self, slug: str) -> DiskSkill | None:
        """The site that serves a slug."""
        claims = self._claims.get(slug)
        return claims[0] if claims else None

    def touched(self) -> set[str]:
        """The slugs on which a claim came, changed or went since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def copies(self, site: DiskSkill) -> list[DiskSkill]:
        """The other sites with the same slug and the same files."""
        return [other for other in self._claims.get(site.slug, ()) if other is not site and other.digest == site.digest]

    def slugs(self) -> list[str]:
        """Every slug that is served."""
        return list(self._claims)

    def id_of(self, site: DiskSkill) -> str:
        """The id that the skill declares, unless another one has it; else one that follows from folder and slug."""
        if site.declared and self._declared[site.declared][0].slug == site.slug:
            return site.declared
        return self._made_id(site.slug)

    def by_id(self, skill_id: str) -> DiskSkill | None:
        """The serving site of a skill's id."""
        declared = self._declared.get(skill_id)
        slug = declared[0].slug if declared else self._made.get(skill_id, "")
        site = self.serving(slug)
        return site if site is not None and self.id_of(site) == skill_id else None

    def by_artifact(self, artifact: str) -> DiskSkill | None:
        """The serving site of an artifact's id."""
        if self._artifacts is None:
            self._artifacts = {
                artifact_id(self.id_of(site), name, variant): site.slug
                for site in self._serving()
                for name, variant in site.artifacts
            }
        return self.serving(self._artifacts.get(artifact, ""))

    def _serving(self) -> Iterator[DiskSkill]:
        return (claims[0] for claims in self._claims.values())

    def with_kinds(self, kinds: Collection[Kind]) -> Iterator[DiskSkill]:
        """The sites of what is served that have an artifact of one of these kinds; all when none is given."""
        wanted = set(kinds)
        for site in self._serving():
            if site.card is not None and (not wanted or not wanted.isdisjoint(site.card.kinds)):
                yield site

    def cards(self) -> list[SkillCard]:
        """The cards of what is served, sorted by slug."""
        if self._cards is None:
            cards = (site.card for site in self._serving())
            self._cards = sorted((card for card in cards if card is not None), key=lambda card: card.slug)
        return self._cards

    def faults(self) -> list[Fault]:
        """What is not served, and why: bad skills, and later claims on a slug with other files."""
        bad = [fault for site in self._faulty.values() if (fault := site.fault)]
        for slug, claims in self._claims.items():
            for other in claims[1:]:
                if other.digest != claims[0].digest:
                    problem = slug_conflict(slug, claims[0].location, other.location)
                    bad.append(Fault(location=other.location, slug=slug, problems=(problem,)))
        return bad
