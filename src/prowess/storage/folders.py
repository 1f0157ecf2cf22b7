"""Skills on disk: what a person or a store points at, read as packages."""

from __future__ import annotations

import stat
from pathlib import Path

from prowess.errors import Invalid
from prowess.skill.archive import is_archive, read_archive
from prowess.skill.borders import LONE_SUFFIXES, is_marker
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package, too_large
from prowess.storage.finding import read_refused
from prowess.storage.lone import snapshot_file
from prowess.storage.reading import read_regular, snapshot_folder


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
