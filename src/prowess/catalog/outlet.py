"""From a kept skill to files on disk: exported in its own form, in another, or fitted to a profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prowess.errors import Conflict, Invalid, Problem
from prowess.skill.archive import write_archive
from prowess.skill.fit import fit
from prowess.skill.forms import write_package
from prowess.skill.forms.form import Writing
from prowess.skill.model import FORM_NAMES, FormName, Skill
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName
from prowess.storage.atomic import write_file, write_folder

ArchiveName = Literal["skill", "zip", "tar.gz"]
ExportForm = FormName | ArchiveName
ARCHIVES: dict[str, Literal["zip", "tar.gz"]] = {"skill": "zip", "zip": "zip", "tar.gz": "tar.gz"}
EXPORT_FORMS: tuple[str, ...] = (*FORM_NAMES, *ARCHIVES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Where a skill was written, in which form, and what had to be left out."""

    path: Path
    form: str
    left_out: tuple[Problem, ...]


def export_skill(
    skill: Skill,
    package: Package,
    folder: Path,
    *,
    form: str | None = None,
    profile: ProfileName | None = None,
    replace: bool = False,
) -> Exported:
    """Write a skill below `folder`; without form and profile, its files come out byte for byte."""
    if form and profile:
        raise Invalid("Choose a form or a profile, not both.", hint="Use --form to convert, --profile to conform.")
    if folder.exists() and not folder.is_dir():
        raise Invalid(f"{str(folder)!r} is not a folder.", hint="Name the folder to write into.")
    if form in ARCHIVES:
        suffix = "." + form
        data = write_archive(package, ARCHIVES[form])
        return _as_file(folder / f"{package_name(skill)}{suffix}", data, form, (), replace=replace)
    writing, told = _write(skill, package, form, profile)
    return _place(skill, writing, told, folder, replace=replace)


def _write(skill: Skill, package: Package, form: str | None, profile: ProfileName | None) -> tuple[Writing, str]:
    if profile:
        return fit(skill, package, profile), profile
    for name in FORM_NAMES:
        if form == name:
            return write_package(skill, package, name), name
    if form:
        raise Invalid(f"There is no form {form!r}.", hint=f"There are: {', '.join(EXPORT_FORMS)}.")
    return Writing(package=package), skill.form


def _place(skill: Skill, writing: Writing, told: str, folder: Path, *, replace: bool) -> Exported:
    files = writing.package.files
    if len(files) == 1 and files[0].path.lower() != "skill.md":
        return _as_file(folder / files[0].path, files[0].content, told, writing.left_out, replace=replace)
    target = folder / (writing.package.name or package_name(skill))
    _check_free(target, replace=replace)
    folder.mkdir(parents=True, exist_ok=True)
    write_folder(writing.package, target, replace=replace)
    return Exported(path=target, form=told, left_out=writing.left_out)


def _as_file(path: Path, data: bytes, told: str, left_out: tuple[Problem, ...], *, replace: bool) -> Exported:
    _check_free(path, replace=replace)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, data)
    return Exported(path=path, form=told, left_out=left_out)


def _check_free(target: Path, *, replace: bool) -> None:
    if not replace and (target.exists() or target.is_symlink()):
        raise Conflict(f"{str(target)!r} is there already.", hint="Export elsewhere, or add --replace.")


def package_name(skill: Skill) -> str:
    """What a skill's folder is called: the last segment of its slug."""
    return skill.slug.rpartition(".")[2]
