"""Place the files of a skill where agents read them, and remove them again.

A skill has one folder, `<base>/.agents/skills/<name>`; an agent that reads another folder gets a relative link to it there, or a
copy where links cannot be made or were not wanted. Nothing that Prowess did not place is overwritten or removed, and in a project
no link leads a write out of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prowess.errors import Conflict, ProwessError, Refused
from prowess.skill.package import Package
from prowess.sources.agents import SHARED_FOLDER, project_skills_folder, user_skills_folder
from prowess.sources.lock.prowess_lock import OWN_LOCK, InstallMode
from prowess.sources.lock.skills_lock import PROJECT_LOCK, USER_LOCK
from prowess.storage.files.atomic_write import recover_folder, remove_path, write_folder
from prowess.storage.files.folder_lock import lock_folder
from prowess.storage.files.skill_packages import read_folder

_LEFT_OUT_FILES = frozenset({"metadata.json"})
_LEFT_OUT_FOLDERS = frozenset({".git", "__pycache__", "__pypackages__"})

PlaceState = Literal["free", "ours", "same", "edited", "foreign"]
"""The state of a place: nothing, our files, the same files by someone else, ours but edited, or something else.

Prowess takes over no files of someone else, even if they are the same: removing the skill would delete them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Where skills are installed: in a project, or in a home folder for all projects of a user."""

    root: Path
    environment: Mapping[str, str]
    is_user: bool = False

    @property
    def shared(self) -> Path:
        """The folder that most agents read."""
        return self.root / SHARED_FOLDER

    @property
    def lock_folder(self) -> Path:
        """The folder that is locked during a change, with `prowess.lock` in it."""
        return self.root / ".agents" if self.is_user else self.root

    @property
    def prowess_lock(self) -> Path:
        """The path of `prowess.lock`."""
        return self.lock_folder / OWN_LOCK

    @property
    def skills_lock(self) -> Path:
        """The path of the lock file of the skills CLI."""
        if not self.is_user:
            return self.root / PROJECT_LOCK
        state = self.environment.get("XDG_STATE_HOME")
        return Path(state) / "skills" / USER_LOCK if state else self.lock_folder / USER_LOCK

    def folder_of(self, agent: str) -> Path:
        """Return where an agent reads skills."""
        if self.is_user:
            return user_skills_folder(agent, self.root, self.environment)
        return project_skills_folder(agent, self.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One path where a skill is placed: as a folder, or as a link to the shared one."""

    path: Path
    agents: tuple[str, ...] = ()
    link: bool = False


def plan_places(
    base: Base, folder: str, agents: Sequence[str], mode: InstallMode, copied: Iterable[str] = ()
) -> tuple[Place, ...]:
    """Return where a skill is placed for these agents, the shared folder first. `copied` are agents that get a copy, not a link."""
    shared = base.shared / folder
    real = os.path.realpath(base.shared)
    readers: dict[Path, list[str]] = {}
    for agent in agents:
        where = base.folder_of(agent)
        # `.claude/skills` is often a link to `.agents/skills`; a link in it would lead to itself.
        path = shared if os.path.realpath(where) == real else where / folder
        readers.setdefault(path, []).append(agent)
    links = {path for path in readers if path != shared and mode == "symlink" and not {*readers[path]} & {*copied}}
    found = [Place(path=path, agents=tuple(names), link=path in links) for path, names in readers.items()]
    if mode == "symlink" and shared not in readers:
        found.append(Place(path=shared))
    return tuple(sorted(found, key=lambda place: (place.path != shared, str(place.path))))


def placed_package(package: Package, folder: str) -> Package:
    """Return the files that are placed: without those that the skills CLI leaves out, too."""
    files = [file for file in package.files if not is_left_out(file.path)]
    return Package(name=folder, files=tuple(files))


def is_left_out(path: str) -> bool:
    """Return True if a file of a source is not placed."""
    *folders, name = path.split("/")
    return name in _LEFT_OUT_FILES or any(part in _LEFT_OUT_FOLDERS for part in folders)


