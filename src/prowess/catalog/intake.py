"""From a path that a person names to packages: one skill, an archive, or a folder full of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from prowess.catalog.store import Saved, Store
from prowess.errors import NotFound, Problem, ProwessError
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName
from prowess.skill.validate import Report, validate
from prowess.storage.folders import find_skills, read_path

BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long piece of work is; `total` is 0 while it is not known."""

    done: int
    total: int


Watch = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Watch nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stands at one path: a package, or the error that reading it gave."""

    path: Path
    package: Package | None = None
    error: ProwessError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The verdict on what was found at one path. `report` is None where the files could not even be read."""

    path: Path
    report: Report | None
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong enough to refuse it."""
        return self.report is not None and self.report.ok


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of one thing that was to be imported."""

    path: Path
    saved: Saved | None
    error: ProwessError | None


def find_packages(path: Path, limits: Limits = DEFAULT_LIMITS, watch: Watch = ignore) -> Iterator[Found]:
    """Every skill at or below `path`; one that cannot be read is given with its error and stops nothing."""
    if not path.exists():
        raise NotFound(f"There is nothing at {str(path)!r}.", hint="Give a skill's folder, file or archive.")
    targets = list(find_skills(path))
    if not targets:
        raise NotFound(
            f"There is no skill in {str(path)!r}.",
            hint="A skill is a folder with a SKILL.md, a skill.json, a package in JSON or YAML, or a .skill archive.",
        )
    for done, target in enumerate(targets, start=1):
        yield from _read(target, limits)
        watch(Progress(done=done, total=len(targets)))


def _read(target: Path, limits: Limits) -> Iterator[Found]:
    try:
        for package in read_path(target, limits):
            yield Found(path=target, package=package)
    except ProwessError as error:
        yield Found(path=target, error=error)


def check_path(
    path: Path, profile: ProfileName, limits: Limits = DEFAULT_LIMITS, watch: Watch = ignore
) -> Iterator[Checked]:
    """Validate every skill at or below `path`."""
    for found in find_packages(path, limits, watch):
        if found.package is not None:
            report = validate(found.package, profile, limits)
            yield Checked(path=found.path, report=report, problems=report.problems)
        elif found.error is not None:
            yield Checked(path=found.path, report=None, problems=(as_problem(found.error),))


def as_problem(error: ProwessError) -> Problem:
    """An error about a whole file or folder, as a problem of it."""
    return Problem(code=error.code, severity="error", message=error.message, hint=error.hint)


def import_path(
    path: Path,
    store: Store,
    *,
    replace: bool,
    actor: str = "",
    limits: Limits = DEFAULT_LIMITS,
    watch: Watch = ignore,
) -> Iterator[Imported]:
    """Keep every skill at or below `path`, in batches; what cannot be kept is given with its error."""
    source = find_packages(path, limits, watch)
    while batch := list(islice(source, BATCH)):
        readable = [found for found in batch if found.package is not None]
        saved = store.save_all([found.package for found in readable if found.package], replace=replace, actor=actor)
        outcome = {id(item.package): item for item in saved}
        for found in batch:
            item = outcome.get(id(found.package)) if found.package is not None else None
            yield Imported(path=found.path, saved=item, error=item.error if item else found.error)
