"""Read skills from disk as packages: a folder, a single file with its companions, or an archive."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from prowess.errors import Invalid
from prowess.skill.archive import is_archive, read_archive
from prowess.skill.filenames import SINGLE_FILE_SUFFIXES, is_marker
from prowess.skill.forms.descriptor import choose_companions, find_companion_ids, find_function_files
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package, too_large_error
from prowess.storage.files.safe_read import (
    Reading,
    Snapshot,
    open_folder,
    read_regular_file,
    read_until_stable,
    snapshot_folder,
)
from prowess.storage.files.skill_paths import read_error

# strings and descriptors, as in safe_read.py
# ruff: noqa: PTH120, PTH208


_REGISTRY = "prompt-registry"


def snapshot_file(location: str, limits: Limits = DEFAULT_LIMITS, *, root: str = "") -> Snapshot:
    """Read one file as a skill. A YAML descriptor includes its function, and the prompt and rubric that it names.

    The function is in the descriptor's folder or below. Prompts and rubrics are in a folder `prompts`, `rubrics` or
    `prompt-registry` next to the descriptor or next to its folder. With `root`, nothing outside of it is read and no
    component of a path may be a link.
    """
    return read_until_stable(lambda: _read_single_file(location, limits, root))


def _read_single_file(location: str, limits: Limits, root: str) -> Snapshot:
    folder, _, name = location.rpartition("/")
    reading = Reading(limits)
    descriptor = open_folder(folder, root) if root else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        reading.file(descriptor, name, location, name)
    finally:
        os.close(descriptor)
    for registry, entry_id in find_companion_ids(name, reading.files[0].content, limits).items():
        _read_companions(registry, entry_id, _companion_folders(folder, root), reading, root)
    _read_function_file(find_function_files(name, reading.files[0].content, limits), folder, reading, root)
    return reading.snapshot(name.rpartition(".")[0] or name)


def _read_function_file(paths: tuple[str, ...], folder: str, reading: Reading, root: str) -> None:
    """Read the first of these files that exists."""
    for path in paths:
        below, _, name = f"{folder}/{path}".rpartition("/")
        try:
            descriptor = open_folder(below, root or folder)
        except OSError:
            continue
        try:
            reading.watch(below)  # the function may be added later
            if name in os.listdir(descriptor):
                reading.file(descriptor, name, f"{below}/{name}", path)
                return
        finally:
            os.close(descriptor)


def _companion_folders(folder: str, root: str) -> list[str]:
    parent = os.path.dirname(folder)
    outside = parent == folder or (root and parent != root and not parent.startswith(root + "/"))
    return [folder] if outside else [folder, parent]


def _read_companions(registry: str, entry_id: str, bases: list[str], reading: Reading, root: str) -> None:
    """Read the files of a registry entry from the first folder that has it."""
    for base in bases:
        reading.watch(base)  # a registry that is added later changes the stamp of this folder
        for folder in (registry, f"{_REGISTRY}/{registry}", _REGISTRY):
            if _read_registry_folder(f"{base}/{folder}", registry, entry_id, reading, root or base):
                return


def _read_registry_folder(folder: str, registry: str, entry_id: str, reading: Reading, root: str) -> bool:
    try:
        descriptor = open_folder(folder, root)
    except OSError:
        return False
    try:
        reading.watch(folder)

        def content(name: str) -> bytes:
            return read_regular_file(name, reading.limits.file_bytes, descriptor)

        names = choose_companions(registry, entry_id, os.listdir(descriptor), content)
        for name in names:
            reading.file(descriptor, name, f"{folder}/{name}", f"{registry}/{name}")
    finally:
        os.close(descriptor)
    return bool(names)


def read_folder(path: Path, limits: Limits = DEFAULT_LIMITS) -> Package:
    """Read a skill's folder; neither the folder nor anything in it may be a link."""
    try:
        if stat.S_ISLNK(path.lstat().st_mode):
            raise Invalid(f"{str(path)!r} is a symbolic link.", hint="Use the folder that it points to.")
        return snapshot_folder(str(path.absolute()), limits).package
    except OSError as error:
        raise read_error(path, error) from error


def read_path(path: Path, limits: Limits = DEFAULT_LIMITS) -> list[Package]:
    """Read the path that a user gave: a skill's folder, its SKILL.md, a single file, or an archive.

    The path itself may be a link, because the user chose it; nothing below it may.
    """
    try:
        location = Path(os.path.realpath(path, strict=True))
        if location.is_dir():
            return [snapshot_folder(str(location), limits).package]
        if is_marker(location.name):
            return [snapshot_folder(str(location.parent), limits).package]
        return _read_file(location, limits)
    except OSError as error:
        raise read_error(path, error) from error


def _read_file(location: Path, limits: Limits) -> list[Package]:
    if is_archive(read_regular_file(str(location), 512)):
        limit = limits.archive_bytes
        data = read_regular_file(str(location), limit + 1)
        if len(data) > limit:
            raise too_large_error("bytes in one archive", limit, "more", "max_archive_bytes")
        return read_archive(data, location.name, limits)
    if location.name.lower().endswith(SINGLE_FILE_SUFFIXES):
        return [snapshot_file(str(location), limits).package]
    raise Invalid(
        f"{str(location)!r} is not a skill: it is not an archive, Markdown, JSON or YAML.",
        hint="Use a folder with a SKILL.md, a .skill, .zip or .tar.gz archive, or a file whose name ends with "
        f"{', '.join(SINGLE_FILE_SUFFIXES[:-1])} or {SINGLE_FILE_SUFFIXES[-1]}.",
    )
