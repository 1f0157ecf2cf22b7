"""Find, validate and import every skill at or below a path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from prowess.catalog.store import SaveResult, Store, unreadable
from prowess.errors import DuplicateSkill, Invalid, NotFound, Problem, ProwessError, Refused
from prowess.lazy_dataclass import dataclass
from prowess.paths import real_path
from prowess.skill.form_info import FormName
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName
from prowess.skill.slug import MAX_NAME_CHARS
from prowess.skill.validate import ValidationReport, validate
from prowess.storage.files.skill_paths import check_exists, find_skills, leaves_project, no_skill
from prowess.threads import check_cancelled

if TYPE_CHECKING:
    from prowess.scan import Finding

# The packages of a batch are in memory until they are saved.
BATCH = 200
BATCH_BYTES = 16 * 1024 * 1024
_CONNECTORS = "It configures MCP servers. Run `prowess connector import FILE`."
_OTHER_FILES: Final = {
    ".mcp": _CONNECTORS,
    "mcp": _CONNECTORS,
    "promptfooconfig": "It tests prompts. Put it into the folder of a skill, and run `prowess eval run SKILL`.",
}
"""Files that people have next to their skills, by name without suffix, and what takes them."""
MAX_RENAMES = 100
"""How many slugs `foo-2`, `foo-3` … are tried for a skill whose slug is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a long operation. `total` is 0 while it is unknown."""

    done: int
    total: int
    saved: int = 0
    """In an import, how many skills have been saved. Those that were there already do not count."""


ProgressCallback = Callable[[Progress], None]
"""Called after each step."""


def ignore_progress(progress: Progress) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPackage:
    """The result of reading one path: a package, or an error."""

    path: Path
    package: Package | None = None
    error: ProwessError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The verdict on one path. `report` is None if the files could not be read."""

    path: Path
    report: ValidationReport | None
    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...] = ()
    """What the files appear to do, most severe first. Findings are advice: they do not make a skill invalid."""

    @property
    def ok(self) -> bool:
        """Return True if there is no error."""
        return self.report is not None and self.report.ok

    @property
    def dangers(self) -> int:
        """The number of findings of the highest severity."""
        return sum(finding.severity == "danger" for finding in self.findings)

    def place(self, problem: Problem) -> str:
        """Return the file and line of a problem, as far as they are known."""
        from prowess.skill.positions import format_place

        return format_place(problem, self.report.reading) if self.report else problem.place


OnConflict = Literal["refuse", "skip", "rename", "replace"]
"""The action for a skill whose slug another skill has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """Under which slugs skills are imported: one `slug` for a single skill, or a namespace `prefix` for all."""

    on_conflict: OnConflict = "refuse"
    slug: str = ""
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The result of importing one skill: the stored skill, or why it was not saved."""

    path: Path
    slug: str | None = None
    form: FormName | None = None
    version: str | None = None
    digest: str | None = None
    changed: bool = False
    problems: tuple[Problem, ...] = ()
    """What `validate` warns about in a saved skill, such as a prompt that is not among a descriptor's own files."""
    findings: tuple[Finding, ...] = ()
    """What the files of a saved skill appear to do, most severe first."""
    error: ProwessError | None = None
    skipped: bool = False
    """True if another skill has the slug and the plan says to skip it."""
    in_place: bool = False
    """True if it was not stored because it is used from its folder."""
    chars: int = 0
    """The characters that the skill takes in a prompt, as its budget counts them."""

    @property
    def dangers(self) -> int:
        """The number of findings of the highest severity."""
        return sum(finding.severity == "danger" for finding in self.findings)


def find_packages(
    path: Path, limits: Limits = DEFAULT_LIMITS, watch: ProgressCallback = ignore_progress
) -> Iterator[FoundPackage]:
    """Yield every skill at or below `path`. One that cannot be read is yielded with its error and does not stop the search."""
    check_exists(path, "Pass the path of a skill's folder, file or archive.")
    if path.is_file() and (use := _OTHER_FILES.get(path.name.lower().removesuffix(".json").removesuffix(".yaml"))):
        raise Invalid(f"{str(path)!r} is not a skill.", hint=use)
    targets = _each_once(find_skills(path, limits))
    if not targets:
        raise no_skill(
            path,
            "A skill is a folder with a SKILL.md, a skill.json, a package in JSON or YAML, or a .skill archive. "
            "To import a Markdown file as a skill, pass the path of the file.",
        )
    for done, target in enumerate(targets, start=1):
        # A person may name a link; links that are found below it are not trusted.
        if target != path and target.is_symlink() and leaves_project(target, path):
            yield FoundPackage(path=target, error=_link(target))
        else:
            yield from _read(target, limits)
        watch(Progress(done=done, total=len(targets)))
        check_cancelled()


def _each_once(targets: Iterable[Path]) -> list[Path]:
    """Return each skill once, by its own folder rather than by a link to it."""
    found = list(targets)
    real = {target for target in found if not target.is_symlink()}
    places = {real_path(target) for target in real}
    return [target for target in found if target in real or real_path(target) not in places]


