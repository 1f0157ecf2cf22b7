"""A site: one place in a skill folder where a skill lies, with all that is remembered of it between two looks.

Remembered are its card, its digest and the stamps of its files, not their content.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from prowess.catalog.codes import unreadable
from prowess.catalog.decide import declared_id
from prowess.catalog.store import Fault
from prowess.errors import Invalid, Problem, ProwessError
from prowess.skill.borders import looks_like_skill
from prowess.skill.limits import Limits
from prowess.skill.model import Scope, Skill, SkillCard
from prowess.skill.package import Package
from prowess.skill.validate import validate
from prowess.storage.clock import moment
from prowess.storage.finding import read_refused
from prowess.storage.lone import snapshot_file
from prowess.storage.reading import Snapshot, snapshot_folder
from prowess.storage.stamps import Stamp, all_hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
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
        return self.settled and all_hold(self.stamps)

    def dates(self) -> tuple[str, str]:
        """When the oldest and the newest of its files were written."""
        times = [stamp[0] for _, stamp in self.stamps if stat.S_ISREG(stamp[4])] or [0]
        return moment(min(times)), moment(max(times))


def read_site(location: str, root: str, limits: Limits, *, lone: bool) -> Snapshot:
    """Read the files of a site; `ProwessError` where that is not possible."""
    try:
        if lone:
            return snapshot_file(location, limits, root=root)
        return snapshot_folder(location, limits, root=root)
    except OSError as error:
        raise read_refused(Path(location), error) from error


def look_at(
    location: str,
    root: str,
    scope: Scope,
    limits: Limits,
    *,
    lone: bool,
    known: Site | None,
    tell: Callable[[str, Skill], None] | None = None,
) -> Site:
    """What stands at a place now; what is `known` of it is kept where the files turn out to be the same.

    A skill that was read for it is handed to `tell`, since a site does not keep it.
    """
    try:
        snapshot = read_site(location, root, limits, lone=lone)
    except ProwessError as error:
        return Site(location=location, lone=lone, slug=_name(location, lone=lone), problems=_problems(error, lone=lone))
    package = snapshot.package
    if known is not None and known.digest == package.digest:
        return replace(known, stamps=snapshot.stamps, settled=snapshot.settled)
    found = Site(location=location, lone=lone, stamps=snapshot.stamps, settled=snapshot.settled, digest=package.digest)
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


def _name(location: str, *, lone: bool) -> str:
    name = location.rpartition("/")[2]
    return name.rpartition(".")[0] if lone else name


def _problems(error: ProwessError, *, lone: bool) -> tuple[Problem, ...]:
    """A single file that cannot be read is not known to be a skill, so there is nothing to report."""
    if lone:
        return ()
    return error.problems if isinstance(error, Invalid) and error.problems else (unreadable(error),)
