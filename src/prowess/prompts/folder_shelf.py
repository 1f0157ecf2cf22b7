"""Prompts and rubrics in folders: one file each, read again only when it has changed.

A workspace may come from anyone, so links are not followed, large files are not read, and a file that cannot be used
becomes an entry that says why.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.paths import real_path
from prowess.prompts.shelf import EntryKind, RegistryEntry, failed_entry, is_entry_name, read_entry
from prowess.skill.forms.form import error, too_large_problem
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.storage.files.freshness import Stamp, is_settled, make_stamp
from prowess.storage.files.safe_read import open_folder, read_regular_file
from prowess.storage.files.skill_paths import check_exists, read_error

# Files are opened relative to the descriptor of the folder that was listed: a path could lead elsewhere by then.


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file of a shelf, as listed."""

    descriptor: int
    name: str
    location: str
    stamp: Stamp


class FolderShelf:
    """The prompts and rubrics in some folders below `root` ('' for itself). No path from there to a file may have a link.

    Organizations see them only if they are `shared`; those in the home folder belong to the operator.
    """

    def __init__(
        self,
        root: Path,
        folders: Mapping[EntryKind, Sequence[str]],
        *,
        origin: str,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = time.time_ns,
        shared: bool = True,
    ) -> None:
        self._root = str(root)
        self._folders = folders
        self._origin = origin
        self._limits = limits
        self._clock = clock
        self._shared = shared
        self._known: dict[EntryKind, dict[str, tuple[Stamp, RegistryEntry]]] = {}

    def entries(self, kind: EntryKind, organization: str, id: str | None = None) -> Sequence[RegistryEntry]:
        """Return the entries that are there now; of two with the same id and version, the first by path counts."""
        if organization and not self._shared:
            return []
        known = self._known.get(kind, {})
        fresh: dict[str, tuple[Stamp, RegistryEntry]] = {}
        found: list[RegistryEntry] = []
        for folder in self._folders[kind]:
            found += self._folder(kind, f"{self._root}/{folder}".rstrip("/"), known, fresh)
        # Only what was seen this time is kept, so that deleted files are forgotten.
        self._known[kind] = fresh
        return [entry for entry in _each_once(found) if id in (None, entry.id)]

    def _folder(
        self,
        kind: EntryKind,
        location: str,
        known: Mapping[str, tuple[Stamp, RegistryEntry]],
        fresh: dict[str, tuple[Stamp, RegistryEntry]],
    ) -> Iterator[RegistryEntry]:
        count, size = 0, 0
        try:
            descriptor = open_folder(location, self._root)
        except FileNotFoundError:
            return
        except OSError as refused:
            yield self._failed(kind, location, f"cannot be opened: {refused.strerror}")
            return
        try:
            for file in self._walk(kind, descriptor, location, self._limits.depth):
                # A workspace may come from anyone, so a shelf has limits as a skill does.
                count, size = count + 1, size + file.stamp[2]
                if count > self._limits.files or size > self._limits.skill_bytes:
                    yield self._failed(kind, location, "exceeds the limit of files or bytes; the rest is ignored")
                    return
                yield self._entry(kind, file, known, fresh)
        finally:
            os.close(descriptor)

    def _walk(self, kind: EntryKind, descriptor: int, location: str, depth: int) -> Iterator[_File]:
        """Yield the files whose names suggest entries, while their folder is open; skip hidden ones."""
        # Sorted, so that of two files with the same entry it is always the same one that counts.
        for name in sorted(os.listdir(descriptor)):
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:  # it was deleted in the meantime
                continue
            below = f"{location}/{name}"
            if is_entry_name(kind, name) and not stat.S_ISDIR(status.st_mode):
                yield _File(descriptor=descriptor, name=name, location=below, stamp=make_stamp(status))
            elif stat.S_ISDIR(status.st_mode) and depth > 1 and not name.startswith("."):
                yield from self._inner(kind, descriptor, name, below, depth - 1)

    def _inner(self, kind: EntryKind, descriptor: int, name: str, location: str, depth: int) -> Iterator[_File]:
        try:
            # O_NOFOLLOW: the folder may have been replaced by a link since it was listed.
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        except OSError:
            return
        try:
            yield from self._walk(kind, inner, location, depth)
        finally:
            os.close(inner)

    def _entry(
        self,
        kind: EntryKind,
        file: _File,
        known: Mapping[str, tuple[Stamp, RegistryEntry]],
        fresh: dict[str, tuple[Stamp, RegistryEntry]],
    ) -> RegistryEntry:
        before = known.get(file.location)
        if before is not None and before[0] == file.stamp:
            fresh[file.location] = before
            return before[1]
        # Taken before the file is read: one that changed just before could change again without a new stamp, so it is
        # not cached.
        read_at = self._clock()
        entry = self._read(kind, file)
        if is_settled(file.stamp, read_at):
            fresh[file.location] = (file.stamp, entry)
        return entry

    def _read(self, kind: EntryKind, file: _File) -> RegistryEntry:
        display_name = _shown(file.name)
        if file.stamp[2] > self._limits.file_bytes:
            problem = too_large_problem(display_name, file.stamp[2], self._limits.file_bytes)
            return failed_entry(kind, display_name, [problem], origin=self._origin, location=_shown(file.location))
        try:
            # One byte more than the limit shows that the file has grown since it was listed.
            data = read_regular_file(file.name, self._limits.file_bytes + 1, file.descriptor)
        except Invalid as refused:
            return self._failed(kind, file.location, "", _unreadable(refused.message, refused.hint, display_name))
        except OSError as refused:
            return self._failed(kind, file.location, f"cannot be read: {refused.strerror}")
        location = _shown(file.location)
        return read_entry(kind, display_name, data, origin=self._origin, location=location, limits=self._limits)

    def _failed(self, kind: EntryKind, location: str, why: str, problem: Problem | None = None) -> RegistryEntry:
        display_path = _shown(location)
        name = display_path.rpartition("/")[2]
        fault = problem or _unreadable(f"{display_path!r} {why}.", "Check the file type and its permissions.", name)
        return failed_entry(kind, name, [fault], origin=self._origin, location=display_path)


