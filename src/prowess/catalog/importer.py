"""Find, validate and import every skill at or below a path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.store import SaveResult, Store, unreadable
from prowess.errors import NotFound, Problem, ProwessError, Refused
from prowess.skill.form_info import FormName, form_info
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName
from prowess.skill.validate import ValidationReport, validate
from prowess.storage.files.skill_paths import find_skills, leaves_project

if TYPE_CHECKING:
    from prowess.skill.scan import Finding

# The packages of a batch are in memory until they are saved.
BATCH = 200
BATCH_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a long operation. `total` is 0 while it is unknown."""

    done: int
    total: int


ProgressCallback = Callable[[Progress], None]
"""Called after each step. It may raise to stop the operation; what was saved by then stays."""


def ignore_progress(progress: Progress) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPackage:
    """What was found at one path: a package, or the error from reading it."""

    path: Path
    package: Package | None = None
    error: ProwessError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The verdict on one path. `report` is None if the files could not even be read."""

    path: Path
    report: ValidationReport | None
    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...] = ()
    """What the files seem to do, gravest first. They are advice: they do not make a skill invalid."""

    @property
    def ok(self) -> bool:
        """Return True if there is no error."""
        return self.report is not None and self.report.ok

    @property
    def dangers(self) -> int:
        """The number of findings of the gravest severity."""
        return sum(finding.severity == "danger" for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The result of importing one skill: what it is now, or why it was not saved."""

    path: Path
    slug: str | None = None
    form: FormName | None = None
    version: str | None = None
    digest: str | None = None
    chars: int = 0
    """The characters that the skill takes in a prompt; 0 if it has no text for one."""
    changed: bool = False
    problems: tuple[Problem, ...] = ()
    """Warnings about a saved descriptor, such as a prompt that is not among its own files."""
    findings: tuple[Finding, ...] = ()
    """What the files of a saved skill seem to do, gravest first."""
    error: ProwessError | None = None

    @property
    def dangers(self) -> int:
        """The number of findings of the gravest severity."""
        return sum(finding.severity == "danger" for finding in self.findings)


def find_packages(
    path: Path, limits: Limits = DEFAULT_LIMITS, watch: ProgressCallback = ignore_progress
) -> Iterator[FoundPackage]:
    """Yield every skill at or below `path`. One that cannot be read is yielded with its error and does not stop the search."""
    if not path.exists():
        raise NotFound(f"There is nothing at {str(path)!r}.", hint="Give a skill's folder, file or archive.")
    targets = _each_once(find_skills(path, limits))
    if not targets:
        raise NotFound(
            f"There is no skill in {str(path)!r}.",
            hint="A skill is a folder with a SKILL.md, a skill.json, a package in JSON or YAML, or a .skill archive.",
        )
    for done, target in enumerate(targets, start=1):
        # A person may name a link; links that are found below it are not trusted.
        if target != path and target.is_symlink() and leaves_project(target, path):
            yield FoundPackage(path=target, error=_link(target))
        else:
            yield from _read(target, limits)
        watch(Progress(done=done, total=len(targets)))


def _each_once(targets: Iterable[Path]) -> list[Path]:
    """Return each skill once, by its own folder rather than by a link to it."""
    found = list(targets)
    real = {target for target in found if not target.is_symlink()}
    places = {target.resolve() for target in real}
    return [target for target in found if target in real or target.resolve() not in places]


def _link(target: Path) -> Refused:
    return Refused(
        f"{str(target)!r} is a link that leads out of the project, to {str(target.resolve())!r}.",
        hint="Name that folder itself if you want it.",
    )


def _read(target: Path, limits: Limits) -> Iterator[FoundPackage]:
    from prowess.storage.files.skill_packages import read_path  # brings archives, which listing never needs

    try:
        packages = read_path(target, limits)
    except ProwessError as error:
        yield FoundPackage(path=target, error=error)
        return
    for package in packages:
        yield FoundPackage(path=target / package.name if len(packages) > 1 else target, package=package)


def check_paths(
    paths: Sequence[Path],
    profile: ProfileName,
    limits: Limits = DEFAULT_LIMITS,
    watch: ProgressCallback = ignore_progress,
) -> Iterator[CheckResult]:
    """Validate every skill at or below these paths. A path without skills raises `NotFound`, or is a verdict among others."""
    for path in paths:
        try:
            yield from _check(path, profile, limits, watch)
        except NotFound as error:
            if len(paths) == 1:
                raise
            yield CheckResult(path=path, report=None, problems=(unreadable(error),))


def _check(path: Path, profile: ProfileName, limits: Limits, watch: ProgressCallback) -> Iterator[CheckResult]:
    for found in find_packages(path, limits, watch):
        if found.package is not None:
            report = validate(found.package, profile, limits)
            findings = _scan(found.package)
            yield CheckResult(path=found.path, report=report, problems=report.problems, findings=findings)
        elif found.error is not None:
            yield CheckResult(path=found.path, report=None, problems=(unreadable(found.error),))


def import_path(
    path: Path,
    store: Store,
    *,
    replace: bool,
    actor: str = "",
    limits: Limits = DEFAULT_LIMITS,
    watch: ProgressCallback = ignore_progress,
) -> Iterator[ImportResult]:
    """Save every skill at or below `path`, in batches. What cannot be saved is yielded with its error."""
    for batch in _batches(find_packages(path, limits, watch)):
        packages = [found.package for found in batch if found.package is not None]
        saved = iter(store.save_all(packages, replace=replace, actor=actor))
        for found in batch:
            if found.package is None:
                yield ImportResult(path=found.path, error=found.error)
            else:
                yield _outcome(found.path, next(saved), limits)


def _batches(source: Iterable[FoundPackage]) -> Iterator[list[FoundPackage]]:
    """Yield portions that are limited in number and in bytes."""
    batch: list[FoundPackage] = []
    size = 0
    for found in source:
        batch.append(found)
        size += sum(entry.size for entry in found.package.manifest) if found.package else 0
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _scan(package: Package) -> tuple[Finding, ...]:
    from prowess.skill.scan import scan_package  # imported with the first skill: reading and listing need no scanner

    return scan_package(package)


def _outcome(path: Path, saved: SaveResult, limits: Limits) -> ImportResult:
    skill = saved.skill
    if skill is None:
        return ImportResult(path=path, error=saved.error)
    return ImportResult(
        path=path,
        slug=skill.slug,
        form=skill.form,
        version=skill.version,
        digest=skill.digest,
        chars=skill.content_length,
        changed=saved.changed,
        problems=_warnings(saved.package, limits) if form_info(skill.form).is_descriptor else (),
        findings=_scan(saved.package),
    )


def _warnings(package: Package, limits: Limits) -> tuple[Problem, ...]:
    found = validate(package, "prowess", limits).problems
    return tuple(problem for problem in found if problem.severity == "warning")
