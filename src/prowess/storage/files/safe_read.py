"""Read files safely: regular files only, never through a link, never more than the limits allow.

Every file is opened relative to the folder that was listed, without following links, and is checked again through its
descriptor. Anything that is not a regular file is rejected by name and never opened for reading.

A hard link is a regular file, and another name for a file that may be anywhere: a private key, for example. A skill is read
only if all links of its files are inside it. Package managers link the files that they install from a cache (uv, pnpm), so
in their folders a link from elsewhere is accepted for world-readable files.
"""

# paths here are strings and descriptors: this is the hot path, and opening relative to a folder needs them
# ruff: noqa: PTH116, PTH119, PTH123
from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import is_ignored
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import File, Package, check_path, check_size, too_large_error
from prowess.storage.files.freshness import Stamp, is_settled, make_stamp, stamps_match

# O_NONBLOCK: if a pipe takes the place of the file before it is opened, opening must not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_MAX_ATTEMPTS = 5

_MANAGED_FOLDERS = frozenset({"site-packages", "dist-packages", "node_modules"})

_FILE_TYPES = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A skill as it was read, and the stamp of every file and folder that it was read from.

    While all stamps match, the skill on disk is unchanged, provided that `settled` is True.
    """

    package: Package
    stamps: tuple[tuple[str, Stamp], ...]
    settled: bool


class Reading:
    """Reads files and collects them with their stamps and running totals."""

    def __init__(self, limits: Limits) -> None:
        self.files: list[File] = []
        self.stamps: list[tuple[str, Stamp]] = []
        self.limits = limits
        self._total = 0
        self._links: dict[tuple[int, int], list[tuple[str, str, os.stat_result]]] = {}
        self._read_at = time.time_ns()

    def watch(self, location: str) -> None:
        """Record the stamp of a folder whose entries decide what is read."""
        self.stamps.append((location, make_stamp(os.stat(location, follow_symlinks=False))))

    def folder(self, descriptor: int, location: str, inside: str = "") -> None:
        """Read everything below an open folder; `inside` is its path in the skill."""
        self.stamps.append((location, make_stamp(os.fstat(descriptor))))
        for name in sorted(os.listdir(descriptor)):
            if not is_ignored(name):
                self._entry(descriptor, name, f"{location}/{name}", f"{inside}/{name}" if inside else name)

    def _entry(self, descriptor: int, name: str, location: str, path: str) -> None:
        check_path(path, self.limits)
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            inner = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
            try:
                self.folder(inner, location, path)
            finally:
                os.close(inner)
        else:
            self.file(descriptor, name, location, path, status)

    def file(self, descriptor: int, name: str, location: str, path: str, seen: os.stat_result | None = None) -> None:
        """Read one file of an open folder; `path` is its path in the skill, and `seen` its status if that is known."""
        if len(self.files) >= self.limits.files:
            raise too_large_error("files in one skill", self.limits.files, f"more, from {path!r} on", "max_files")
        opened, status = _open_regular(name, path, descriptor, seen)
        try:
            content = _read(opened, path, status.st_size, self.limits)
        finally:
            os.close(opened)
        self._total += len(content)
        if self._total > self.limits.skill_bytes:
            raise too_large_error(
                "bytes in one skill", self.limits.skill_bytes, f"more, with {path!r}", "max_skill_bytes"
            )
        if status.st_nlink > 1:
            self._links.setdefault((status.st_dev, status.st_ino), []).append((path, location, status))
        self.stamps.append((location, make_stamp(status)))
        # Of the mode only the executable bit counts: the rest depends on the umask and would change the digest.
        self.files.append(File(path=path, content=content, mode="0755" if status.st_mode & 0o111 else "0644"))

    def snapshot(self, name: str) -> Snapshot:
        """Return the files that were read as a package of that name; raise `Invalid` for hard links to files outside."""
        for linked in self._links.values():
            path, location, status = linked[0]
            managed = not _MANAGED_FOLDERS.isdisjoint(location.split("/")) and not _is_private(status)
            if status.st_nlink > len(linked) and not (managed or self.limits.hard_links):
                raise _hard_link_error(path)
        return Snapshot(
            # A name that is not UTF-8 contains surrogates.
            package=Package.of(name.encode(errors="replace").decode(), self.files, self.limits),
            stamps=tuple(self.stamps),
            settled=all(is_settled(stamp, self._read_at) for _, stamp in self.stamps),
        )


def _open_regular(
    name: str, path: str, folder: int | None = None, seen: os.stat_result | None = None
) -> tuple[int, os.stat_result]:
    """Open a regular file and return its descriptor and status; raise `Invalid` for anything else.

    Checked before opening, because opening a device or pipe can have effects, and again after, because the path may have
    been replaced in between.
    """
    _check_regular(path, seen or os.stat(name, dir_fd=folder, follow_symlinks=False))
    opened = os.open(name, _FLAGS, dir_fd=folder)
    status = os.fstat(opened)
    try:
        _check_regular(path, status)
    except Invalid:
        os.close(opened)
        raise
    return opened, status


def _is_private(status: os.stat_result) -> bool:
    """Return True if the file is not world-readable, or belongs to another user."""
    return not status.st_mode & stat.S_IROTH or status.st_uid not in (0, os.geteuid())


def _hard_link_error(path: str) -> Invalid:
    return Invalid(
        f"{path!r} is a hard link to a file outside the skill.",
        hint="Replace it with a copy: `cp FILE COPY && mv COPY FILE`.",
    )


def _check_regular(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _FILE_TYPES.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise Invalid(
            f"{path!r} is {kind}; only regular files are supported.",
            hint="Replace it with the actual file, or remove it.",
        )


def read_regular_file(name: str, limit: int, folder: int | None = None) -> bytes:
    """Return at most the first `limit` bytes of a regular file."""
    opened, status = _open_regular(name, name, folder)
    # Here nothing is known of the other links. A private file that has some is likely a secret.
    if status.st_nlink > 1 and _is_private(status):
        os.close(opened)
        raise _hard_link_error(name)
    with open(opened, "rb", buffering=0) as stream:
        return stream.read(limit) or b""


def _read(descriptor: int, path: str, size: int, limits: Limits) -> bytes:
    """Return the whole file; raise as soon as it turns out to be too large, as it may grow while it is read."""
    check_size(path, size, limits)
    # One byte more than expected shows that the file grew, without a second call in the usual case.
    content = os.read(descriptor, size + 1)
    if len(content) == size:
        return content
    pieces = [content]
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
        size = sum(map(len, pieces))
        check_size(path, size, limits)
    return b"".join(pieces)


def open_folder(location: str, root: str = "") -> int:
    """Open a folder and return its descriptor; with `root`, no component below that may be a link.

    Each component is opened relative to the one before, so that none can be swapped for a link in between.
    """
    if not root:
        return os.open(location, _FOLDER_FLAGS | os.O_NOFOLLOW)
    descriptor = os.open(root, _FOLDER_FLAGS)
    for part in location[len(root) + 1 :].split("/") if location != root else ():
        try:
            inner = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def snapshot_folder(location: str, limits: Limits = DEFAULT_LIMITS, *, root: str = "") -> Snapshot:
    """Read a folder as one skill; raise `OSError` for system errors, and `Invalid` for a rejected skill."""

    def read() -> Snapshot:
        descriptor = open_folder(location, root)
        try:
            reading = Reading(limits)
            reading.folder(descriptor, location)
        finally:
            os.close(descriptor)
        return reading.snapshot(os.path.basename(location))

    return read_until_stable(read)


def read_until_stable(read: Callable[[], Snapshot]) -> Snapshot:
    """Read until nothing changed in the meantime, so that a skill that is being replaced is read as the old or the new one."""
    for _ in range(_MAX_ATTEMPTS):
        with suppress(FileNotFoundError):
            snapshot = read()
            if stamps_match(snapshot.stamps):
                return snapshot
    return read()  # this time a missing file is an error