def _each_once(entries: Sequence[RegistryEntry]) -> Iterator[RegistryEntry]:
    """Yield the entries; one whose id and version came before loses its value."""
    first: dict[tuple[str, str], RegistryEntry] = {}
    for entry in entries:
        other = first.setdefault((entry.id, entry.version), entry)
        if other is entry:
            yield entry
        else:
            message = f"{entry.location} is ignored: {other.location} already defines {entry.label!r}."
            twice = error("registry-duplicate", message, "Change its id or version.", field=entry.location)
            yield replace(entry, value=None, problems=(*entry.problems, twice))


def _unreadable(message: str, hint: str, field: str) -> Problem:
    return error("registry-unreadable", message, hint, field=field)


def _shown(path: str) -> str:
    """Return a path as valid text, whatever bytes it has."""
    return path.encode(errors="replace").decode(errors="replace")


FILE_ORIGIN = "file"


def read_entry_files(
    kind: EntryKind, paths: Sequence[Path], limits: Limits = DEFAULT_LIMITS
) -> Iterator[RegistryEntry]:
    """Yield the entries in files and folders; raise `NotFound` for a path that does not exist, `Invalid` for a file of another type.

    A path itself may be a link, because a person chose it; nothing below it may.
    """
    for path in paths:
        check_exists(path, f"Check the path, or run `prowess {kind}s list`.")
        if path.is_dir():
            yield from FolderShelf(real_path(path), {kind: [""]}, origin=FILE_ORIGIN, limits=limits).entries(kind, "")
        elif not is_entry_name(kind, path.name):
            raise Invalid(f"{str(path)!r} does not have a file name of a {kind}.", hint=_HINTS[kind])
        else:
            yield _read(kind, path, limits)


def _read(kind: EntryKind, path: Path, limits: Limits) -> RegistryEntry:
    try:
        data = read_regular_file(str(real_path(path)), limits.file_bytes + 1)
    except Invalid as refused:
        problem = error("registry-unreadable", refused.message, refused.hint, field=path.name)
        return failed_entry(kind, path.name, [problem], origin=FILE_ORIGIN, location=str(path))
    except OSError as refused:
        raise read_error(path, refused) from refused
    return read_entry(kind, path.name, data, origin=FILE_ORIGIN, location=str(path), limits=limits)


_HINTS: dict[EntryKind, str] = {
    "prompt": "Use a .json, .yaml, .mustache or .j2 file.",
    "rubric": "Use a .json or .yaml file.",
}
