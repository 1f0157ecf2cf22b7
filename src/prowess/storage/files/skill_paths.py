"""Find skills below a folder. Runs at every start, so it imports nothing slow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prowess.errors import Invalid, NotFound, ProwessError
from prowess.paths import real_path
from prowess.skill.filenames import SINGLE_FILE_SUFFIXES, has_marker, looks_like_skill
from prowess.skill.limits import DEFAULT_LIMITS, Limits

TEMP_PREFIX = ".prowess-tmp-"
"""Prefix of the temporary folders of writers; nothing in them is a skill yet."""

IGNORED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", "dist", "build", ".venv", ".prowess"})
"""Folders that contain no skills, or only copies of them."""

MAX_DEPTH = 12
MAX_ENTRIES = 1_000_000


def read_error(path: Path, error: OSError) -> ProwessError:
    """Return the error for a path that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{str(path)!r} does not exist.", hint="Check the path.")
    reason = error.strerror or str(error)
    return Invalid(f"Cannot read {str(path)!r}: {reason}.", hint="Check the path, its permissions and its type.")


def check_exists(path: Path, hint: str = "Check the path.") -> None:
    """Raise `NotFound` if a path does not exist, and `Invalid` if the file system cannot tell, as for a path that is too long."""
    try:
        exists = path.exists()
    except OSError as error:
        raise read_error(path, error) from error
    if not exists:
        raise NotFound(f"{str(path)!r} does not exist.", hint=hint)


def no_skill(path: Path, hint: str) -> NotFound:
    """Return the error for a folder or file without a skill. The hint names an archive in the folder, if there is one."""
    suffixes = (".zip", ".skill", ".tar.gz", ".tgz")
    with suppress(OSError):
        archives = sorted(found for found in path.iterdir() if found.name.lower().endswith(suffixes))
        if archives:
            hint = f"Archives in a folder are not opened. Pass the path of one, for example {str(archives[0])!r}."
    return NotFound(f"No skill found in {str(path)!r}.", hint=hint)


def find_skills(path: Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[Path]:
    """Yield every skill at or below a path, sorted: the path itself if it is a skill or a file, otherwise what is below.

    A folder that is a skill is not searched further. Single files count if they look like a skill. Links are not
    followed, but a link to a skill's folder is yielded, because other installers make them; see `leaves_project`.
    """
    check_exists(path)
    if path.is_dir():
        try:
            # `_walk` skips folders that cannot be listed; for the folder that the caller named, that is an error.
            os.scandir(path).close()
        except OSError as error:
            raise read_error(path, error) from error
        budget = _EntryBudget(path)
        yield from _walk(path, limits, budget, MAX_DEPTH)
    else:
        yield path


def leaves_project(link: Path, root: Path) -> bool:
    """Return True if a link below `root` points out of the project: its repository, or the current folder around it."""
    target, root = real_path(link), real_path(root)
    here = Path.cwd()
    repository = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    bases = [root, repository, *([here] if root.is_relative_to(here) else [])]
    return not any(target.is_relative_to(base) for base in bases)


def _is_linked_skill(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and entry.is_dir() and has_marker(child.name for child in Path(entry.path).iterdir())
    except OSError:
        return False


class _EntryBudget:
    """Limits how many entries a search looks at."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left = MAX_ENTRIES

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise Invalid(
                f"{str(self._root)!r} contains more than {MAX_ENTRIES:,} files and folders.",
                hint="Use the folder that contains the skills.",
            )


def _walk(folder: Path, limits: Limits, budget: _EntryBudget, depth: int) -> Iterator[Path]:
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
            if depth and entry.name not in IGNORED_FOLDERS and not entry.name.startswith(TEMP_PREFIX):
                yield from _walk(folder / entry.name, limits, budget, depth - 1)
        elif _is_skill_file(entry, limits) or _is_linked_skill(entry):
            yield folder / entry.name


def _is_skill_file(entry: os.DirEntry[str], limits: Limits) -> bool:
    name = entry.name
    if not name.endswith((*SINGLE_FILE_SUFFIXES, ".skill")):
        return False
    from prowess.storage.files.safe_read import read_regular_file

    try:
        if not entry.is_file(follow_symlinks=False):
            return False
        if name.endswith(".skill"):
            from prowess.skill.archive import is_archive

            return is_archive(read_regular_file(entry.path, 512))
        return looks_like_skill(name, read_regular_file(entry.path, limits.file_bytes))
    except (OSError, Invalid):
        return False
