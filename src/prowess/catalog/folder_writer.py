"""Write and remove skills in a folder: choose a free path, write atomically, append a version."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

from prowess.catalog.editable_store import EditChange
from prowess.catalog.folder_index import DiskSkill, read_disk_skill
from prowess.catalog.folder_tree import FolderTree
from prowess.catalog.store_rules import accepted_skill, digest_conflict
from prowess.catalog.version_log import VersionLog
from prowess.errors import Conflict, ProwessError, Refused, Unavailable
from prowess.skill.filenames import has_marker, looks_like_skill
from prowess.skill.forms import read_package, write_package
from prowess.skill.forms.descriptor import choose_companions, find_companion_ids, find_function_files
from prowess.skill.forms.form import Reading
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Version
from prowess.skill.package import File, Package
from prowess.skill.validate import accept
from prowess.storage.files.atomic_write import recover_folder, remove_path, stage_package
from prowess.storage.files.folder_lock import lock_folder
from prowess.storage.files.skill_packages import read_folder

_MAX_TRIES = 1000


def _read_back(package: Package, name: str) -> Package | None:
    """Return the package that would be found in a folder of that name with these files, or None if a file would be missed."""
    top = [file for file in package.files if "/" not in file.path]
    if has_marker(file.path for file in top):
        return Package(name=name, files=package.files)
    # Without a SKILL.md, a folder is found by its one single-file skill. Every other file must belong to that, or it
    # would be missed.
    lock = [file for file in top if looks_like_skill(file.path, file.content)]
    if len(lock) != 1:
        return None
    found = {lock[0].path, *_companions(package, lock[0])}
    return Package(name=lock[0].path.rpartition(".")[0], files=package.files) if found == {*package.paths} else None


def _companions(package: Package, descriptor: File) -> Iterator[str]:
    for registry, asset_id in find_companion_ids(descriptor.path, descriptor.content).items():
        prefix = registry + "/"
        there = {file.path.removeprefix(prefix): file.content for file in package.files if file.path.startswith(prefix)}
        for name in choose_companions(registry, asset_id, there, there.__getitem__):
            yield prefix + name
    functions = find_function_files(descriptor.path, descriptor.content)
    yield from [path for path in functions if package.get(path) is not None][:1]


def free_place(reading: Reading, root: Path, limits: Limits = DEFAULT_LIMITS) -> Path:
    """Return a free folder in which the skill keeps its slug: its name, else its whole slug, else with a number."""
    skill, package = accepted_skill(reading)
    for path in islice(_candidates(skill.slug), _MAX_TRIES):
        target = root / path
        if not os.path.lexists(target) and _keeps_slug(package, target.name, skill.slug, limits):
            return target
    raise Conflict(f"There is no free folder name for {skill.slug!r} in {str(root)!r}.", hint="Choose another slug.")


def _candidates(slug: str) -> Iterator[str]:
    namespace, _, name = slug.rpartition(".")
    yield name
    yield slug
    for number in count(2):
        yield f"{slug}-{number}"
        yield f"{namespace or 'more'}-{number}/{name}"


def _keeps_slug(package: Package, name: str, slug: str, limits: Limits) -> bool:
    found = _read_back(package, name)
    if found is None:
        return False
    # With the same name and the same files the slug is the same; otherwise it may come from the name.
    skill = read_package(found, limits).skill if found.name != package.name else None
    return found.name == package.name or (skill is not None and skill.slug == slug)


class FolderWriter:
    """Writes and removes skills below a root, and updates the tree. The folder is created at the first write.

    A `frozen` folder belongs to an installed package and is never written to.
    """

    def __init__(
        self, tree: FolderTree, root: Path, versions: VersionLog, limits: Limits, *, frozen: bool = False
    ) -> None:
        self._frozen = frozen
        self._tree = tree
        self._root = root
        self._log = versions
        self._limits = limits

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the writer lock, with an up-to-date tree. Errors of the file system are raised as `Unavailable`."""
        if self._frozen:
            raise Refused(
                f"The skills in {str(self._root)!r} belong to an installed package and are read-only.",
                hint="Run `prowess export`, change the copy and run `prowess import` on it: your skill "
                "then takes precedence.",
            )
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            # Refreshed with the lock held, so that decisions are based on what is there until the write is done.
            with lock_folder(self._root):
                recover_folder(self._root)
                self._tree.refresh()
                yield
        except OSError as error:
            raise self.write_error(error) from error

    def write_error(self, error: OSError) -> Unavailable:
        """Return the error for a failed write."""
        return Unavailable(
            f"Cannot write to the folder {str(self._root)!r}: {error.strerror or error}.",
            hint="Check its permissions and the free disk space.",
        )

    def as_stored(self, reading: Reading) -> Reading:
        """Return the reading if a folder with its files reads back the same; else one of the same skill in the native form."""
        skill, package = accepted_skill(reading)
        if _keeps_slug(package, skill.name, skill.slug, self._limits):
            return reading
        return accept(write_package(skill, package, "native", limits=self._limits).package, self._limits)

    def files(self, disk_skill: DiskSkill) -> Package:
        """Return the current files of a skill on disk."""
        return read_disk_skill(
            disk_skill.location, str(self._root), self._limits, single_file=disk_skill.single_file
        ).package

    def record_manual_changes(self, disk_skill: DiskSkill) -> Package:
        """Return the files of a skill. Changes made manually since the last version are recorded as a version first."""
        package = self.files(disk_skill)
        if package.digest != disk_skill.digest:
            raise digest_conflict(disk_skill.slug, disk_skill.digest, package.digest)
        ends = self._log.ends(disk_skill.slug)
        # Files edited manually are in no version yet; without this, replacing them would lose them.
        if ends is None or ends[1].change == "delete" or ends[1].digest != package.digest:
            reading = accept(package, self._limits)
            change: EditChange = "update" if ends else "create"
            self._log.append(disk_skill.slug, package, form=reading.form, change=change, note="as found in the folder")
        return package

    def write(self, reading: Reading, disk_skill: DiskSkill | None, record: Callable[[], Version]) -> Version:
        """Stage the new files, record the version, then move them into place: over `disk_skill`, or to a new location."""
        package = reading.package
        single_file = (
            disk_skill is not None and disk_skill.single_file and package.paths == (Path(disk_skill.location).name,)
        )
        home = (
            None
            if disk_skill is None
            else Path(disk_skill.location)
            if single_file
            else self._removable_path(disk_skill)
        )
        # A single file that becomes a folder gets a new place, and the file is removed by the same write.
        stays = home is not None and (single_file or home.is_dir())
        target = home if home is not None and stays else free_place(reading, self._root, self._limits)
        with stage_package(package, self._root, single_file=single_file) as stage:
            # Before the files move: if the log fails, nothing is written.
            version = record()
            target.parent.mkdir(parents=True, exist_ok=True)
            if home is None:
                stage.place(target)
            else:
                stage.replace(target, home)
        if disk_skill is not None and disk_skill.location != str(target):
            self._tree.rescan(disk_skill.location, single_file=disk_skill.single_file)
        self._tree.scan_written(str(target))
        return version

    def check_removable(self, disk_skill: DiskSkill) -> None:
        """Raise `Refused` if a skill's folder is a git repository: only its files are kept as a version, not its history."""
        path = self._removable_path(disk_skill)
        if os.path.lexists(path / ".git"):
            raise Refused(
                f"{str(path)!r} is a git repository, so deleting the skill would delete its history, too.",
                hint="If you do not need it, remove the folder `.git` and try again.",
            )

    def remove(self, disk_skill: DiskSkill) -> None:
        """Remove a skill with its files."""
        remove_path(self._removable_path(disk_skill), self._root)
        self._tree.rescan(disk_skill.location, single_file=disk_skill.single_file)

    def _removable_path(self, disk_skill: DiskSkill) -> Path:
        """Return what to remove with the skill: its folder; its file; or the file's folder, if it contains nothing else."""
        location = Path(disk_skill.location)
        if disk_skill.single_file and location.parent != self._root:
            with suppress(ProwessError):
                if read_folder(location.parent, self._limits).digest == disk_skill.digest:
                    return location.parent
        return location
