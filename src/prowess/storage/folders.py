"""Skills on disk: what a person or a store points at, read as packages, and what lies below a folder, found."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from prowess.errors import Invalid, NotFound, ProwessError
from prowess.skill.archive import is_archive, read_archive
from prowess.skill.borders import LONE_SUFFIXES, has_marker, is_marker, looks_like_skill
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package, too_large
from prowess.storage.atomic import PREFIX
from prowess.storage.lone import snapshot_file
from prowess.storage.reading import read_regular, snapshot_folder

PASSED_BY = frozenset({".git", "__pycache__", "node_modules", "dist", "build", ".venv", ".prowess"})
"""Folders in which nobody keeps skills, or only copies of them."""

DEPTH = 12
ENTRIES = 1_000_000


def read_folder(path: Path, limits: Limits = DEFAULT_LIMITS) -> Package:
    """Read a skill's folder; the folder itself must not be a link, nor anything in it."""
    try:
        if stat.S_ISLNK(path.lstat().st_mode):
            raise Invalid(f"{str(path)!r} is a symbolic link.", hint="Name the folder that it leads to.")
        return snapshot_folder(str(path.absolute()), limits).package
    except OSError as error:
        raise read_refused(path, error) from error


def read_path(path: Path, limits: Limits = DEFAULT_LIMITS) -> list[Package]:
    """Read whatever a person points at: a skill's folder, its SKILL.md, a single file, or an archive.

    The path itself may be a link, since the person chose it; what lies below may not.
    """
    try:
        location = path.resolve(strict=True)
        if location.is_dir():
            return [snapshot_folder(str(location), limits).package]
        if is_marker(location.name):
            return [snapshot_folder(str(location.parent), limits).package]
        return _read_file(location, limits)
    except OSError as error:
        raise read_refused(path, error) from error


def _read_file(location: Path, limits: Limits) -> list[Package]:
    if is_archive(read_regular(str(location), 512)):
        most = limits.archive_bytes
        data = read_regular(str(location), most + 1)
        if len(data) > most:
            raise too_large("bytes in one archive", most, "more", "max_archive_bytes")
        return read_archive(data, location.name, limits)
    if location.name.lower().endswith(LONE_SUFFIXES):
        return [snapshot_file(str(location), limits).package]
    raise Invalid(
        f"{str(location)!r} is no skill: neither an archive nor markdown, JSON or YAML.",
        hint="Give a folder with a SKILL.md, a single skill file, or a .skill, .zip or .tar.gz archive.",
    )


def read_refused(path: Path, error: OSError) -> ProwessError:
    """The error for what the system would not let us read."""
    if isinstance(error, FileNotFoundError):
        return NotFound(f"There is nothing at {str(path)!r}.", hint="Check the path.")
    reason = error.strerror or str(error)
    return Invalid(f"{str(path)!r} cannot be read: {reason}.", hint="Check its permissions, and what it is.")


def find_skills(path: Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[Path]:
    """Every skill at or below a path, sorted: the path itself if it is a skill or a file, else what lies below.

    A folder that is a skill is not searched further. Single files count if they look like a skill. Links are not
    followed, but one to a skill's folder is given, as other installers make them: `leads_out` says whose it is.
    """
    if path.is_dir():
        try:
            os.scandir(path).close()
        except OSError as error:
            raise read_refused(path, error) from error
        budget = _Budget(path)
        yield from _find(path, limits, budget, DEPTH)
    elif path.exists():
        yield path
    else:
        raise NotFound(f"There is nothing at {str(path)!r}.", hint="Check the path.")


def leads_out(link: Path, root: Path) -> bool:
    """Whether a link below `root` leads out of the project: its repository, or the current folder around it."""
    target, root = link.resolve(), root.resolve()
    here = Path.cwd()
    repository = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    bases = [root, repository, *([here] if root.is_relative_to(here) else [])]
    return not any(target.is_relative_to(base) for base in bases)


def _is_linked_skill(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and entry.is_dir() and has_marker(child.name for child in Path(entry.path).iterdir())
    except OSError:
        return False


class _Budget:
    """How many entries may still be looked at."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left = ENTRIES

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise Invalid(
                f"There are more than {ENTRIES:,} files and folders in {str(self._root)!r}.",
                hint="Name the folder that holds the skills.",
            )


def _find(folder: Path, limits: Limits, budget: _Budget, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    budget.spend(len(entries))
    if has_marker(entry.name for entry in entries):
        yield folder
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth and entry.name not in PASSED_BY and not entry.name.startswith(PREFIX):
                yield from _find(folder / entry.name, limits, budget, depth - 1)
        elif _is_skill_file(entry, limits) or _is_linked_skill(entry):
            yield folder / entry.name


def _is_skill_file(entry: os.DirEntry[str], limits: Limits) -> bool:
    name = entry.name
    try:
        if not entry.is_file(follow_symlinks=False):
            return False
        if name.endswith(".skill"):
            return is_archive(read_regular(entry.path, 512))
        return name.endswith(LONE_SUFFIXES) and looks_like_skill(name, read_regular(entry.path, limits.file_bytes))
    except (OSError, Invalid):
        return False
