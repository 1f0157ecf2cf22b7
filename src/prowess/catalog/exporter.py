"""Export a skill to a folder, a single file or an archive."""

from __future__ import annotations

import os
from dataclasses import replace as changed
from pathlib import Path
from typing import Literal

from prowess.errors import Conflict, Invalid, Problem, Refused
from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import is_marker
from prowess.skill.form_info import FORMS
from prowess.skill.forms.form import Reading, Writing
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName
from prowess.storage.files.atomic_write import make_folder, write_file, write_folder
from prowess.storage.files.skill_paths import find_skills

ARCHIVES: dict[str, Literal["zip", "tar.gz"]] = {"skill": "zip", "zip": "zip", "tar.gz": "tar.gz"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The path and form of an exported skill, and the parts that were left out."""

    path: Path
    form: str
    left_out: tuple[Problem, ...]
    source: Reading | None = None
    """The skill that was exported, if something was left out."""

    def place(self, problem: Problem) -> str:
        """Return the file and line of the skill that a problem is about, as far as they are known."""
        from prowess.skill.positions import format_place

        return format_place(problem, self.source) if self.source else problem.place


def export_skill(
    skill: Skill,
    package: Package,
    folder: Path,
    *,
    name: str = "",
    form: str | None = None,
    profile: ProfileName | None = None,
    replace: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> ExportResult:
    """Write a skill below `folder`. Without form and profile, its files are written byte for byte."""
    if form and profile:
        raise Invalid(
            "--form and --profile cannot be combined.",
            hint="Use --form to convert the skill, or --profile to make it conform to a client.",
        )
    if os.path.lexists(folder) and not os.path.isdir(folder):  # noqa: PTH112  (False if the path is too long)
        raise Invalid(f"{str(folder)!r} is not a folder.", hint="Pass an existing folder.")
    if form in ARCHIVES:
        from prowess.skill.archive import write_archive

        path = folder / (name or f"{skill.name}.{form}")
        packed, left_out = _without_tests(package) if form == "skill" else (package, ())
        return _write_single_file(path, write_archive(packed, ARCHIVES[form]), form, left_out, replace=replace)
    writing, written_as = _convert(skill, package, form, profile, limits)
    named = writing.package.name if profile else ""
    result = _write_to(skill, writing, written_as, folder, named=named, replace=replace)
    if not result.left_out:
        return result
    from prowess.skill.forms.conversion import read_package

    return changed(result, source=read_package(package, limits))


def _without_tests(package: Package) -> tuple[Package, tuple[Problem, ...]]:
    """Return a package without the folder `evals`, which the packages of Claude do not have, and what was left out."""
    kept = tuple(file for file in package.files if not file.path.startswith("evals/"))
    count = len(package.files) - len(kept)
    if not count:
        return package, ()
    message = f"evals/ ({count} file{'s' * (count != 1)}) was left out: a .skill package has no tests."
    problem = Problem(code="left-out", severity="info", message=message, hint="To keep them, export a .zip.")
    return Package(name=package.name, files=kept), (problem,)


def _convert(
    skill: Skill, package: Package, form: str | None, profile: ProfileName | None, limits: Limits
) -> tuple[Writing, str]:
    # Imported only when needed: this brings the writers of all forms and profiles.
    from prowess.skill.fit import fit
    from prowess.skill.forms.conversion import write_package

    if profile:
        return fit(skill, package, profile, limits), profile
    if form in FORMS:
        return write_package(skill, package, form, limits), form
    if form:
        raise Invalid(f"Unknown form {form!r}.", hint=f"Use one of: {', '.join((*FORMS, *ARCHIVES))}.")
    return Writing(package=package), skill.form


def _write_to(
    skill: Skill, writing: Writing, written_as: str, folder: Path, *, named: str, replace: bool
) -> ExportResult:
    """Write a skill of one file as a file, others as a folder, named after the skill."""
    files = writing.package.files
    if not named and len(files) == 1 and not is_marker(files[0].path):
        path = folder / f"{skill.name}{Path(files[0].path).suffix}"
        return _write_single_file(path, files[0].content, written_as, writing.left_out, replace=replace)
    target = folder / (named or skill.name)
    _check_free(target, replace=replace)
    make_folder(folder)
    write_folder(writing.package, target, replace=replace)
    return ExportResult(path=target, form=written_as, left_out=writing.left_out)


def _write_single_file(
    path: Path, data: bytes, written_as: str, left_out: tuple[Problem, ...], *, replace: bool
) -> ExportResult:
    _check_free(path, replace=replace)
    make_folder(path.parent)
    write_file(path, data, replace=replace)
    return ExportResult(path=path, form=written_as, left_out=left_out)


def _check_free(target: Path, *, replace: bool) -> None:
    """Raise `Conflict` if the target exists, and `Refused` if it would be replaced but is not a skill."""
    if not os.path.lexists(target):
        return
    if not replace:
        raise Conflict(f"{str(target)!r} already exists.", hint="Export to another folder, or add --replace.")
    if target.is_dir() and any(target.iterdir()) and not _holds_a_skill(target):
        raise Refused(
            f"{str(target)!r} is a folder that is not a skill; replacing it would delete its content.",
            hint="Export to another folder, or remove this one first.",
        )


def _holds_a_skill(folder: Path) -> bool:
    found = next(find_skills(folder), None)
    return found is not None and folder in (found, found.parent)