def _link(target: Path) -> Refused:
    return Refused(
        f"{str(target)!r} is a link that points out of the project, to {str(real_path(target))!r}.",
        hint="Pass that folder directly if you want to use it.",
    )


def _read(target: Path, limits: Limits) -> Iterator[FoundPackage]:
    from prowess.storage.files.skill_packages import read_path  # imports archives, which listing never needs

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
    plan: ImportPlan | None = None,
    *,
    actor: str = "",
    limits: Limits = DEFAULT_LIMITS,
    watch: ProgressCallback = ignore_progress,
    folders: Collection[Path] = (),
) -> Iterator[ImportResult]:
    """Save every skill at or below `path`, in batches. A skill that cannot be saved is yielded with its error.

    The skills in `folders` are used from there. A copy of one would only conflict with it, so it is not stored unless it
    gets another slug.

    Raise `Invalid` if the plan has one slug for several skills.
    """
    plan = plan or ImportPlan()
    saved = 0
    source = find_packages(path, limits, lambda step: watch(replace(step, saved=saved)))
    if plan.slug:
        source = iter(_single(list(source), path))
    renames = plan.slug or plan.prefix or plan.on_conflict == "rename"
    roots = () if renames else tuple(real_path(folder) for folder in folders)
    for batch in _batches(source):
        # By the real path: a folder of an agent may be a link to the folder that the skills are used from.
        here = {found.path for found in batch if roots and any(map(real_path(found.path).is_relative_to, roots))}
        packages = [
            _rename(reading.package, plan, limits) for reading in batch if reading.package and reading.path not in here
        ]
        stored = iter(store.save_all(packages, replace=plan.on_conflict == "replace", actor=actor))
        for found in batch:
            if found.package is None:
                yield ImportResult(path=found.path, error=found.error)
                continue
            if found.path in here:
                yield ImportResult(path=found.path, skipped=True, in_place=True)
                continue
            result = next(stored)
            if isinstance(result.error, DuplicateSkill) and plan.on_conflict == "rename":
                result = _save_renamed(store, result, actor, limits)
            outcome = _outcome(found.path, result, plan, limits)
            saved += outcome.changed
            yield outcome


def _single(found: list[FoundPackage], path: Path) -> list[FoundPackage]:
    if len(found) != 1:
        raise Invalid(
            f"There are {len(found)} skills in {str(path)!r}, and --as gives one slug.",
            hint="Import one skill, or use --prefix NAME for all of them.",
        )
    return found


def _rename(package: Package, plan: ImportPlan, limits: Limits) -> Package:
    if not (plan.slug or plan.prefix):
        return package
    return _with_slug(package, lambda slug: plan.slug or f"{plan.prefix}.{slug}", limits)


def _with_slug(package: Package, choose: Callable[[str], str], limits: Limits) -> Package:
    """Return a package whose skill has another slug; as it is if it holds no valid skill, which saving it reports."""
    from prowess.skill.edit import rewrite_package
    from prowess.skill.forms.conversion import read_package

    skill = read_package(package, limits).skill
    if skill is None:
        return package
    return rewrite_package(skill.model_copy(update={"slug": choose(skill.slug)}), package, limits)


def _save_renamed(store: Store, result: SaveResult, actor: str, limits: Limits) -> SaveResult:
    """Save a package under the first slug that is free, or that has the same files already."""
    for number in range(2, MAX_RENAMES):
        package = _with_slug(result.package, lambda slug, number=number: _numbered(slug, number), limits)
        (again,) = store.save_all([package], replace=False, actor=actor)
        if not isinstance(again.error, DuplicateSkill):
            return again
    return result


def _numbered(slug: str, number: int) -> str:
    namespace, dot, name = slug.rpartition(".")
    return f"{namespace}{dot}{name[: MAX_NAME_CHARS - 4].rstrip('-')}-{number}"


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
    from prowess.scan import scan_package  # imported with the first skill: reading and listing need no scanner

    return scan_package(package)


def _outcome(path: Path, saved: SaveResult, plan: ImportPlan, limits: Limits) -> ImportResult:
    skill = saved.skill
    if skill is None:
        if isinstance(saved.error, DuplicateSkill) and plan.on_conflict == "skip":
            return ImportResult(path=path, skipped=True)
        return ImportResult(path=path, error=saved.error)
    return ImportResult(
        path=path,
        slug=skill.slug,
        form=skill.form,
        version=skill.version,
        digest=skill.digest,
        changed=saved.changed,
        problems=_warnings(saved.package, limits),
        findings=_scan(saved.package),
        chars=skill.content_length,
    )


def _warnings(package: Package, limits: Limits) -> tuple[Problem, ...]:
    found = validate(package, "prowess", limits).problems
    return tuple(problem for problem in found if problem.severity == "warning")