def look_at(
    place: Place, base: Base, folder: str, *, known: str = "", new_digest: str = "", recorded: bool = False
) -> PlaceState:
    """Return what is at a place. `known` is the digest that was placed before and `new_digest` the one to be placed.

    `recorded` is True if a lock file says that this skill is installed at this place.
    """
    if not os.path.lexists(place.path):
        return "free"
    shared = base.shared / folder
    if place.path.is_symlink():
        leads = os.path.realpath(place.path.parent / os.readlink(place.path))  # noqa: PTH115
        return "ours" if place.path != shared and leads == os.path.realpath(shared) else "foreign"
    digest = read_digest(place.path)
    is_new = bool(digest) and digest == new_digest
    # A repository in the folder is the work of a person, although it is no part of the skill.
    if ((digest and digest == known) or (recorded and is_new)) and not os.path.lexists(place.path / ".git"):
        return "ours"
    if recorded and place.path.is_dir():
        return "edited"
    return "same" if is_new else "foreign"


def read_digest(path: Path) -> str:
    """Return the digest of a skill's folder; '' if it cannot be read as one."""
    try:
        return read_folder(path).digest
    except ProwessError:
        return ""


def check_inside(path: Path, base: Base) -> None:
    """Raise `Refused` if a link in a project leads a path out of it. In a home folder links are its owner's own."""
    if base.is_user:
        return
    root = os.path.realpath(base.root)
    real = os.path.realpath(path.parent)
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        raise Refused(
            f"{str(path.parent)!r} leads out of the project, to {real!r}.",
            hint="Remove the link, or install for other agents with --agent.",
        )


def missing_folders(places: Sequence[Place], base: Base) -> list[str]:
    """Return the folders inside the base that placing a skill would make, relative to it."""
    found: set[str] = set()
    for place in places:
        folder = place.path.parent
        while not folder.is_dir() and folder.is_relative_to(base.root):
            found.add(str(folder.relative_to(base.root)))
            folder = folder.parent
    return sorted(found)


def place_files(package: Package, places: Sequence[Place], base: Base) -> list[str]:
    """Write a skill to its places, and return the agents that got a copy because a link could not be made.

    Each folder changes in one step: a reader, or a crash, finds the old or the new files. What is there is replaced; the caller
    has looked at it.
    """
    copied: list[str] = []
    for place in places:
        check_inside(place.path, base)
        place.path.parent.mkdir(parents=True, exist_ok=True)
        is_link = place.path.is_symlink()
        if place.link and is_link:
            continue
        if is_link:
            place.path.unlink()
        elif place.link and os.path.lexists(place.path):
            _remove_folder(place.path)
        if not place.link:
            _write(package, place.path)
        elif not _link(place.path, base.shared / package.name):
            _write(package, place.path)
            copied += place.agents
    return copied


def _write(package: Package, path: Path) -> None:
    if not os.path.lexists(path) or read_digest(path) != package.digest:
        write_folder(package, path, replace=True)


def _remove_folder(path: Path) -> None:
    with lock_folder(path.parent):
        recover_folder(path.parent)
        remove_path(path, path.parent)


def _link(path: Path, target: Path) -> bool:
    """Make a relative link; return False if the file system has none, or something is there."""
    try:
        start = os.path.realpath(path.parent)
        path.symlink_to(os.path.relpath(os.path.realpath(target), start), target_is_directory=True)
    except OSError:
        return False
    return True


def clean_up(places: Sequence[Place], base: Base) -> None:
    """Remove what a killed process left in the folders of these places, and bring back what it was about to replace."""
    for folder in dict.fromkeys(place.path.parent for place in places):
        if folder.is_dir():
            check_inside(folder / "x", base)
            with lock_folder(folder):
                recover_folder(folder)


def remove_files(places: Sequence[Place], base: Base) -> list[Path]:
    """Remove a skill from its places, links first, and return what was removed. The caller has looked at all of them."""
    removed: list[Path] = []
    for place in sorted(places, key=lambda place: not place.link):
        check_inside(place.path, base)
        if not os.path.lexists(place.path):
            continue
        if place.path.is_symlink():
            place.path.unlink()
        elif place.path.is_dir():
            _remove_folder(place.path)
        else:
            raise Conflict(f"{str(place.path)!r} is not a folder.", hint="Move it away.")
        removed.append(place.path)
    return removed


def remove_empty(created: Iterable[str], base: Base) -> list[str]:
    """Remove the folders among these that are empty, inner ones first; return those that stay."""
    left: list[str] = []
    for path in sorted(created, key=lambda path: (-path.count("/"), path)):
        folder = base.root / path
        with suppress(OSError, Refused):
            check_inside(folder / "x", base)
            if folder.is_dir() and not folder.is_symlink():
                folder.rmdir()
        if folder.is_dir():
            left.append(path)
    return sorted(left)
